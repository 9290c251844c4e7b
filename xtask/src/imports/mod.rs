//! `xtask imports`: the circles of imports, large structs and open fields of `crates/layers`, held
//! against a checked-in table that only becomes stricter.

mod circles;
mod figures;
mod ratchet;
mod show;
mod source;
#[cfg(test)]
mod tests;
mod tokens;
mod tree;

use std::fs;
use std::path::Path;

use anyhow::Context;

use figures::measure;
use tree::Tree;

/// Where the sources lie that are measured.
const SOURCES: &str = "crates/layers/src";
/// The table of what is allowed.
const TABLE: &str = "xtask/imports.txt";

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line that sums it up.
    Line,
    /// A table, and all circles.
    Table,
    /// JSON.
    Json,
    /// A drawing for Graphviz.
    Dot,
    /// As `Line`, and what became better is written to the checked-in table.
    Record,
}

/// Prints the table of the sources in `folder`, of this crate or another.
///
/// # Errors
/// When a file can't be read.
pub fn table_of(folder: &Path) -> anyhow::Result<()> {
    print!("{}", show::table(&measure(&Tree::read(folder)?)));
    Ok(())
}

/// Measures the repository at `root`, prints it as `form` and gives what became worse, in words.
///
/// # Errors
/// When a file can't be read or written.
pub fn run(root: &Path, form: Form) -> anyhow::Result<Vec<String>> {
    let measured = measure(&Tree::read(&root.join(SOURCES))?);
    let path = root.join(TABLE);
    let text = fs::read_to_string(&path).with_context(|| format!("can't read {TABLE}"))?;
    let text = if form == Form::Record { ratchet::merged(&text) } else { text };
    let table = ratchet::read(&text)?;
    let largest = measured.circles.first().map_or(0, Vec::len);
    match form {
        Form::Line | Form::Record => {
            println!("imports: {} parts, the largest circle has {largest}", measured.parts.len());
        }
        Form::Table => print!("{}", show::table(&measured)),
        Form::Json => print!("{}", show::json(&measured)),
        Form::Dot => print!("{}", show::dot(&measured)),
    }
    if form == Form::Record {
        fs::write(&path, ratchet::record(&table, &measured))
            .with_context(|| format!("can't write {TABLE}"))?;
    }
    Ok(ratchet::worse(&table, &measured))
}

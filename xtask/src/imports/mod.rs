//! `xtask imports`: the circles of imports, large structs and open fields of `crates/ftl/layers`,
//! and the floors of `crates/run/volume` and of the layer `log`, held against checked-in tables
//! that only become stricter.

mod circles;
mod figures;
mod floors;
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
use floors::{CRATES, Floors};
use tree::Tree;

/// Where the sources lie that are measured.
const SOURCES: &str = "crates/ftl/layers/src";
/// The table of what is allowed.
const TABLE: &str = "xtask/imports.txt";
/// The same of crates that are built in floors.
const FLOORS: &str = "xtask/floors.txt";

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
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
pub(crate) fn table_of(folder: &Path) -> anyhow::Result<()> {
    print!("{}", show::table(&measure(&Tree::read(folder)?)));
    Ok(())
}

/// Measures the repository at `root`, prints it as `form` and gives what became worse, in words.
pub(crate) fn run(root: &Path, form: Form) -> anyhow::Result<Vec<String>> {
    let measured = measure(&Tree::read(&root.join(SOURCES))?);
    let crates = CRATES.iter().map(|one| {
        let tree = Tree::read(&root.join(one.sources))?;
        Ok((one.name, floors::measure(&tree, one.within, one.floors)))
    });
    let crates = crates.collect::<anyhow::Result<Vec<(&str, Floors)>>>()?;
    let table = ratchet::read(&read(root, TABLE, form)?)?;
    let floor_table = floors::read(&read(root, FLOORS, form)?)?;
    let largest = measured.circles.first().map_or(0, Vec::len);
    match form {
        Form::Line | Form::Record => {
            println!("imports: {} parts, the largest circle has {largest}", measured.parts.len());
        }
        Form::Table => print!("{}", show::table(&measured)),
        Form::Json => print!("{}", show::json(&measured)),
        Form::Dot => print!("{}", show::dot(&measured)),
    }
    if matches!(form, Form::Line | Form::Record | Form::Table) {
        crates.iter().for_each(|(name, floors)| println!("{}", show::floors(name, floors)));
    }
    if form == Form::Record {
        write(root, TABLE, &ratchet::record(&table, &measured))?;
        write(root, FLOORS, &floors::record(&floor_table, &crates))?;
    }
    let mut worse = ratchet::worse(&table, &measured);
    worse.extend(crates.iter().flat_map(|(name, it)| floors::worse(&floor_table, name, it)));
    Ok(worse)
}

/// The text of a table; without the marks of a conflict when it is written again.
fn read(root: &Path, table: &str, form: Form) -> anyhow::Result<String> {
    let text =
        fs::read_to_string(root.join(table)).with_context(|| format!("can't read {table}"))?;
    Ok(if form == Form::Record { ratchet::merged(&text) } else { text })
}

fn write(root: &Path, table: &str, text: &str) -> anyhow::Result<()> {
    fs::write(root.join(table), text).with_context(|| format!("can't write {table}"))
}

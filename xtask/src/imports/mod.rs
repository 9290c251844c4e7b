//! `xtask imports`: the import cycles, large structs and open fields of `crates/ftl/layers`, and
//! the floors of `crates/run/volume` and of the layer `log`. The figures are compared with
//! checked-in tables that only become stricter.

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

/// Folder of the measured sources.
const SOURCES: &str = "crates/ftl/layers/src";
/// Table of limits.
const TABLE: &str = "xtask/imports.txt";
/// Table of limits of the crates with floors.
const FLOORS: &str = "xtask/floors.txt";

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A summary line.
    Line,
    /// A table, and all cycles.
    Table,
    /// JSON.
    Json,
    /// A graph for Graphviz.
    Dot,
    /// Like `Line`; tightened limits are written to the checked-in tables.
    Record,
}

/// Prints the table of the sources in `folder`, which may belong to another crate.
pub(crate) fn print_table(folder: &Path) -> anyhow::Result<()> {
    print!("{}", show::table(&measure(&Tree::read(folder)?)));
    Ok(())
}

/// Measures the repository at `root` and prints the result as `form`. Returns the figures that
/// exceed their limits.
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

/// Reads a table, without conflict markers if it will be rewritten.
fn read(root: &Path, table: &str, form: Form) -> anyhow::Result<String> {
    let text =
        fs::read_to_string(root.join(table)).with_context(|| format!("can't read {table}"))?;
    Ok(if form == Form::Record { ratchet::merged(&text) } else { text })
}

fn write(root: &Path, table: &str, text: &str) -> anyhow::Result<()> {
    fs::write(root.join(table), text).with_context(|| format!("can't write {table}"))
}

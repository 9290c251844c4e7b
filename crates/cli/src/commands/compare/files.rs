//! Rows as files for other programs: CSV and Parquet, with the same columns.

use std::fs;
use std::path::Path;

use anyhow::Context;
use hostftl_report::{Sheet, Values};
use hostftl_sim::Row;

use super::columns::{Get, columns};

/// Writes `rows` to `path` as CSV with a line of names; what a row does not have is empty.
///
/// # Errors
/// When the file can't be written.
pub fn csv(rows: &[Row], path: &Path) -> anyhow::Result<()> {
    save(path, sheet(rows).csv().as_bytes())
}

/// Writes `rows` to `path` as one row group of Parquet, uncompressed; counts are signed 64 bits.
///
/// # Errors
/// When the file can't be written.
pub fn parquet(rows: &[Row], path: &Path) -> anyhow::Result<()> {
    let by = format!("hostftl {}", env!("CARGO_PKG_VERSION"));
    save(path, &sheet(rows).parquet(&by).context("can't make Parquet of the rows")?)
}

fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("{}: can't write the rows", path.display()))
}

fn sheet(rows: &[Row]) -> Sheet {
    let mut sheet = Sheet::new();
    for column in columns() {
        let values = match &column.get {
            Get::Text(get) => Values::Texts(rows.iter().map(|row| get(row).to_owned()).collect()),
            Get::Flag(get) => Values::Flags(rows.iter().map(get).collect()),
            Get::Whole(get) => Values::Wholes(rows.iter().map(get).collect()),
            Get::Real(get) => Values::Reals(rows.iter().map(get).collect()),
        };
        sheet.column(column.name, values);
    }
    sheet
}

//! Rows as files for other programs: CSV and Parquet, with the same columns.

use std::fs;
use std::path::Path;

use anyhow::Context;
use hostftl_report::{Sheet, Values};
use hostftl_sim::{Hole, Outcome, Row};

use crate::columns::{Get, columns};

/// Writes `rows` to `path` as CSV with a line of names; what a row does not have is empty.
///
/// # Errors
/// When the file can't be written.
pub fn csv(outcome: &Outcome, path: &Path) -> anyhow::Result<()> {
    save(path, sheet(outcome).csv().as_bytes())
}

/// Writes `rows` to `path` as one row group of Parquet, uncompressed; counts are signed 64 bits.
///
/// # Errors
/// When the file can't be written.
pub fn parquet(outcome: &Outcome, path: &Path) -> anyhow::Result<()> {
    let by = format!("hostftl {}", env!("CARGO_PKG_VERSION"));
    save(path, &sheet(outcome).parquet(&by).context("can't make Parquet of the rows")?)
}

fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("{}: can't write the rows", path.display()))
}

/// A line for each row and each hole, in their order. A hole has its names and `failed` alone.
pub fn sheet(outcome: &Outcome) -> Sheet {
    let mut sheet = Sheet::new();
    let all: Vec<Result<&Row, &Hole>> = outcome.each().collect();
    let (of_hole, each) = (|_: &Hole| None::<u64>, all.iter().copied());
    for column in columns() {
        let values = match &column.get {
            Get::Text(get, hole) => {
                let text = |it: Result<&Row, &Hole>| it.map_or_else(hole, get).to_owned();
                Values::Texts(each.clone().map(text).collect())
            }
            Get::Flag(get) => Values::Flags(each.clone().map(|it| it.is_ok_and(get)).collect()),
            Get::Whole(get) => {
                Values::Wholes(each.clone().map(|it| it.map_or_else(of_hole, get)).collect())
            }
            Get::Real(get) => {
                Values::Reals(each.clone().map(|it| it.map_or_else(|_| None, get)).collect())
            }
        };
        sheet.column(column.name, values);
    }
    let reason = |it: Result<&Row, &Hole>| it.err().map(Hole::reason).unwrap_or_default();
    sheet.column("failed", Values::Texts(each.map(reason).collect()));
    sheet
}

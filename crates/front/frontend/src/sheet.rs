//! Rows as files for other programs: CSV and Parquet, with the same columns.

use std::collections::BTreeSet;

use hostftl_report::{Sheet, Values};
use hostftl_sim::{Hole, Outcome, Row};

use crate::columns::{Get, columns};
use crate::program;
use crate::wrong::Wrong;

/// Encodes the rows as Parquet: one row group, uncompressed, with counts as signed 64-bit integers.
///
/// # Errors
/// If the encoding fails.
pub fn parquet(outcome: &Outcome) -> Result<Vec<u8>, Wrong> {
    let bytes = sheet(outcome).parquet(&program::name());
    bytes.map_err(|why| Wrong::failed(format!("cannot convert the rows to Parquet: {why}")))
}

fn words<'a>(one: &Result<&'a Row, &'a Hole>) -> &'a [(String, String)] {
    one.map_or_else(|hole| &hole.parameters, |row| &row.parameters)
}

/// Returns the names of all parameters, each once.
fn parameters<'a>(all: &[Result<&'a Row, &'a Hole>]) -> BTreeSet<&'a str> {
    all.iter().flat_map(words).map(|(name, _)| name.as_str()).collect()
}

/// Returns a line for each row and each hole, in order. A hole has only its names and `failed`.
pub fn sheet(outcome: &Outcome) -> Sheet {
    let mut sheet = Sheet::new();
    let all: Vec<Result<&Row, &Hole>> = outcome.each().collect();
    let (of_hole, each) = (|_: &Hole| None::<u64>, all.iter().copied());
    for column in columns() {
        let values = match &column.get {
            Get::Text(get, hole) => {
                let text = |it: Result<&Row, &Hole>| it.map_or_else(hole, get).into_owned();
                Values::Texts(each.clone().map(text).collect())
            }
            Get::Number(get, hole) => {
                let number = |it: Result<&Row, &Hole>| Some(it.map_or_else(hole, get));
                Values::Wholes(each.clone().map(number).collect())
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
    for name in parameters(&all) {
        let word = |one: &Result<&Row, &Hole>| {
            let found = words(one).iter().find(|(known, _)| known == name);
            found.map_or(String::new(), |(_, word)| word.clone())
        };
        sheet.column(name, Values::Texts(all.iter().map(word).collect()));
    }
    let reason = |it: Result<&Row, &Hole>| it.err().map(Hole::reason).unwrap_or_default();
    sheet.column("failed", Values::Texts(each.map(reason).collect()));
    sheet
}

//! The checked-in table of texts that still exceed a goal. Counts in it only decrease.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, bail};

use super::words::{Figures, GROUPS};

/// A measured text: avoided words by group, and retired words in identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Figures of the text.
    pub figures: Figures,
    /// Number of different identifiers with a retired word.
    pub names: u64,
}

impl Row {
    /// Returns the counts of a table row: 0 where the goal is reached.
    fn counts(&self) -> [u64; 6] {
        let mut counts = [0; 6];
        for (at, count) in counts.iter_mut().enumerate().take(5) {
            *count = if self.figures.exceeds(at) { self.figures.found[at] } else { 0 };
        }
        counts[5] = self.names;
        counts
    }
}

/// Allowed counts by text.
pub(super) type Table = BTreeMap<String, [u64; 6]>;
/// Measured texts by name.
pub(super) type Measured = BTreeMap<String, Row>;

const HEAD: &str = "\
# Number of avoided words that `xtask prose` allows in each text that exceeds a goal, and of
# different identifiers with a retired word of docs/GLOSSARY.md. Counts only decrease: `xtask prose
# --record` writes lower ones. A text without a row must reach the goals.
#
";

/// Parses the table. If a text occurs twice, the lower counts apply.
pub(super) fn read(text: &str) -> anyhow::Result<Table> {
    let mut table = Table::new();
    let lines = text.lines().filter(|line| !line.starts_with(['#', '<', '=', '>']));
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default().to_owned();
        let counts: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let counts = counts.with_context(|| format!("cannot parse '{line}'"))?;
        let Ok(counts) = <[u64; 6]>::try_from(counts) else {
            bail!("'{line}' does not have a name and six numbers");
        };
        let known = table.entry(name).or_insert(counts);
        known.iter_mut().zip(counts).for_each(|(known, count)| *known = (*known).min(count));
    }
    Ok(table)
}

/// Returns the table with the counts lowered to the measured ones, or a new table.
pub(super) fn record(table: Option<&Table>, measured: &Measured) -> String {
    let mut text = HEAD.to_owned();
    let heads = GROUPS.iter().chain(&["names"]).map(|head| format!("{head:>8}"));
    let _ = writeln!(text, "# {:<22}{}", "text", heads.collect::<String>());
    for (name, row) in measured {
        let mut counts = row.counts();
        if let Some(table) = table {
            let known = table.get(name).copied().unwrap_or_default();
            counts.iter_mut().zip(known).for_each(|(count, known)| *count = (*count).min(known));
        }
        if counts.iter().any(|count| *count > 0) {
            let counts: String = counts.iter().map(|count| format!("{count:>8}")).collect();
            let _ = writeln!(text, "{name:<24}{counts}");
        }
    }
    text
}

/// Returns the counts that exceed both the goal and the table.
pub(super) fn worse(table: &Table, measured: &Measured) -> Vec<String> {
    let mut found = Vec::new();
    for (name, row) in measured {
        let known = table.get(name).copied().unwrap_or_default();
        let groups = GROUPS.iter().chain(&["retired names"]);
        for ((count, known), group) in row.counts().into_iter().zip(known).zip(groups) {
            if count > known {
                found.push(format!("{name}: {count} of `{group}`; at most {known}"));
            }
        }
    }
    found
}

//! Limits of each part, in a checked-in table that only becomes stricter.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, bail};

use super::figures::{Figures, Measured};

/// Limits of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Maximum number of files in a cycle.
    pub circle: u32,
    /// Maximum number of files with an `impl` of one type.
    pub impls: u32,
    /// Maximum number of fields in a struct.
    pub fields: u32,
    /// Maximum number of fields that other files can access.
    pub open: u32,
    /// Minimum number of assertions per 1,000 lines.
    pub density: u32,
}

/// Goal of every part, and limits of a part that the table does not have. A part that meets the
/// goal may change freely within it. The limit of fields in a struct applies regardless of the
/// table.
const GOAL: Allowed = Allowed { circle: 8, impls: 4, fields: 16, open: u32::MAX, density: 0 };

const HEAD: &str = "\
# Limits of `xtask imports` for each part of crates/ftl/layers. Limits only become stricter:
# `xtask imports --record` writes improved figures. The goal of all parts is circle 8, impls 4,
# fields 16; docs/HACKING.md explains each figure.
#
# part        circle  impls  fields  open  asserts/1000
";

impl Allowed {
    /// Returns the limits that follow from the figures of a part.
    fn of(figures: &Figures) -> Self {
        Allowed {
            circle: figures.circle.max(GOAL.circle),
            impls: figures.impls.0.max(GOAL.impls),
            fields: figures.fields.0.max(GOAL.fields),
            open: figures.open,
            density: figures.density(),
        }
    }

    /// Returns the stricter of both limits for each figure.
    fn and(self, other: Allowed) -> Self {
        Allowed {
            circle: self.circle.min(other.circle),
            impls: self.impls.min(other.impls),
            fields: self.fields.min(other.fields),
            open: self.open.min(other.open),
            density: self.density.max(other.density),
        }
    }
}

/// Limits by part.
pub(super) type Table = BTreeMap<String, Allowed>;

/// Returns `text` without the markers of a merge conflict. A part can then occur twice.
pub(super) fn merged(text: &str) -> String {
    let is_mark = |line: &&str| {
        ["<<<<<<<", "|||||||", "=======", ">>>>>>>"].iter().any(|mark| line.starts_with(mark))
    };
    text.lines().filter(|line| !is_mark(line)).map(|line| format!("{line}\n")).collect()
}

/// Parses the table. If a part occurs twice, the stricter limits apply.
pub(super) fn read(text: &str) -> anyhow::Result<Table> {
    let mut table = Table::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Result<Vec<u32>, _> = words[1..].iter().map(|word| word.parse()).collect();
        let numbers = numbers.with_context(|| format!("cannot parse a number in '{line}'"))?;
        let [circle, impls, fields, open, density] = numbers[..] else {
            bail!("'{line}' does not have a part and five numbers");
        };
        let row = Allowed { circle, impls, fields, open, density };
        let row = table.get(words[0]).map_or(row, |other: &Allowed| other.and(row));
        table.insert(words[0].to_owned(), row);
    }
    Ok(table)
}

/// Returns the table in the format of [`read`], with the limits tightened to the measured figures,
/// and without parts that no longer exist.
pub(super) fn record(table: &Table, measured: &Measured) -> String {
    let mut text = HEAD.to_owned();
    for (part, figures) in &measured.parts {
        let now = Allowed::of(figures);
        let it = table.get(part).map_or(now, |allowed| allowed.and(now));
        let Allowed { circle, impls, fields, open, density } = it;
        writeln!(text, "{part:<13} {circle:>6} {impls:>6} {fields:>7} {open:>5} {density:>13}")
            .expect("writing to a string succeeds");
    }
    text
}

/// Returns the figures that exceed the table's limits.
pub(super) fn worse(table: &Table, measured: &Measured) -> Vec<String> {
    let mut found = Vec::new();
    for (part, figures) in &measured.parts {
        let most = table.get(part).copied().unwrap_or(GOAL);
        let now = Allowed::of(figures);
        let mut at_most = |unit: &str, has: u32, most: u32| {
            if has > most {
                found.push(format!("{part}: {has} {unit}; at most {most}"));
            }
        };
        at_most("files in a circle of imports", now.circle, most.circle);
        at_most(&format!("files with `impl {}`", figures.impls.1), now.impls, most.impls);
        let most_fields = most.fields.min(GOAL.fields);
        at_most(&format!("fields of `{}`", figures.fields.1), now.fields, most_fields);
        at_most("fields that other files can access", now.open, most.open);
        if now.density < most.density {
            let (has, least) = (now.density, most.density);
            found.push(format!("{part}: {has} assertions per 1,000 lines; at least {least}"));
        }
    }
    found
}

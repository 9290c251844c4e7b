//! Floors of a crate, or of a folder in it: groups of modules whose imports lead downwards only.
//! The figures are compared with a checked-in table that only becomes stricter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Context, bail};

use super::circles::circles;
use super::tree::{File, Tree};

/// A crate or a folder in it, whose cycles are limited, and whose imports must lead downwards if it
/// has floors.
pub(super) struct Crate {
    /// Name in the table.
    pub name: &'static str,
    /// Folder of its sources.
    pub sources: &'static str,
    /// Folder that is measured; empty for all sources.
    pub within: &'static str,
    /// Floors from the top, each with the names of its modules. A module belongs to the longest
    /// name that contains it. The root, `lib.rs` or `mod.rs`, is above all floors. Without floors
    /// only cycles are measured.
    pub floors: &'static [&'static str],
}

/// Measured crates.
pub(super) const CRATES: [Crate; 5] = [
    Crate {
        name: "volume",
        sources: "crates/run/volume/src",
        within: "",
        floors: &["admin", "change", "running", "open", "metadata", "util"],
    },
    Crate {
        name: "log",
        sources: "crates/ftl/layers/src",
        within: "log",
        floors: &[
            "register rounds fast_path completion",
            "host recovery",
            "array check operate plan stripe/append redundancy/failed_devices",
            "background gc scrub",
            "mapping checkpoint map",
            "output journal stripe durability redundancy/timed_out",
            "media devices zoned segments buffers background_rate redundancy/metadata",
            "layout chunk_placement ops params volume redundancy map/size map/bits journal/ring \
             stripe/records stripe/spread stripe/streams",
        ],
    },
    Crate { name: "drives", sources: "crates/study/drives/src", within: "", floors: &[] },
    Crate { name: "chaos", sources: "crates/check/chaos/src", within: "", floors: &[] },
    Crate { name: "sim", sources: "crates/study/sim/src", within: "", floors: &[] },
];

/// Figures of a crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Floors {
    /// Imports that lead upwards, by file.
    pub upward: Vec<(String, String)>,
    /// Files that are on no floor.
    pub outside: Vec<String>,
    /// Files in the largest import cycle.
    pub circle: u32,
    /// Highest number of modules on one level, and the folder.
    pub level: (u32, String),
}

/// Limits of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Maximum number of imports that lead upwards.
    pub upward: u32,
    /// Maximum number of files in a cycle.
    pub circle: u32,
    /// Maximum number of modules on one level.
    pub level: u32,
}

/// Goal of every crate. A crate that meets it may change freely within it.
const GOAL: Allowed = Allowed { upward: 0, circle: 4, level: 12 };

const HEAD: &str = "\
# Limits of `xtask imports` for each crate that is built in floors. Limits only become stricter:
# `xtask imports --record` writes improved figures. The goal is upward 0, circle 4, level 12;
# docs/HACKING.md explains each figure.
#
# crate       upward circle level
";

/// Measures the folder `within` of a crate with these floors, the top one first. Without floors
/// only its cycles are measured.
pub(super) fn measure(tree: &Tree, within: &str, floors: &[&str]) -> Floors {
    let is_below = |file: &File| below(file, within).is_some_and(|module| !module.is_empty());
    let height = |file: &File| height(&below(file, within)?, floors);
    let is_inside = |file: &usize| below(&tree.files[*file], within).is_some();
    let edges: Vec<BTreeSet<usize>> = (0..tree.files.len())
        .map(|from| tree.leads_to(from).into_iter().filter(is_inside).collect())
        .collect();
    let circle = circles(&edges).first().map_or(0, |circle| circle.len() as u32);
    if floors.is_empty() {
        return Floors { circle, ..Floors::default() };
    }
    let mut upward = Vec::new();
    for (from, targets) in tree.files.iter().zip(&edges).filter(|(from, _)| is_below(from)) {
        let targets = targets.iter().map(|to| &tree.files[*to]);
        let above = targets.filter(|to| !is_below(to) || height(to) > height(from));
        upward.extend(above.map(|to| (from.name.clone(), to.name.clone())));
    }
    let outside = tree.files.iter().filter(|file| is_below(file) && height(file).is_none());
    let mut levels: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| is_below(file)) {
        if let Some((name, folder)) = file.module.split_last() {
            levels.entry(folder.join("/")).or_default().insert(name);
        }
    }
    let fullest = levels.into_iter().max_by_key(|(_, modules)| modules.len());
    Floors {
        upward,
        outside: outside.map(|file| file.name.clone()).collect(),
        circle,
        level: fullest.map_or_else(Default::default, |(name, all)| (all.len() as u32, name)),
    }
}

/// Returns the module of a file relative to the folder `within`, or `None` if it is outside.
fn below(file: &File, within: &str) -> Option<String> {
    let module = file.module.join("/");
    match (within, module.strip_prefix(within)?) {
        ("", rest) | (_, rest @ "") => Some(rest.to_owned()),
        (_, rest) => rest.strip_prefix('/').map(str::to_owned),
    }
}

/// Returns the floor of a module, counted from the lowest one.
fn height(module: &str, floors: &[&str]) -> Option<usize> {
    let lies_in = |name: &str| {
        module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let names = floors.iter().rev().enumerate();
    let names = names.flat_map(|(at, floor)| floor.split_whitespace().map(move |name| (name, at)));
    let longest = names.filter(|(name, _)| lies_in(name)).max_by_key(|(name, _)| name.len());
    longest.map(|(_, at)| at)
}

impl Allowed {
    /// Returns the limits that follow from the figures of a crate.
    fn of(floors: &Floors) -> Self {
        Allowed {
            upward: floors.upward.len() as u32,
            circle: floors.circle.max(GOAL.circle),
            level: floors.level.0.max(GOAL.level),
        }
    }

    /// Returns the stricter of both limits for each figure.
    fn and(self, other: Allowed) -> Self {
        Allowed {
            upward: self.upward.min(other.upward),
            circle: self.circle.min(other.circle),
            level: self.level.min(other.level),
        }
    }
}

/// Limits by crate.
pub(super) type Table = BTreeMap<String, Allowed>;

/// Parses the table. If a crate occurs twice, the stricter limits apply.
pub(super) fn read(text: &str) -> anyhow::Result<Table> {
    let mut table = Table::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Result<Vec<u32>, _> = words[1..].iter().map(|word| word.parse()).collect();
        let numbers = numbers.with_context(|| format!("cannot parse a number in '{line}'"))?;
        let [upward, circle, level] = numbers[..] else {
            bail!("'{line}' does not have a crate and three numbers");
        };
        let row = Allowed { upward, circle, level };
        let row = table.get(words[0]).map_or(row, |other: &Allowed| other.and(row));
        table.insert(words[0].to_owned(), row);
    }
    Ok(table)
}

/// Returns the table in the format of [`read`], with the limits tightened to the measured figures.
pub(super) fn record(table: &Table, measured: &[(&str, Floors)]) -> String {
    let mut text = HEAD.to_owned();
    for (name, floors) in measured {
        let now = Allowed::of(floors);
        let Allowed { upward, circle, level } =
            table.get(*name).map_or(now, |allowed| allowed.and(now));
        writeln!(text, "{name:<13} {upward:>6} {circle:>6} {level:>5}")
            .expect("writing to a string succeeds");
    }
    text
}

/// Returns the figures of a crate that exceed the table's limits.
pub(super) fn worse(table: &Table, name: &str, floors: &Floors) -> Vec<String> {
    let most = table.get(name).copied().unwrap_or(GOAL);
    let now = Allowed::of(floors);
    let outside = floors.outside.iter();
    let mut found: Vec<String> =
        outside.map(|file| format!("{name}: {file} is on no floor")).collect();
    if now.upward > most.upward {
        let named = floors.upward.iter();
        found.extend(named.map(|(from, to)| format!("{name}: {from} imports {to} from above")));
    }
    let circle = (now.circle, most.circle, "files in a circle of imports".to_owned());
    let level = (now.level, most.level, format!("modules in `{}`", floors.level.1));
    for (has, most, unit) in [circle, level].into_iter().filter(|(has, most, _)| has > most) {
        found.push(format!("{name}: {has} {unit}; at most {most}"));
    }
    found
}

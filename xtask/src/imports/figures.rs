//! The figures of each part of a crate, a part being a folder or file of the first level.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::circles;
use super::tree::Tree;

/// What is measured of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Files.
    pub files: u32,
    /// Lines with code, tests left out, and what has words alone.
    pub lines: u32,
    /// Files of the largest circle of imports that has a file of this part.
    pub circle: u32,
    /// Most files that have an `impl` of one type, and the type.
    pub impls: (u32, String),
    /// Most fields of a struct, and the struct.
    pub fields: (u32, String),
    /// Fields that other files can touch.
    pub open: u32,
    /// Most files of the part that lead to one of its files, and that file.
    pub hub: (u32, String),
    /// Lines that change state: see [`super::source::Source::changes`].
    pub changes: u32,
    /// Assertions.
    pub asserts: u32,
}

impl Figures {
    /// Lines that change state for each assertion; `None` without any.
    pub(super) fn changes_each(&self) -> Option<f64> {
        (self.asserts > 0).then(|| f64::from(self.changes) / f64::from(self.asserts))
    }

    /// Assertions in 1,000 lines, rounded: a line more or less is no change.
    pub(super) fn density(&self) -> u32 {
        let lines = self.lines.max(1);
        (self.asserts * 1000 + lines / 2) / lines
    }
}

/// What was measured.
#[derive(Debug)]
pub(super) struct Measured {
    /// Of each part, by name.
    pub parts: BTreeMap<String, Figures>,
    /// The circles of the whole crate, as names of files, the largest first.
    pub circles: Vec<Vec<String>>,
    /// Which file leads to which, by name.
    pub edges: Vec<(String, String)>,
}

/// Measures `tree`.
pub(super) fn measure(tree: &Tree) -> Measured {
    let edges: Vec<BTreeSet<usize>> =
        (0..tree.files.len()).map(|from| tree.leads_to(from)).collect();
    let all = circles(&edges);
    let mut parts: BTreeMap<String, Figures> = BTreeMap::new();
    for (index, file) in tree.files.iter().enumerate() {
        let part = parts.entry(file.part().to_owned()).or_default();
        part.files += 1;
        if !has_words_alone(&file.name) {
            part.lines += file.source.lines;
            part.asserts += file.source.asserts;
            part.changes += file.source.changes;
            part.open += file.source.structs.iter().map(|it| it.open).sum::<u32>();
        }
        for it in &file.source.structs {
            raise(&mut part.fields, it.fields, &it.name);
        }
        let inside =
            |&from: &usize| edges[from].contains(&index) && tree.files[from].part() == file.part();
        raise(&mut part.hub, (0..edges.len()).filter(inside).count() as u32, &file.name);
    }
    for circle in &all {
        for name in circle.iter().map(|&file| tree.files[file].part()).collect::<BTreeSet<_>>() {
            let part = parts.get_mut(name).expect("each file has a part");
            part.circle = part.circle.max(circle.len() as u32);
        }
    }
    for ((part, name), count) in impls(tree) {
        raise(&mut parts.get_mut(&part).expect("each file has a part").impls, count, &name);
    }
    let name = |file: usize| tree.files[file].name.clone();
    let pairs =
        edges.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |to| (from, *to)));
    Measured {
        parts,
        circles: all.iter().map(|circle| circle.iter().map(|&file| name(file)).collect()).collect(),
        edges: pairs.map(|(from, to)| (name(from), name(to))).collect(),
    }
}

/// Whether a file has the words and values of a layer's parameters, and no state: it needs neither
/// assertions nor private fields.
fn has_words_alone(name: &str) -> bool {
    name.ends_with("/params.rs") || name.ends_with("/register.rs")
}

fn raise(most: &mut (u32, String), value: u32, name: &str) {
    if value > most.0 {
        *most = (value, name.to_owned());
    }
}

/// In how many files each type of a part has an `impl`.
fn impls(tree: &Tree) -> BTreeMap<(String, String), u32> {
    let mut homes: BTreeMap<(usize, String), u32> = BTreeMap::new();
    for (index, file) in tree.files.iter().enumerate() {
        for path in &file.source.impls {
            if let (Some(home), Some(name)) = (tree.home_of(index, path), path.last()) {
                *homes.entry((home, name.clone())).or_default() += 1;
            }
        }
    }
    let mut most: BTreeMap<(String, String), u32> = BTreeMap::new();
    for ((home, name), count) in homes {
        let entry = most.entry((tree.files[home].part().to_owned(), name)).or_default();
        *entry = count.max(*entry);
    }
    most
}

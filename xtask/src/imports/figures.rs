//! Figures of each part of a crate. A part is a folder or file of the first level.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::circles;
use super::tree::Tree;

/// Figures of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Number of files.
    pub files: u32,
    /// Lines of code, without tests and without files of parameter names.
    pub lines: u32,
    /// Files in the largest import cycle with a file of this part.
    pub circle: u32,
    /// Highest number of files with an `impl` of one type, and the type.
    pub impls: (u32, String),
    /// Highest number of fields in a struct, and the struct.
    pub fields: (u32, String),
    /// Fields that other files can access.
    pub open: u32,
    /// Highest number of the part's files that import one of its files, and that file.
    pub hub: (u32, String),
    /// Lines that change state; see [`super::source::Source::changes`].
    pub changes: u32,
    /// Number of assertions.
    pub asserts: u32,
}

impl Figures {
    /// Returns the lines that change state per assertion, or `None` without assertions.
    pub(super) fn changes_each(&self) -> Option<f64> {
        (self.asserts > 0).then(|| f64::from(self.changes) / f64::from(self.asserts))
    }

    /// Returns the assertions per 1,000 lines, rounded so that a single line makes no difference.
    pub(super) fn density(&self) -> u32 {
        let lines = self.lines.max(1);
        (self.asserts * 1000 + lines / 2) / lines
    }
}

/// Figures of a crate.
#[derive(Debug)]
pub(super) struct Measured {
    /// Figures of each part, by name.
    pub parts: BTreeMap<String, Figures>,
    /// Cycles of the whole crate as file names, the largest first.
    pub circles: Vec<Vec<String>>,
    /// Imports as pairs of file names.
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

/// Returns whether a file has only the names and values of a layer's parameters and no state. It
/// then needs neither assertions nor private fields.
fn has_words_alone(name: &str) -> bool {
    name.ends_with("/params.rs") || name.ends_with("/register.rs")
}

fn raise(most: &mut (u32, String), value: u32, name: &str) {
    if value > most.0 {
        *most = (value, name.to_owned());
    }
}

/// Returns the highest number of files with an `impl` of one type, for each part and type name.
fn impls(tree: &Tree) -> BTreeMap<(String, String), u32> {
    let mut homes: BTreeMap<(usize, String), u32> = BTreeMap::new();
    for (index, file) in tree.files.iter().enumerate() {
        for path in &file.source.impls {
            if let (Some(home), Some(name)) = (tree.declaring_file(index, path), path.last()) {
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

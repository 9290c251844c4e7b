//! The files of a crate as modules, and the file to which each import leads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path as FsPath;

use anyhow::Context;

use super::source::{self, Path, Source};

/// A file.
#[derive(Debug)]
pub(super) struct File {
    /// Path below the folder of sources.
    pub name: String,
    /// Path of its module; empty for the root.
    pub module: Path,
    /// Parsed content.
    pub source: Source,
}

impl File {
    /// Returns the folder or file of the first level to which it belongs.
    pub(super) fn part(&self) -> &str {
        self.module.first().map_or("lib", String::as_str)
    }
}

/// All files of a crate, except those for tests only.
#[derive(Debug)]
pub(super) struct Tree {
    /// Files, sorted by name.
    pub files: Vec<File>,
    modules: BTreeMap<Path, usize>,
}

/// Maximum number of re-exports that are followed for one name. It ends the search in a cycle.
const HOPS: u32 = 16;

impl Tree {
    /// Reads all sources below `folder`.
    pub(super) fn read(folder: &FsPath) -> anyhow::Result<Self> {
        let mut texts = Vec::new();
        collect(folder, folder, &mut texts)?;
        Ok(Tree::new(texts))
    }

    /// Makes a tree from the names and texts of files.
    pub(super) fn new(texts: Vec<(String, String)>) -> Self {
        let file = |(name, text): (String, String)| {
            let (module, source) = (module(&name), source::read(&text));
            File { name, module, source }
        };
        let mut files: Vec<File> = texts.into_iter().map(file).collect();
        let tests: BTreeSet<Path> = files.iter().flat_map(test_modules).collect();
        files
            .retain(|file| !(0..=file.module.len()).any(|end| tests.contains(&file.module[..end])));
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let modules = files.iter().enumerate();
        let modules = modules.map(|(index, file)| (file.module.clone(), index)).collect();
        Tree { files, modules }
    }

    /// Returns the files of the modules that a file names in its imports and paths, without itself.
    /// A re-export counts as part of the module that has it.
    pub(super) fn leads_to(&self, from: usize) -> BTreeSet<usize> {
        let source = &self.files[from].source;
        let items = source.uses.values().chain(&source.globs).chain(&source.paths);
        let full = items.filter_map(|path| self.full(from, path, HOPS));
        let mut found: BTreeSet<usize> = full.map(|path| self.innermost_module(&path).0).collect();
        found.remove(&from);
        found
    }

    /// Returns the file that declares the item `path` of the file `from`, or `None` if it belongs
    /// to another crate.
    pub(super) fn declaring_file(&self, from: usize, path: &Path) -> Option<usize> {
        let full = self.full(from, path, HOPS)?;
        self.declared(&full, HOPS)
    }

    /// Returns the file of the innermost module in `full`, and the number of words in that module's
    /// path.
    fn innermost_module(&self, full: &Path) -> (usize, usize) {
        let known = |&end: &usize| self.modules.contains_key(&full[..end]);
        let depth = (0..=full.len()).rev().find(known).unwrap_or(0);
        (self.modules.get(&full[..depth]).copied().unwrap_or(0), depth)
    }

    /// Resolves a path to one from the root of the crate.
    fn full(&self, from: usize, path: &Path, hops: u32) -> Option<Path> {
        let file = &self.files[from];
        if let Some(full) = absolute(&file.module, path) {
            return Some(full);
        }
        let child: Path = file.module.iter().cloned().chain([path[0].clone()]).collect();
        if self.modules.contains_key(&child) || file.source.declares.contains(&path[0]) {
            return Some(file.module.iter().chain(path).cloned().collect());
        }
        let behind = file.source.uses.get(&path[0]).filter(|used| hops > 0 && *used != path)?;
        let head = self.full(from, behind, hops - 1)?;
        Some(head.into_iter().chain(path[1..].iter().cloned()).collect())
    }

    /// Returns the file that declares the item `full`, following re-exports.
    fn declared(&self, full: &Path, hops: u32) -> Option<usize> {
        let (index, depth) = self.innermost_module(full);
        let source = &self.files[index].source;
        let behind = full.get(depth).and_then(|name| source.uses.get(name));
        match behind {
            Some(path) if hops > 0 => {
                let through = self.full(index, path, hops - 1);
                through.and_then(|path| self.declared(&path, hops - 1))
            }
            _ => Some(index),
        }
    }
}

/// Resolves `path` to one from the root of the crate if it begins with `crate`, `self` or `super`.
fn absolute(module: &Path, path: &Path) -> Option<Path> {
    let ups = path.iter().take_while(|word| *word == "super").count();
    let (base, rest) = match path[0].as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (&module[..], &path[1..]),
        "super" => (&module[..module.len().saturating_sub(ups)], &path[ups..]),
        _ => return None,
    };
    Some(base.iter().chain(rest).cloned().collect())
}

/// Returns the module of a file: `a/mod.rs` and `a.rs` are `a`, and `lib.rs` is the root.
fn module(name: &str) -> Path {
    let bare = name.strip_suffix(".rs").unwrap_or(name);
    let bare = bare.strip_suffix("/mod").unwrap_or(bare);
    match bare {
        "lib" => Vec::new(),
        _ => bare.split('/').map(str::to_owned).collect(),
    }
}

fn test_modules(file: &File) -> impl Iterator<Item = Path> {
    let name = |test: &String| file.module.iter().chain([test]).cloned().collect();
    file.source.tests.iter().map(name)
}

fn collect(root: &FsPath, folder: &FsPath, into: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("can't list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, into)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let name = path.strip_prefix(root).expect("it is below the root").display().to_string();
            let text = fs::read_to_string(&path).with_context(|| format!("can't read {name}"))?;
            into.push((name, text));
        }
    }
    Ok(())
}

//! `xtask docs`: checks that the target of every link and every named source file in the documents
//! exists.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::tidy::Finding;

/// Document of past changes. It may name files that no longer exist.
const OF_THE_PAST: &str = "CHANGELOG.md";

/// The tracked files below a root: the text of the documents, and the names of all files.
pub(crate) struct Repository {
    names: Vec<String>,
    documents: BTreeMap<String, String>,
}

/// Reads the repository at `root`.
pub(crate) fn read(root: &Path) -> anyhow::Result<Repository> {
    let asked = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let list = Command::new("git").args(asked).current_dir(root).output()?;
    let list = String::from_utf8(list.stdout).context("a name is not UTF-8")?;
    let there = |name: &&str| root.join(name).exists();
    let names: Vec<_> = list.split_terminator('\0').filter(there).map(String::from).collect();
    let mut documents = BTreeMap::new();
    for name in names.iter().filter(|name| name.ends_with(".md")) {
        let text = std::fs::read_to_string(root.join(name));
        documents.insert(name.clone(), text.with_context(|| format!("can't read {name}"))?);
    }
    Ok(Repository { names, documents })
}

impl Repository {
    /// Returns the number of documents.
    pub(crate) fn documents(&self) -> usize {
        self.documents.len()
    }

    /// Returns a finding for every missing link target, heading and source file.
    pub(crate) fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (file, text) in &self.documents {
            for (line, text) in prose(text) {
                let links = links(text).filter_map(|target| self.bad_link(file, target));
                let sources = code(text).filter_map(|name| self.bad_name(file, name));
                let found = links.chain(sources);
                findings.extend(found.map(|text| Finding { file: file.clone(), line, text }));
            }
        }
        findings
    }

    /// Checks a link of the document `file`.
    fn bad_link(&self, file: &str, target: &str) -> Option<String> {
        if target.contains("://") || target.starts_with("mailto:") {
            return None;
        }
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.to_owned() } else { beside(file, path) };
        let folder = format!("{}/", path.trim_end_matches('/'));
        if !self.names.iter().any(|name| *name == path || name.starts_with(&folder)) {
            return Some(format!("{target}: {path} does not exist"));
        }
        let text = self.documents.get(&path).filter(|_| !heading.is_empty())?;
        let is_there = headings(text).any(|it| it == heading);
        (!is_there).then(|| format!("{target}: {path} has no heading #{heading}"))
    }

    /// Checks a name in backticks: a source file with that name must exist. Parent folders may be
    /// omitted, and `src/` within the name.
    fn bad_name(&self, file: &str, name: &str) -> Option<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
        let is_source = name.ends_with(".rs") && name.chars().all(plain);
        if !is_source || file == OF_THE_PAST {
            return None;
        }
        let short = |name: &str| format!("/{}", name.replace("src/", ""));
        let end = short(name);
        let is_there = self.names.iter().any(|it| short(it).ends_with(&end));
        (!is_there).then(|| format!("source file `{name}` does not exist"))
    }
}

/// Returns the lines outside fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        !is_code && !fence
    })
}

/// Returns the targets of the links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns the texts in backticks in a line.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the anchors of the headings in a document.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = prose(text).filter(|(_, line)| line.starts_with('#'));
    titles.map(|(_, line)| {
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    })
}

/// Resolves `target`, relative to the folder of `file`, to a path from the root.
fn beside(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

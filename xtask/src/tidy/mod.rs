//! Coding rules that neither rustfmt nor clippy checks.

mod manifest;
pub(crate) mod mask;
mod source;
#[cfg(test)]
mod tests;
mod tracked;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A finding: its position, and the violated rule with the fix.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path from the root of the repository.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Violated rule, and the fix.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// Result of a check.
#[derive(Debug)]
pub(crate) struct Report {
    /// Number of files that were read.
    pub files: usize,
    /// Findings, by file and line.
    pub findings: Vec<Finding>,
}

/// Checks every Rust file and every manifest of a pure crate below `root`, and the tracked files.
pub(crate) fn check(root: &Path) -> anyhow::Result<Report> {
    let mut paths = Vec::new();
    for folder in ["crates", "xtask", "fuzz", "bench"] {
        collect(&root.join(folder), &mut paths)?;
    }
    paths.sort();
    let mut report = Report { files: 0, findings: tracked::check(root) };
    for path in paths {
        let name = path.strip_prefix(root).expect("it is below the root").display().to_string();
        let text = fs::read_to_string(&path).with_context(|| format!("can't read {name}"))?;
        report.files += 1;
        report.findings.extend(if name.ends_with(".toml") {
            manifest::check(&name, &text)
        } else {
            source::check(&name, &text)
        });
    }
    Ok(report)
}

/// Adds the Rust files and manifests below `folder`, which may be absent.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| format!("can't list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with("target") && !name.starts_with('.') {
                collect(&path, into)?;
            }
        } else if name.ends_with(".rs") || name == "Cargo.toml" {
            into.push(path);
        }
    }
    Ok(())
}

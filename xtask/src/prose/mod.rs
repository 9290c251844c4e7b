//! `xtask prose`: avoided words in comments, help texts, messages and documents, and retired words
//! of the glossary in identifiers. A checked-in table has the limits, which only become stricter.

mod source;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use table::Measured;
use words::{GOALS, GROUPS, count};

/// Table of allowed counts.
const TABLE: &str = "xtask/prose.txt";
/// Document with the retired words.
const GLOSSARY: &str = "docs/GLOSSARY.md";

/// Measures the repository at `root` and prints a summary, or all rates with `is_long`. Lowers the
/// counts of the table with `is_recording`. Returns the figures that exceed the table.
pub(crate) fn run(root: &Path, is_long: bool, is_recording: bool) -> anyhow::Result<Vec<String>> {
    let measured = measure(root)?;
    let text = fs::read_to_string(root.join(TABLE)).ok();
    let table = text.as_deref().map(table::read).transpose()?;
    if is_long {
        print!("{}", rates(&measured));
    }
    let is_fine = |it: &&table::Row| (0..GOALS.len()).all(|at| !it.figures.exceeds(at));
    let fine = measured.values().filter(is_fine).count();
    println!("prose: {fine} of {} texts reach the goals", measured.len());
    if is_recording {
        let text = table::record(table.as_ref(), &measured);
        fs::write(root.join(TABLE), text).with_context(|| format!("cannot write {TABLE}"))?;
        return Ok(Vec::new());
    }
    Ok(table::worse(&table.unwrap_or_default(), &measured))
}

/// Returns the rates in words per 1,000.
fn rates(measured: &Measured) -> String {
    let heads: String = GROUPS.iter().map(|head| format!("{head:>9}")).collect();
    let mut text = format!("{:<24}{:>9}{heads}{:>9}\n", "text", "words", "names");
    for (name, row) in measured {
        let rates = (0..GROUPS.len()).map(|at| format!("{:>9.1}", row.figures.rate(at)));
        let rates: String = rates.collect();
        text += &format!("{name:<24}{:>9}{rates}{:>9}\n", row.figures.words, row.names);
    }
    text
}

/// Measures every crate and the documents.
fn measure(root: &Path) -> anyhow::Result<Measured> {
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let retired = retired(&read(&root.join(GLOSSARY))?);
    let mut measured = Measured::new();
    for folder in crates(root)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut names = BTreeSet::new();
        let mut files = Vec::new();
        collect(&folder, "rs", &mut files)?;
        for path in files {
            let is_test = path.components().any(|it| it.as_os_str() == "tests")
                || path.file_stem().is_some_and(|it| it.to_string_lossy().ends_with("tests"));
            let texts = source::split(&read(&path)?, is_test);
            for (kind, text) in
                [("comments", texts.comments), ("help", texts.help), ("messages", texts.messages)]
            {
                let figures = count(&text);
                if figures.words > 0 {
                    measured.entry(format!("{name}/{kind}")).or_default().figures += figures;
                }
            }
            names.extend(texts.names.into_iter().filter(|it| has_retired(it, &retired)));
        }
        measured.entry(format!("{name}/comments")).or_default().names = names.len() as u64;
    }
    let mut files = vec![root.join("README.md"), root.join("CHANGELOG.md")];
    collect(&root.join("docs"), "md", &mut files)?;
    for path in files {
        measured.entry("docs".to_owned()).or_default().figures += count(&read(&path)?);
    }
    Ok(measured)
}

/// Returns the folders of the crates: `crates/GROUP/NAME` and `xtask`.
fn crates(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![root.join("xtask")];
    for group in fs::read_dir(root.join("crates")).context("cannot list crates")? {
        for folder in fs::read_dir(group?.path()).context("cannot list crates")? {
            let folder = folder?.path();
            if folder.join("Cargo.toml").exists() {
                found.push(folder);
            }
        }
    }
    Ok(found)
}

/// Adds the files below `folder` with this extension.
fn collect(folder: &Path, extension: &str, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let list = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in list {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, extension, into)?;
        } else if path.extension().is_some_and(|it| it == extension) {
            into.push(path);
        }
    }
    Ok(())
}

/// Returns the retired words of the glossary as identifiers, such as `left_out`. A word that is
/// retired in one meaning only, which stands in parentheses, is left out.
fn retired(glossary: &str) -> Vec<String> {
    let lines = glossary.lines().skip_while(|line| *line != "## Retired words");
    let cells = lines.filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let words = cells.filter(|cell| !cell.contains('(') && *cell != "not");
    words.flat_map(|cell| cell.split(", ")).map(|word| word.replace(' ', "_")).collect()
}

/// Returns whether an identifier contains a retired word.
fn has_retired(name: &str, retired: &[String]) -> bool {
    let (mut snake, mut was_lower) = (String::from("_"), false);
    for letter in name.chars() {
        if letter.is_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = letter.is_lowercase();
        snake.extend(letter.to_lowercase());
    }
    snake.push('_');
    retired.iter().any(|word| snake.contains(&format!("_{word}_")))
}

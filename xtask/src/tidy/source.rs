//! Rules for Rust files.

use super::Finding;
use super::manifest::is_pure;
use super::mask::mask;

const MAX_COLUMNS: usize = 100;
const MAX_FUNCTION: usize = 70;
const MAX_FILE: usize = 500;

/// Folder of the data path, where `unsafe` is allowed.
const UNSAFE_ALLOWED: &str = "crates/run/io/";

/// Words that no file may have.
const UNWANTED: [(&str, &str); 6] = [
    ("todo!", "finish it"),
    ("unimplemented!", "finish it"),
    ("dbg!", "remove it"),
    ("debug_assert!", "it is off in release builds; use `assert!`"),
    ("debug_assert_eq!", "it is off in release builds; use `assert_eq!`"),
    ("debug_assert_ne!", "it is off in release builds; use `assert_ne!`"),
];
/// Marker of unfinished work in a comment.
const UNFINISHED: &str = concat!("FIX", "ME");

/// Words that a pure crate may not have.
const IMPURE: [(&str, &str); 8] = [
    ("std::time", "take the time that `step` passes in"),
    ("Instant", "take the time that `step` passes in"),
    ("SystemTime", "take the time that `step` passes in"),
    ("HashMap", "use a Vec or a BTreeMap, whose order is fixed"),
    ("HashSet", "use a Vec or a BTreeSet, whose order is fixed"),
    ("thread::spawn", "a layer has no threads; submit a command"),
    ("thread::sleep", "a layer has no clock; request a timer"),
    ("thread_local!", "a layer has no threads; keep the state in the layer"),
];

/// Returns the findings in the Rust file `file`.
pub(super) fn check(file: &str, text: &str) -> Vec<Finding> {
    let code = mask(text);
    let mut check = Check { file, findings: Vec::new() };
    check.shape(text);
    check.functions(&code);
    check.words(text, &code);
    if is_pure(file) && file.contains("/src/") {
        check.purity(&code);
    }
    check.findings.sort_by_key(|finding| finding.line);
    check.findings
}

struct Check<'a> {
    file: &'a str,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn add(&mut self, line: usize, text: String) {
        self.findings.push(Finding { file: self.file.into(), line, text });
    }

    /// Checks columns, lines, and the doc comment at the top.
    fn shape(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS {
                self.add(index + 1, format!("{columns} columns; break it at {MAX_COLUMNS}"));
            }
        }
        let lines = text.lines().count();
        if lines > MAX_FILE {
            let why = format!("{lines} lines; a file has one job and at most {MAX_FILE}: split it");
            self.add(lines, why);
        }
        if !text.starts_with("//!") {
            self.add(1, "no doc comment; start the file with `//!` and its purpose".into());
        }
    }

    /// Checks the length of each function. rustfmt ends a function with a brace in the column of
    /// its first line.
    fn functions(&mut self, code: &str) {
        let lines: Vec<&str> = code.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            if !is_function(line.trim_start()) {
                continue;
            }
            let ends = |line: &&str| {
                let same = line.len() - line.trim_start().len() == indent;
                same && line.trim_start().starts_with('}')
            };
            let one_line = line.trim_end().ends_with([';', '}']);
            let body = lines[start + 1..].iter();
            let length = if one_line {
                1
            } else {
                body.take_while(|line| !ends(line) && !is_bodyless(line, indent)).count() + 2
            };
            if length > MAX_FUNCTION {
                let why = format!("a function of {length} lines; split it at {MAX_FUNCTION}");
                self.add(start + 1, why);
            }
        }
    }

    /// Checks for unfinished work, asserts that are off in release builds, and `unsafe` outside the
    /// data path.
    fn words(&mut self, text: &str, code: &str) {
        for (index, (line, raw)) in code.lines().zip(text.lines()).enumerate() {
            for (word, remedy) in UNWANTED {
                if has_word(line, word) {
                    self.add(index + 1, format!("`{word}`: {remedy}"));
                }
            }
            if raw.contains(UNFINISHED) {
                self.add(index + 1, format!("{UNFINISHED}: fix it, or open an issue"));
            }
            if has_word(line, "unsafe") && !self.file.starts_with(UNSAFE_ALLOWED) {
                let why = "`unsafe` outside of crates/run/io; move it there behind a safe type, or \
                           use a maintained crate";
                self.add(index + 1, why.into());
            }
        }
    }

    /// Checks that core, format and layers have no clocks, threads and randomness.
    fn purity(&mut self, code: &str) {
        for (index, line) in code.lines().enumerate() {
            for (word, remedy) in IMPURE {
                if has_word(line, word) {
                    self.add(index + 1, format!("`{word}` in a pure crate; {remedy}"));
                }
            }
        }
        if self.file.ends_with("/src/lib.rs") {
            for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
                if !code.lines().any(|line| line.trim_end() == attribute) {
                    self.add(
                        1,
                        format!("a pure crate needs `{attribute}`; add it below the doc comment"),
                    );
                }
            }
        }
    }
}

/// Returns whether a line, without its indentation, begins a function.
fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.by_ref().find(|word| {
        !word.starts_with("pub") && !["const", "async", "unsafe", "extern"].contains(word)
    }) == Some("fn")
}

/// Returns whether the line ends a signature without a body.
fn is_bodyless(line: &str, indent: usize) -> bool {
    line.len() - line.trim_start().len() == indent && line.trim_end().ends_with(';')
}

/// Returns whether `line` has `word` without a letter, digit or underscore next to it.
fn has_word(line: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !joins(before) && (word.ends_with('!') || !joins(after))
    })
}

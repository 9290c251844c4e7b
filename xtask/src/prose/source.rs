//! Splits Rust source into comments, help texts, messages and identifiers.

use std::collections::BTreeSet;

use crate::tidy::mask::{mask, spans};

/// Prose and identifiers of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Texts {
    /// Comments of all kinds, without those in `help`.
    pub comments: String,
    /// Doc comments of items that derive a part of the command line.
    pub help: String,
    /// String literals outside tests.
    pub messages: String,
    /// Identifiers outside tests.
    pub names: BTreeSet<String>,
}

/// Start of the unit tests of a file.
const TESTS: &str = "#[cfg(test)]\nmod tests";

/// Splits the source of a file; `is_test` for one that has only tests.
pub(super) fn split(text: &str, is_test: bool) -> Texts {
    let mut texts = Texts::default();
    comments(text, &mut texts);
    let end = if is_test { 0 } else { text.find(TESTS).unwrap_or(text.len()) };
    let code = mask(&text[..end]);
    texts.messages = literals(&text[..end]);
    let words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let is_name = |word: &&str| word.starts_with(|it: char| it.is_alphabetic() || it == '_');
    texts.names = words.filter(is_name).map(str::to_owned).collect();
    texts
}

/// Collects comments. Doc comments belong to the help if their item derives from clap.
fn comments(text: &str, texts: &mut Texts) {
    let (mut pending, mut depth, mut in_help) = (String::new(), 0_i32, false);
    for line in text.lines().map(str::trim) {
        let comment = ["///", "//!", "//"].into_iter().find_map(|it| line.strip_prefix(it));
        if let Some(comment) = comment {
            let is_doc = line.starts_with("///");
            let into = match (is_doc, in_help) {
                (true, true) => &mut texts.help,
                (true, false) => &mut pending,
                (false, _) => &mut texts.comments,
            };
            into.push_str(comment);
            into.push('\n');
            continue;
        }
        let derives = ["clap::Args", "Subcommand", "clap::ValueEnum", "(Parser)"];
        if line.starts_with("#[derive(") && derives.iter().any(|it| line.contains(it)) {
            texts.help.push_str(&pending);
            pending.clear();
            (in_help, depth) = (true, 0);
        } else if !line.starts_with("#[") {
            texts.comments.push_str(&pending);
            pending.clear();
        }
        let change = |open| line.matches(open).count() as i32;
        let was = depth;
        depth += change('{') - change('}');
        let is_closed = depth <= 0 && (was > 0 || line.ends_with(['}', ';']));
        in_help &= !is_closed || line.starts_with('#');
    }
    texts.comments.push_str(&pending);
}

/// Returns the string literals of more than one word, without placeholders.
fn literals(text: &str) -> String {
    let mut all = String::new();
    for span in spans(text) {
        let line = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let is_attribute = text[line..span.start].trim_start().starts_with("#[allow");
        let is_sentence = text[span.clone()].contains(' ');
        if is_attribute || !is_sentence || !text[span.clone()].starts_with(['"', 'r']) {
            continue;
        }
        let mut depth = 0;
        for letter in text[span].replace("\\n", " ").chars() {
            match letter {
                '{' => depth += 1,
                '}' => depth = 0,
                _ if depth == 0 => all.push(letter),
                _ => {}
            }
        }
        all.push('\n');
    }
    all
}

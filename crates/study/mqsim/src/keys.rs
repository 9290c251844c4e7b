//! Keys of a section, with a record of the keys that were used.

use std::str::FromStr;

use roxmltree::Node;

use super::{Fault, line, on_one_line};

/// Length in characters from which on a message truncates a key or value.
const LONGEST: usize = 60;

/// A value and its line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct At<T> {
    pub line: usize,
    pub value: T,
}

/// A key of a section.
struct Entry<'a> {
    key: &'a str,
    value: &'a str,
    line: usize,
    /// Whether it was converted, or reported as ignored.
    used: bool,
}

/// The keys of an element, without those that contain sections.
pub(crate) struct Keys<'a> {
    name: &'a str,
    line: usize,
    entries: Vec<Entry<'a>>,
}

impl<'a> Keys<'a> {
    /// Reads the keys below `node`, except the sections named in `within`.
    pub(crate) fn of(node: Node<'a, 'a>, within: &[&str]) -> Result<Self, Fault> {
        let mut entries: Vec<Entry> = Vec::new();
        for child in node.children().filter(Node::is_element) {
            let (key, line) = (child.tag_name().name(), line(&child));
            if within.contains(&key) {
                continue;
            }
            if child.children().any(|it| it.is_element()) {
                let why = format!("{} must contain a value, but contains elements", short(key));
                return Err(Fault { line, why });
            }
            let value = child.text().unwrap_or_default().trim();
            entries.push(Entry { key, value, line, used: false });
        }
        let mut sorted: Vec<(&str, usize)> = entries.iter().map(|it| (it.key, it.line)).collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let why = format!("{} occurs twice, also in line {}", short(pair[1].0), pair[0].1);
            return Err(Fault { line: pair[1].1, why });
        }
        Ok(Keys { name: node.tag_name().name(), line: line(&node), entries })
    }

    /// Returns the line at which the section begins.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// Returns the value of a key as text.
    pub(crate) fn word(&mut self, key: &str) -> Option<At<&'a str>> {
        let entry = self.entries.iter_mut().find(|it| it.key == key)?;
        entry.used = true;
        Some(At { line: entry.line, value: entry.value })
    }

    /// Returns the value of a key as a number.
    pub(crate) fn number<T: FromStr>(&mut self, key: &str) -> Result<Option<At<T>>, Fault> {
        let Some(At { line, value }) = self.word(key) else { return Ok(None) };
        match value.parse() {
            Ok(value) => Ok(Some(At { line, value })),
            Err(_) => {
                Err(Fault { line, why: format!("{key} must be a number, not {}", quoted(value)) })
            }
        }
    }

    /// Returns the value of a required key as a number.
    pub(crate) fn needed<T: FromStr>(&mut self, key: &str) -> Result<At<T>, Fault> {
        let missing = Fault { line: self.line, why: format!("{} has no {key}", self.name) };
        self.number(key)?.ok_or(missing)
    }

    /// Returns the value of a key as a flag. As in MQSim, every value other than `false` is true.
    pub(crate) fn flag(&mut self, key: &str) -> Option<At<bool>> {
        let At { line, value } = self.word(key)?;
        Some(At { line, value: !value.eq_ignore_ascii_case("false") })
    }

    /// Returns the counterpart in `known` of a key's value.
    pub(crate) fn lookup<T: Copy>(
        &mut self,
        key: &str,
        known: &[(&str, T)],
    ) -> Result<Option<At<T>>, Fault> {
        let Some(At { line, value }) = self.word(key) else { return Ok(None) };
        let found = known.iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
        let words = || known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let why = || format!("{key} must be one of {}, not {}", words(), quoted(value));
        let value = found.ok_or_else(|| Fault { line, why: why() })?.1;
        Ok(Some(At { line, value }))
    }

    /// Returns a sentence with the present ones of `keys` and the reason why they are ignored.
    pub(crate) fn leave(&mut self, keys: &[&str], why: &str) -> Option<String> {
        let there = self.entries.iter_mut().filter(|it| keys.contains(&it.key));
        let names: Vec<String> = there
            .map(|entry| {
                entry.used = true;
                format!("{} (line {})", entry.key, entry.line)
            })
            .collect();
        (!names.is_empty()).then(|| format!("not carried over: {}: {why}", names.join(", ")))
    }

    /// Returns a sentence with the keys that were not used.
    pub(crate) fn others(&mut self) -> Option<String> {
        let left: Vec<String> = (self.entries.iter().filter(|it| !it.used))
            .map(|entry| format!("{} (line {})", short(entry.key), entry.line))
            .collect();
        let why = "MQSim has no such key in this place";
        (!left.is_empty()).then(|| format!("not carried over: {}: {why}", left.join(", ")))
    }
}

/// Quotes a value, truncated if it is long.
fn quoted(value: &str) -> String {
    format!("'{}'", short(value))
}

fn short(text: &str) -> String {
    let plain = on_one_line(text);
    if plain.chars().count() > LONGEST {
        plain.chars().take(LONGEST).chain(['…']).collect()
    } else {
        plain
    }
}

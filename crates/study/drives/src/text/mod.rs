//! Text of a device's description: a file, modified by the options after the device's name.

mod error;
mod key;
mod values;

use hostftl_mqsim::Drive;
use serde::de::DeserializeOwned;

pub use error::DriveError;
pub use key::{Key, key};
pub use values::{Fault, capacity, optional, within};

/// Text of a device and the options applied to it.
#[derive(Debug)]
pub struct Text {
    /// Requested name, options included.
    name: String,
    /// Path of the file, or built-in name.
    origin: String,
    /// The text. A changed key keeps its line, and a new key is appended.
    text: String,
    /// Options with the number of the line that they set, from 1.
    pub(crate) options: Vec<(usize, String)>,
    /// For a text converted from another program's file: the line and key of that file for each
    /// line.
    made_of: Vec<(usize, &'static str)>,
    /// Settings of that file that were ignored, one sentence each.
    pub(crate) left: Vec<String>,
}

/// Start of the sentence that gives the purpose of a device.
const USE_WHEN: &str = "Use when ";

/// Separates a name from its options. A word without `=` belongs to the value before it, as in
/// `gc=d-choices:10`.
pub(crate) fn split(asked: &str) -> (&str, Vec<String>) {
    let is_option = |word: &str| word.contains('=') && !word.contains('/');
    let mut end = asked.len();
    let mut from = 0;
    for word in asked.split(':') {
        if from > 0 && is_option(word) {
            end = from - 1;
            break;
        }
        from += word.len() + 1;
    }
    let mut options: Vec<String> = Vec::new();
    for word in asked[end..].split(':').skip(1) {
        match options.last_mut() {
            Some(last) if !word.contains('=') => {
                last.push(':');
                last.push_str(word);
            }
            _ => options.push(word.to_owned()),
        }
    }
    (&asked[..end], options)
}

impl Text {
    /// Makes a description from `text`, which is TOML or MQSim's XML. `origin` is its name in
    /// messages.
    pub(crate) fn new(name: &str, origin: &str, text: String) -> Result<Self, DriveError> {
        let (name, origin) = (name.to_owned(), origin.to_owned());
        let (options, made_of, left) = (Vec::new(), Vec::new(), Vec::new());
        // TOML never begins with `<`.
        if !text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('<') {
            return Ok(Text { name, origin, text, options, made_of, left });
        }
        let fault = |fault: hostftl_mqsim::Fault| DriveError::Line {
            origin: origin.clone(),
            line: fault.line,
            why: fault.why,
        };
        let Drive { toml: text, lines: made_of, left } =
            hostftl_mqsim::drive(&text).map_err(fault)?;
        Ok(Text { name, origin, text, options, made_of, left })
    }

    /// Returns the requested name, options included.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of the device, `block` by default.
    pub(crate) fn kind(&self) -> String {
        let table: Option<toml::Table> = self.text.parse().ok();
        let kind = table.and_then(|table| Some(table.get("kind")?.as_str()?.to_owned()));
        kind.unwrap_or_else(|| "block".to_owned())
    }

    /// Parses the keys.
    ///
    /// # Errors
    /// When the text is not valid, or has other keys than `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, DriveError> {
        toml::from_str(&self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.fault(at, error.message().replace('\n', " "))
        })
    }

    /// Returns the keys that are set and their values, as words.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let word = |value: toml::Value| match value {
            toml::Value::String(word) => word,
            other => other.to_string(),
        };
        let table = self.text.parse::<toml::Table>().unwrap_or_default();
        table.into_iter().map(|(key, value)| (key, word(value))).collect()
    }

    /// Returns the comment at the head as one line, and the text after [`USE_WHEN`] in it.
    pub(crate) fn head(&self) -> (String, String) {
        let head = self.text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        let lines: Vec<&str> = head.collect();
        let end = lines.iter().position(|line| line.starts_with(USE_WHEN)).unwrap_or(lines.len());
        let (about, when) = lines.split_at(end);
        let when = when.join(" ");
        (about.join(" "), when.strip_prefix(USE_WHEN).unwrap_or_default().to_owned())
    }

    /// Sets a key. A capacity replaces a number of blocks.
    pub(crate) fn set(&mut self, option: &str) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let (key, value) = (key.trim(), value.trim());
        let plain = value.parse::<f64>().is_ok() || matches!(value, "true" | "false");
        let plain = plain && key != "capacity";
        let line = if plain { format!("{key} = {value}") } else { format!("{key} = {value:?}") };
        let mut lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
        let sets = |line: &str, key: &str| {
            line.split_once('=').is_some_and(|(before, _)| before.trim() == key)
        };
        if key == "capacity" {
            lines.iter_mut().filter(|line| sets(line, "blocks")).for_each(String::clear);
        }
        let at = match lines.iter().position(|line| sets(line, key)) {
            Some(at) => {
                lines[at] = line;
                at
            }
            None => {
                lines.push(line);
                lines.len() - 1
            }
        };
        self.text = lines.join("\n");
        self.options.push((at + 1, option.to_owned()));
    }

    /// Returns the error for a fault at a byte of the text. It names the option that set the line,
    /// or the line of the original file.
    pub fn fault(&self, at: usize, why: String) -> DriveError {
        let line = 1 + self.text.bytes().take(at).filter(|&byte| byte == b'\n').count();
        match self.options.iter().rfind(|(changed, _)| *changed == line) {
            Some((_, option)) => {
                let (name, option) = (self.origin.clone(), option.clone());
                DriveError::Option { name, option, why }
            }
            None => {
                let (line, why) = match self.made_of.get(line - 1) {
                    None => (line, why),
                    Some((theirs, "")) => (*theirs, why),
                    Some((theirs, key)) => (*theirs, format!("{key}: {why}")),
                };
                DriveError::Line { origin: self.origin.clone(), line, why }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parted_from_the_name() {
        let parted = |text| {
            let (name, options) = split(text);
            (name.to_owned(), options.join(" "))
        };
        assert_eq!(parted("mlc-32g"), ("mlc-32g".into(), "".into()));
        assert_eq!(
            parted("mlc-32g:capacity=1g:gc=d-choices:10:plp=false"),
            ("mlc-32g".into(), "capacity=1g gc=d-choices:10 plp=false".into())
        );
        assert_eq!(parted("dir:x=1/a.toml:plp=true").0, "dir:x=1/a.toml");
    }
}

//! Finds the text of a drive: a built-in one or a file, with the options behind its name.

use std::path::Path;

use hostftl_mqsim::Drive;

use super::error::DriveError;

/// The drives that every program has built in, by name.
const BUILT_IN: [(&str, &str); 11] = [
    ("hatl-1g", include_str!("../../../../stacks/drives/hatl-1g.toml")),
    ("hatl-2g", include_str!("../../../../stacks/drives/hatl-2g.toml")),
    ("hatl-32g", include_str!("../../../../stacks/drives/hatl-32g.toml")),
    ("mlc-32g", include_str!("../../../../stacks/drives/mlc-32g.toml")),
    ("open-channel", include_str!("../../../../stacks/drives/open-channel.toml")),
    ("qlc-16k", include_str!("../../../../stacks/drives/qlc-16k.toml")),
    ("qlc-64k", include_str!("../../../../stacks/drives/qlc-64k.toml")),
    ("sata-mlc", include_str!("../../../../stacks/drives/sata-mlc.toml")),
    ("slc-1g", include_str!("../../../../stacks/drives/slc-1g.toml")),
    ("tlc", include_str!("../../../../stacks/drives/tlc.toml")),
    ("tlc-7t", include_str!("../../../../stacks/drives/tlc-7t.toml")),
];

/// The devices besides that every program has built in, by name.
const OTHERS: [(&str, &str); 3] = [
    ("olive", include_str!("../../../../stacks/drives/olive.toml")),
    ("scm-m", include_str!("../../../../stacks/drives/scm-m.toml")),
    ("scm-s", include_str!("../../../../stacks/drives/scm-s.toml")),
];

/// A drive's text with what was changed in it.
pub struct Text {
    /// What the user asked for, options included.
    pub name: String,
    /// The file, or the built-in name.
    pub origin: String,
    /// The text, in which a changed key keeps its line and a new one follows at the end.
    pub text: String,
    /// The options by the line that they set, from 1.
    pub options: Vec<(usize, String)>,
    /// Where the text was made from a file of another program: for each line, the line of that file
    /// and the key there.
    made_of: Vec<(usize, &'static str)>,
    /// What that file says and the drive does not, a sentence each.
    pub left: Vec<String>,
}

/// The names of the built-in drives.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The names of the built-in devices that are no flash drives.
pub fn others() -> impl Iterator<Item = &'static str> {
    OTHERS.iter().map(|(name, _)| *name)
}

/// The text of `NAME[:KEY=VALUE]…`, where `NAME` is built in or a file.
///
/// # Errors
/// When there is neither.
pub fn find(asked: &str) -> Result<Text, DriveError> {
    let (origin, options) = split(asked);
    let text = match BUILT_IN.iter().chain(&OTHERS).find(|(known, _)| *known == origin) {
        Some((_, text)) => (*text).to_owned(),
        None => read(origin)?,
    };
    let mut found = Text::new(asked, origin, text)?;
    for option in options {
        found.set(&option);
    }
    Ok(found)
}

/// What the file of the drive `NAME[:KEY=VALUE]…` says with its options, a word for each key;
/// nothing of one that has no such text.
pub fn parameters(asked: &str) -> Vec<(String, String)> {
    let table = find(asked).ok().and_then(|found| found.text.parse::<toml::Table>().ok());
    let word = |value: toml::Value| match value {
        toml::Value::String(word) => word,
        other => other.to_string(),
    };
    table.into_iter().flatten().map(|(key, value)| (key, word(value))).collect()
}

/// How the sentence begins that says what a drive is for.
const USE_WHEN: &str = "Use when ";

/// The comment that the file of the drive `NAME[:KEY=VALUE]…` begins with, as one line, and what
/// stands there behind [`USE_WHEN`].
pub fn about(asked: &str) -> (String, String) {
    let text = find(asked).map(|found| found.text).unwrap_or_default();
    let head = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let lines: Vec<&str> = head.collect();
    let end = lines.iter().position(|line| line.starts_with(USE_WHEN)).unwrap_or(lines.len());
    let (about, when) = lines.split_at(end);
    let when = when.join(" ");
    (about.join(" "), when.strip_prefix(USE_WHEN).unwrap_or_default().to_owned())
}

fn read(origin: &str) -> Result<String, DriveError> {
    let path = Path::new(origin);
    if !path.exists() && !origin.contains('/') && path.extension().is_none() {
        let known = names().chain(others()).collect::<Vec<_>>().join(", ");
        return Err(DriveError::Unknown { name: origin.to_owned(), known });
    }
    hostftl_core::files::read_text(path)
        .map_err(|source| DriveError::Read { path: path.to_owned(), source })
}

/// Parts a name from its options. A word without `=` belongs to the value before it, as in
/// `gc=d-choices:10`.
fn split(asked: &str) -> (&str, Vec<String>) {
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
    /// What `text` says, which is TOML or MQSim's XML; `origin` is its name in messages.
    ///
    /// # Errors
    /// The line of XML that is wrong, and why.
    pub fn new(name: &str, origin: &str, text: String) -> Result<Self, DriveError> {
        let (name, origin) = (name.to_owned(), origin.to_owned());
        let (options, made_of, left) = (Vec::new(), Vec::new(), Vec::new());
        // TOML never begins like this.
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

    /// The kind of device that it describes: `block` unless it says otherwise.
    pub fn kind(&self) -> String {
        let table: Option<toml::Table> = self.text.parse().ok();
        let kind = table.and_then(|table| Some(table.get("kind")?.as_str()?.to_owned()));
        kind.unwrap_or_else(|| "block".to_owned())
    }

    /// Sets a key. A capacity takes the place of a number of blocks.
    fn set(&mut self, option: &str) {
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

    /// The error of what is wrong at a byte of the text.
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

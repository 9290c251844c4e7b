//! Detection of a volume file that was moved together with its device files: the paths in it do not
//! exist, and the files are beside it.

use std::path::{Path, PathBuf};

use hostftl_io::{Access, zoned_path};

use crate::metadata::config::Config;
use crate::metadata::config::MISSING;
use crate::open::stack::open_member;
use crate::util::error::Error;
use crate::util::private::target;

/// Returns an error with the command that recreates the volume file at `path`, if its devices are
/// beside it; otherwise `error`.
pub(crate) fn explain(path: &Path, config: &Config, error: Error) -> Error {
    let (mut names, mut moved) = (Vec::new(), Vec::new());
    for name in config.devices.iter().filter(|name| *name != MISSING) {
        match beside(path, name) {
            Some(there) if is_member(&there, config) => {
                moved.push(name.as_str());
                names.push(there);
            }
            // A file of this name without a member of the volume is not suggested.
            Some(_) => {}
            None => names.push(name.clone()),
        }
    }
    let Some(first) = moved.first() else { return error };
    let list: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let file = quoted(&path.display().to_string());
    let why = format!(
        "its devices were moved: {first} does not exist, but the folder of the volume file has a \
         member with that name; run `mv {file} {file}.old && hostftl import {} --output {file}`",
        list.join(" ")
    );
    Error::Refused { path: path.into(), why }
}

/// Returns the name of a device with the path of a file beside the volume file that has the same
/// file name. `None` for a device whose path exists, or that has no path.
fn beside(volume: &Path, name: &str) -> Option<String> {
    let zoned = zoned_path(name).and_then(Result::ok);
    let path = zoned.unwrap_or_else(|| name.into());
    if !path.starts_with('/') || Path::new(&path).exists() {
        return None;
    }
    let folder: PathBuf = target(&std::path::absolute(volume).ok()?).parent()?.into();
    let there = folder.join(Path::new(&path).file_name()?);
    Some(name.replacen(&path, there.to_str()?, 1))
}

fn is_member(name: &str, config: &Config) -> bool {
    let found = open_member(name, Access::Inspect);
    found.is_ok_and(|found| found.superblock.volume == *config.uuid.as_bytes())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("/a/b-1.img"), "/a/b-1.img");
        assert_eq!(quoted("zoned:/a#zones=0-3"), "'zoned:/a#zones=0-3'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}

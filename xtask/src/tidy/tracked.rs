//! Rules for tracked files: plain names, and no files created by mistake.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Finding;

/// Maximum size of a tracked file in bytes. The stored trace is the largest.
const LARGEST: u64 = 4 << 20;

/// Checks every file that git tracks below `root`. Without a clone there are no findings.
pub(super) fn check(root: &Path) -> Vec<Finding> {
    let Ok(list) = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output() else {
        return Vec::new();
    };
    let names = String::from_utf8_lossy(&list.stdout);
    let sizes = names.split_terminator('\0').map(|name| {
        let size = fs::symlink_metadata(root.join(name)).map_or(0, |metadata| metadata.len());
        (name, size)
    });
    sizes.filter_map(|(name, size)| offence(name, size)).collect()
}

/// Checks a tracked file with that name and `size` bytes.
pub(super) fn offence(name: &str, size: u64) -> Option<Finding> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@/".contains(c);
    let text = if !name.chars().all(plain) {
        "a name may have letters, digits, '.', '_', '-' and '@'; rename or remove it".to_owned()
    } else if size > LARGEST {
        format!(
            "{size} bytes are too large to commit (at most {LARGEST}); generate the file instead"
        )
    } else {
        return None;
    };
    Some(Finding { file: name.to_owned(), line: 1, text })
}

//! Detection of use by the system: as a mount, as swap, or behind a loop device.

use std::fs;
use std::path::Path;

/// Describes the user of `path`; `None` when none is known.
pub fn find_user(path: &str) -> Option<String> {
    let read = |list: &str| fs::read_to_string(list).unwrap_or_default();
    if let Some(at) = mounted_at(&read("/proc/mounts"), path) {
        return Some(format!("it is mounted at {at}; unmount it first"));
    }
    if is_swap(&read("/proc/swaps"), path) {
        return Some("it is used as swap space; run swapoff first".into());
    }
    loop_over(path).map(|name| format!("loop device {name} uses it; run losetup -d first"))
}

/// Returns the mount point of the line in `/proc/mounts` whose source is `path`.
fn mounted_at(mounts: &str, path: &str) -> Option<String> {
    let lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let line =
        lines.into_iter().find(|words| words.first().is_some_and(|w| unescape(w) == path))?;
    line.get(1).map(|at| unescape(at))
}

fn is_swap(swaps: &str, path: &str) -> bool {
    let sources = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    sources.into_iter().any(|source| unescape(source) == path)
}

/// Decodes the kernel's octal escapes of space, tab, line feed and backslash.
fn unescape(word: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(word.into(), |text: String, (code, plain)| text.replace(code, plain))
}

fn loop_over(path: &str) -> Option<String> {
    for entry in fs::read_dir("/sys/block").ok()?.flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        if backing.is_ok_and(|file| Path::new(file.trim_end_matches('\n')) == Path::new(path)) {
            return Some(format!("/dev/{}", entry.file_name().to_string_lossy()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_system_are_understood() {
        let mounts = "/dev/vda1 / ext4 rw 0 0\n/dev/a\\040b /mnt/x\\040y ext4 rw 0 0\n";
        assert_eq!(mounted_at(mounts, "/dev/a b").as_deref(), Some("/mnt/x y"));
        assert_eq!(mounted_at(mounts, "/dev/vda"), None);
        let swaps = "Filename Type Size Used Priority\n/swap\\040file file 1 0 -2\n";
        assert!(is_swap(swaps, "/swap file") && !is_swap(swaps, "Filename"));
    }

    #[test]
    fn an_unused_path_is_free() {
        assert_eq!(find_user("/no/such/thing"), None);
    }
}

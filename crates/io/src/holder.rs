//! Who holds a lock on a file, from `/proc`.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

/// The process that has locked `file`, as "process 123 (hostftl serve …)".
pub fn holder_of(file: &File) -> String {
    let unknown = || "another process".to_string();
    let Ok(meta) = file.metadata() else { return unknown() };
    let id = format!("{:02x}:{:02x}:{}", major(meta.dev()), minor(meta.dev()), meta.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    match pid_in(&locks, &id) {
        Some(pid) => describe(pid),
        None => unknown(),
    }
}

/// The process on the line of `/proc/locks` whose file is `id`.
fn pid_in(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == id)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    })
}

fn describe(pid: u32) -> String {
    if pid == std::process::id() {
        return format!("process {pid} (this one)");
    }
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = raw.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let command: String = words.join(" ").trim().chars().take(120).collect();
    if command.is_empty() { format!("process {pid}") } else { format!("process {pid} ({command})") }
}

fn major(device: u64) -> u32 {
    libc::major(device)
}

fn minor(device: u64) -> u32 {
    libc::minor(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_stands_before_the_file() {
        let locks = "1: POSIX  ADVISORY  READ 5433 08:01:7864448 128 128\n\
                     2: FLOCK  ADVISORY  WRITE 2001 fe:00:7864554 0 EOF\n";
        assert_eq!(pid_in(locks, "fe:00:7864554"), Some(2001));
        assert_eq!(pid_in(locks, "fe:00:786455"), None);
    }

    #[test]
    fn our_own_lock_is_named() {
        let file = tempfile::tempfile().unwrap();
        file.try_lock().unwrap();
        assert_eq!(holder_of(&file), format!("process {} (this one)", std::process::id()));
    }
}

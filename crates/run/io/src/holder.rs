//! Lookup of the process that holds a lock on a file, in `/proc`.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;

use crate::device::Device;

/// Process that holds a lock on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Description such as "process 123 (hostftl serve …)".
    pub name: String,
    /// Whether the lock will end without further action. This process took it and closed the file,
    /// and only a child that is being started, or the kernel's last transfers, still hold it.
    pub is_leaving: bool,
}

impl Device {
    /// Returns the device and inode number of the file system node, if the device has one. They
    /// identify it in the kernel's lists.
    pub fn node(&self) -> Option<(u64, u64)> {
        let meta = self.as_file()?.metadata().ok()?;
        Some((meta.dev(), meta.ino()))
    }
}

/// Returns the living process that holds a lock on `file`, or `None` if none is found. The kernel
/// may keep the lock of a dead process for a moment, until its transfers have ended.
pub fn find_holder(file: &File) -> Option<Holder> {
    let meta = file.metadata().ok()?;
    let id = id(&meta);
    let pid = pid_in(&fs::read_to_string("/proc/locks").ok()?, &id)?;
    // The only open descriptor of this process is `file` itself.
    let is_leaving = pid == std::process::id() && times_open(&meta) == 1;
    Some(Holder { name: describe(pid)?, is_leaving })
}

/// Formats the identity of a file as the kernel's lists of locks do.
fn id(meta: &Metadata) -> String {
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    format!("{major:02x}:{minor:02x}:{}", meta.ino())
}

/// Returns whether this process holds a lock on `file`, and no other known process does.
pub fn is_own_lock(file: &File) -> bool {
    let (Ok(meta), Ok(locks)) = (file.metadata(), fs::read_to_string("/proc/locks")) else {
        return false;
    };
    let id = id(&meta);
    let mut holders = locks.lines().filter_map(|line| pid_in(line, &id)).peekable();
    holders.peek().is_some() && holders.all(|pid| pid == std::process::id())
}

/// Returns the living process with a descriptor that locks the range (first, last) of `file`, or
/// `None` if none is found. `/proc/locks` does not show the owner of such a lock, but every owner
/// also holds the shared lock on the whole file.
pub(crate) fn find_range_holder(file: &File, (first, last): (u64, u64)) -> Option<Holder> {
    let id = id(&file.metadata().ok()?);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let users = locks.lines().filter_map(|line| pid_in(line, &id));
    let range = [id.as_str(), &first.to_string(), &last.to_string()].join(" ");
    let has = |pid: &u32| {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return false };
        let infos = files.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
        infos.into_iter().any(|info| info.lines().any(|line| is_lock_on(line, &range)))
    };
    let pid = users.into_iter().find(has)?;
    Some(Holder { name: describe(pid)?, is_leaving: false })
}

/// Returns whether a line of `fdinfo` shows a lock on this range of this file.
fn is_lock_on(line: &str, range: &str) -> bool {
    line.starts_with("lock:") && line.contains(" OFDLCK ") && line.ends_with(&format!(" {range}"))
}

/// Counts the descriptors of this process that refer to the file.
fn times_open(file: &Metadata) -> usize {
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return 0 };
    let opened = descriptors.flatten().filter_map(|entry| fs::metadata(entry.path()).ok());
    opened.filter(|it| (it.dev(), it.ino()) == (file.dev(), file.ino())).count()
}

/// Returns the process on the line of `/proc/locks` for the file `id`.
fn pid_in(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        // The process id is in the column before the file.
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == id)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    })
}

/// Describes a process by number and command line. Returns `None` if it is dead.
pub fn describe(pid: u32) -> Option<String> {
    if pid == std::process::id() {
        return Some(format!("process {pid} (this one)"));
    }
    let raw = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = raw.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let command: String = words.join(" ").trim().chars().take(120).collect();
    (!command.is_empty()).then(|| format!("process {pid} ({command})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_precedes_the_file() {
        let locks = "1: POSIX  ADVISORY  READ 5433 08:01:7864448 128 128\n\
                     2: FLOCK  ADVISORY  WRITE 2001 fe:00:7864554 0 EOF\n";
        assert_eq!(pid_in(locks, "fe:00:7864554"), Some(2001));
        assert_eq!(pid_in(locks, "fe:00:786455"), None);
    }

    #[test]
    fn locked_ranges_are_found_by_descriptor() {
        let line = "lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:78 10 20";
        assert!(is_lock_on(line, "fe:00:78 10 20"));
        assert!(!is_lock_on(line, "fe:00:78 1 20") && !is_lock_on(line, "fe:00:78 10 2"));
        assert!(!is_lock_on(&line.replace("OFDLCK", "POSIX"), "fe:00:78 10 20"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no other processes")]
    fn dead_processes_hold_no_locks() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(describe(pid), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no other processes")]
    fn an_own_lock_is_named_and_lasts_until_close() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let ours = place.reopen().unwrap();
        ours.try_lock().unwrap();
        let other = File::open(place.path()).unwrap();
        let name = format!("process {} (this one)", std::process::id());
        drop(place);
        assert_eq!(find_holder(&other), Some(Holder { name: name.clone(), is_leaving: false }));
        assert!(is_own_lock(&other));
        let mut child = std::process::Command::new("sleep").arg("60").stdin(ours).spawn().unwrap();
        assert!(other.try_lock().is_err());
        assert_eq!(find_holder(&other), Some(Holder { name, is_leaving: true }));
        child.kill().unwrap();
        child.wait().unwrap();
        // A process that another test forks also holds our files until it executes its program.
        let begin = std::time::Instant::now();
        while other.try_lock().is_err() {
            assert!(begin.elapsed().as_secs() < 60, "the lock is never free");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

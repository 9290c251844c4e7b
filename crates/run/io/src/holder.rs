//! Who holds a lock on a file, from `/proc`.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;

use crate::device::Device;

/// A process that has locked a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// As "process 123 (hostftl serve …)".
    pub name: String,
    /// Whether the lock goes by itself: this process took it and has closed the file, and only a
    /// child that it started just now, or the kernel's last transfers, still have that.
    pub is_leaving: bool,
}

impl Device {
    /// The numbers of the node on its file system, to find it in the system's lists, if it has one.
    pub fn node(&self) -> Option<(u64, u64)> {
        let meta = self.as_file()?.metadata().ok()?;
        Some((meta.dev(), meta.ino()))
    }
}

/// The living process that has locked what `file` was opened to try; `None` when none is known. The
/// kernel may keep a dead process's lock for a moment, until its transfers are over.
pub fn holder_of(file: &File) -> Option<Holder> {
    let meta = file.metadata().ok()?;
    let id = id(&meta);
    let pid = pid_in(&fs::read_to_string("/proc/locks").ok()?, &id)?;
    let is_leaving = pid == std::process::id() && times_open(&meta) == 1;
    Some(Holder { name: describe(pid)?, is_leaving })
}

/// How the kernel's lists of locks call a file.
fn id(meta: &Metadata) -> String {
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    format!("{major:02x}:{minor:02x}:{}", meta.ino())
}

/// Whether this process, and no other that is known, has locked what `file` was opened to try.
pub fn is_own_lock(file: &File) -> bool {
    let (Ok(meta), Ok(locks)) = (file.metadata(), fs::read_to_string("/proc/locks")) else {
        return false;
    };
    let id = id(&meta);
    let mut holders = locks.lines().filter_map(|line| pid_in(line, &id)).peekable();
    holders.peek().is_some() && holders.all(|pid| pid == std::process::id())
}

/// The living process with a descriptor that has locked the range (first, last) of what `file` was
/// opened to try; `None` when none is known. `/proc/locks` does not tell whose such a lock is, but
/// everybody who has one also has the shared lock of all of the file.
pub(crate) fn holder_of_range(file: &File, (first, last): (u64, u64)) -> Option<Holder> {
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

/// Whether a line about a descriptor says that it has a lock on this range of this file.
fn is_lock_on(line: &str, range: &str) -> bool {
    line.starts_with("lock:") && line.contains(" OFDLCK ") && line.ends_with(&format!(" {range}"))
}

/// How many descriptors of this process are the file.
fn times_open(file: &Metadata) -> usize {
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return 0 };
    let opened = descriptors.flatten().filter_map(|entry| fs::metadata(entry.path()).ok());
    opened.filter(|it| (it.dev(), it.ino()) == (file.dev(), file.ino())).count()
}

/// The process on the line of `/proc/locks` whose file is `id`.
fn pid_in(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == id)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    })
}

/// The process by number and command line; `None` when it is dead.
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
    fn the_pid_stands_before_the_file() {
        let locks = "1: POSIX  ADVISORY  READ 5433 08:01:7864448 128 128\n\
                     2: FLOCK  ADVISORY  WRITE 2001 fe:00:7864554 0 EOF\n";
        assert_eq!(pid_in(locks, "fe:00:7864554"), Some(2001));
        assert_eq!(pid_in(locks, "fe:00:786455"), None);
    }

    #[test]
    fn a_descriptor_says_which_ranges_are_locked() {
        let line = "lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:78 10 20";
        assert!(is_lock_on(line, "fe:00:78 10 20"));
        assert!(!is_lock_on(line, "fe:00:78 1 20") && !is_lock_on(line, "fe:00:78 10 2"));
        assert!(!is_lock_on(&line.replace("OFDLCK", "POSIX"), "fe:00:78 10 20"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no other processes")]
    fn the_dead_hold_nothing() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(describe(pid), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no other processes")]
    fn our_own_lock_is_named_and_stays_until_we_close_the_file() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let ours = place.reopen().unwrap();
        ours.try_lock().unwrap();
        let other = File::open(place.path()).unwrap();
        let name = format!("process {} (this one)", std::process::id());
        drop(place);
        assert_eq!(holder_of(&other), Some(Holder { name: name.clone(), is_leaving: false }));
        assert!(is_own_lock(&other));
        let mut child = std::process::Command::new("sleep").arg("60").stdin(ours).spawn().unwrap();
        assert!(other.try_lock().is_err());
        assert_eq!(holder_of(&other), Some(Holder { name, is_leaving: true }));
        child.kill().unwrap();
        child.wait().unwrap();
        // A process that another test forks holds our files too, until it has become its program.
        let begin = std::time::Instant::now();
        while other.try_lock().is_err() {
            assert!(begin.elapsed().as_secs() < 60, "the lock is never free");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

//! Locks on ranges of a file that belong to an open file description. Two descriptions of one
//! process conflict too, and a lock ends when its description is closed.
//!
//! The ranges are numbers far beyond the size of any file. They never denote bytes of it.

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;

/// Object of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockedRange {
    /// Zones of a device, by number.
    Zones(Range<u32>),
    /// Page of the zone table of a zoned file.
    TablePage(u32),
}

/// First lock offset of zones, and of table pages.
const ZONES: i64 = 1 << 60;
const PAGES: i64 = 1 << 61;

impl LockedRange {
    /// Returns the first offset and the length.
    fn range(&self) -> (i64, i64) {
        match self {
            LockedRange::Zones(zones) => (ZONES + i64::from(zones.start), zones.len() as i64),
            LockedRange::TablePage(page) => (PAGES + i64::from(*page), 1),
        }
    }
}

fn call(
    fd: RawFd,
    command: libc::c_int,
    kind: libc::c_int,
    what: &LockedRange,
) -> io::Result<libc::flock> {
    let (start, len) = what.range();
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    loop {
        // SAFETY: the request reads and writes one lock.
        if unsafe { libc::fcntl(fd, command, &raw mut lock) } >= 0 {
            return Ok(lock);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Tries to take a lock. A lock with `writes` conflicts with all others, a lock without it only
/// with those that write. Returns the conflicting range (first and last offset) if there is one.
pub(crate) fn try_lock(
    fd: RawFd,
    what: &LockedRange,
    writes: bool,
) -> io::Result<Option<(u64, u64)>> {
    let kind = if writes { libc::F_WRLCK } else { libc::F_RDLCK };
    loop {
        match call(fd, libc::F_OFD_SETLK, kind, what) {
            Ok(_) => return Ok(None),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {}
            Err(error) => return Err(error),
        }
        // The other lock may be gone by now. Then F_OFD_GETLK reports no conflict, and the loop
        // retries.
        let other = call(fd, libc::F_OFD_GETLK, kind, what)?;
        if libc::c_int::from(other.l_type) != libc::F_UNLCK {
            let first = other.l_start as u64;
            return Ok(Some((first, first + other.l_len as u64 - 1)));
        }
    }
}

/// Converts a range of lock offsets into zone numbers.
pub(crate) fn zones((first, last): (u64, u64)) -> (u64, u64) {
    (first - ZONES as u64, last - ZONES as u64)
}

/// Lock that is held until the value is dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    fd: RawFd,
    what: LockedRange,
}

impl FileLock {
    /// Waits for the lock: against all others, or only against writers. The descriptor must stay
    /// open as long as the lock is held.
    pub(crate) fn wait(fd: RawFd, what: LockedRange, writes: bool) -> io::Result<Self> {
        let kind = if writes { libc::F_WRLCK } else { libc::F_RDLCK };
        call(fd, libc::F_OFD_SETLKW, kind, &what)?;
        Ok(FileLock { fd, what })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // An error can be ignored: the lock ends with the descriptor at the latest.
        call(self.fd, libc::F_OFD_SETLK, libc::F_UNLCK, &self.what).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no locks")]
    fn locks_conflict_within_a_process() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let [one, two] = [(); 2].map(|()| place.reopen().unwrap());
        let lock = |fd: RawFd, zones| try_lock(fd, &LockedRange::Zones(zones), true).unwrap();
        assert_eq!(lock(one.as_raw_fd(), 0..64), None);
        assert_eq!(lock(two.as_raw_fd(), 32..96).map(zones), Some((0, 63)));
        assert_eq!(lock(two.as_raw_fd(), 64..96), None);
        let page = FileLock::wait(one.as_raw_fd(), LockedRange::TablePage(0), true).unwrap();
        let other = |fd| try_lock(fd, &LockedRange::TablePage(0), true).unwrap().is_none();
        assert!(!other(two.as_raw_fd()));
        drop(page);
        assert!(other(two.as_raw_fd()));
        drop(one);
        assert_eq!(lock(two.as_raw_fd(), 32..96), None);
    }
}

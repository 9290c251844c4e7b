//! Locks on ranges of a file that belong to its open descriptor: two of one process stand in each
//! other's way too, and they end with the descriptor.
//!
//! The ranges are numbers far beyond what any file holds, and never bytes of it.

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;

/// What a lock is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Zones of a device, by their numbers.
    Zones(Range<u32>),
    /// A page of the table of a zoned file.
    TablePage(u32),
}

/// Where zones and pages have their numbers.
const ZONES: i64 = 1 << 60;
const PAGES: i64 = 1 << 61;

impl What {
    /// First and length.
    fn range(&self) -> (i64, i64) {
        match self {
            What::Zones(zones) => (ZONES + i64::from(zones.start), zones.len() as i64),
            What::TablePage(page) => (PAGES + i64::from(*page), 1),
        }
    }
}

fn call(
    fd: RawFd,
    command: libc::c_int,
    kind: libc::c_int,
    what: &What,
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

/// Locks, if nobody stands in the way; for one who only reads, others who only read do not. Else
/// the range that stands in the way, in the kernel's numbers (first, last).
pub(crate) fn try_lock(fd: RawFd, what: &What, writes: bool) -> io::Result<Option<(u64, u64)>> {
    let kind = if writes { libc::F_WRLCK } else { libc::F_RDLCK };
    loop {
        match call(fd, libc::F_OFD_SETLK, kind, what) {
            Ok(_) => return Ok(None),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {}
            Err(error) => return Err(error),
        }
        let other = call(fd, libc::F_OFD_GETLK, kind, what)?;
        if libc::c_int::from(other.l_type) != libc::F_UNLCK {
            let first = other.l_start as u64;
            return Ok(Some((first, first + other.l_len as u64 - 1)));
        }
    }
}

/// The zones of a range in the kernel's numbers.
pub(crate) fn zones((first, last): (u64, u64)) -> (u64, u64) {
    (first - ZONES as u64, last - ZONES as u64)
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    fd: RawFd,
    what: What,
}

impl Held {
    /// Waits for the lock: against all others, or against those who write. The descriptor stays
    /// open as long as it is held.
    pub(crate) fn wait(fd: RawFd, what: What, writes: bool) -> io::Result<Self> {
        let kind = if writes { libc::F_WRLCK } else { libc::F_RDLCK };
        call(fd, libc::F_OFD_SETLKW, kind, &what)?;
        Ok(Held { fd, what })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // With the descriptor it would end too.
        call(self.fd, libc::F_OFD_SETLK, libc::F_UNLCK, &self.what).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no locks")]
    fn two_descriptors_of_one_process_stand_in_each_other_s_way() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let [one, two] = [(); 2].map(|()| place.reopen().unwrap());
        let lock = |fd: RawFd, zones| try_lock(fd, &What::Zones(zones), true).unwrap();
        assert_eq!(lock(one.as_raw_fd(), 0..64), None);
        assert_eq!(lock(two.as_raw_fd(), 32..96).map(zones), Some((0, 63)));
        assert_eq!(lock(two.as_raw_fd(), 64..96), None);
        let page = Held::wait(one.as_raw_fd(), What::TablePage(0), true).unwrap();
        let other = |fd| try_lock(fd, &What::TablePage(0), true).unwrap().is_none();
        assert!(!other(two.as_raw_fd()));
        drop(page);
        assert!(other(two.as_raw_fd()));
        drop(one);
        assert_eq!(lock(two.as_raw_fd(), 32..96), None);
    }
}

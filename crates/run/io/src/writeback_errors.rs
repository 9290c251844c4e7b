//! Reliability of a device's flushes, and of reads after an earlier write-back error.
//!
//! The kernel reports only once that it could not write cached data of a file or block device, and
//! may then drop the data. After a failed flush, a device that uses the page cache is therefore no
//! longer trusted until it is opened again. Opening writes its cached pages back and drops them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hostftl_core::DeviceError;
use rustix::fs::{Advice, fadvise};

use crate::planted::{Bug, planted};

/// Error of every flush after a failed one.
const LOST: &str = "an earlier flush failed, and the system may have dropped cached writes; stop \
                    the users of the device, check it, and restart";

/// Writes back the cache of a block device and drops it, as in `linux/fs.h`.
const BLKFLSBUF: libc::Ioctl = 0x1261;

/// Flush state of an open device, shared by all threads that flush it.
#[derive(Debug, Default)]
pub(crate) struct WritebackErrors {
    /// Whether transfers use the page cache.
    cached: bool,
    /// Whether a flush failed.
    lost: AtomicBool,
}

impl WritebackErrors {
    /// Creates the state of a device whose transfers use the page cache (`cached`) or do not.
    pub(crate) fn new(cached: bool) -> Arc<Self> {
        Arc::new(WritebackErrors { cached, lost: AtomicBool::new(false) })
    }

    /// Returns whether flushes are no longer reliable.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Adjusts the result of a flush: it is also an error if another flush failed at the same time,
    /// because the kernel reports the failure to only one of them.
    pub(crate) fn record<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        // Without the page cache nothing is dropped, so the layer may flush again.
        if self.cached && result.is_err() && !planted(Bug::NextFlushBelieved) {
            self.lost.store(true, Ordering::Release);
        }
        if self.is_lost() { result.and(Err(DeviceError::Media)) } else { result }
    }

    /// Runs a flush in this thread, if flushes are still reliable.
    pub(crate) fn flush(&self, flush: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let lost = || Err(io::Error::other(LOST));
        if self.is_lost() {
            return lost();
        }
        let result = flush();
        let record = self.record(result.as_ref().map_err(|_| DeviceError::Media).copied());
        if result.is_ok() && record.is_err() { lost() } else { result }
    }
}

/// Writes back the page cache of a file or block device that was just opened, and drops it.
pub(crate) fn drop_cache(file: &File, block_device: bool) -> io::Result<()> {
    if planted(Bug::CacheBelieved) {
        return Ok(());
    }
    file.sync_all()?;
    if block_device {
        // SAFETY: the request takes no memory. If the process may not make it, the advice below has
        // the same effect for pages that are not in use.
        unsafe { libc::ioctl(file.as_raw_fd(), BLKFLSBUF, 0) };
    }
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    const LEN: usize = 64 << 12;

    /// Counts the pages of a file in the page cache.
    fn resident(file: &File) -> usize {
        let mut pages = vec![0_u8; LEN / 4096];
        // SAFETY: a new mapping as long as the file that is only queried, with a byte of `pages`
        // for each page.
        unsafe {
            let (none, kind) = (std::ptr::null_mut(), MapFlags::SHARED);
            let start = mmap(none, LEN, ProtFlags::READ, kind, file, 0).unwrap();
            assert_eq!(libc::mincore(start, LEN, pages.as_mut_ptr()), 0);
            munmap(start, LEN).unwrap();
        }
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_renewed_file_is_not_in_the_page_cache() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all_at(&[7; LEN], 0).unwrap();
        assert_eq!(resident(&file), LEN / 4096);
        drop_cache(&file, false).unwrap();
        assert_eq!(resident(&file), 0);
        let mut back = vec![0; LEN];
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn flushes_after_a_failed_one_fail() {
        let writeback_errors = WritebackErrors::new(true);
        let fails = || Err(io::Error::from_raw_os_error(libc::EIO));
        writeback_errors.flush(|| Ok(())).unwrap();
        assert_eq!(writeback_errors.flush(fails).unwrap_err().raw_os_error(), Some(libc::EIO));
        let message =
            writeback_errors.flush(|| unreachable!("it is not asked")).unwrap_err().to_string();
        assert!(message.contains("an earlier flush failed"), "{message}");
        assert_eq!(writeback_errors.record(Ok(())), Err(DeviceError::Media));
    }

    #[test]
    fn a_flush_fails_together_with_a_concurrent_one() {
        let writeback_errors = WritebackErrors::new(true);
        let flush = || {
            writeback_errors.record::<()>(Err(DeviceError::NoSpace)).unwrap_err();
            Ok(())
        };
        let message = writeback_errors.flush(flush).unwrap_err().to_string();
        assert!(message.contains("an earlier flush failed"), "{message}");
    }

    /// Direct I/O has no cached data to drop, so the layer decides whether to flush again.
    #[test]
    fn a_direct_device_is_asked_again() {
        let writeback_errors = WritebackErrors::new(false);
        assert_eq!(writeback_errors.record::<()>(Err(DeviceError::Media)), Err(DeviceError::Media));
        writeback_errors.flush(|| Ok(())).unwrap();
    }
}

//! Whether a device's flushes can be believed, and that reads show what the medium has.
//!
//! The system says once that it could not write what it held for a file or block device, and may
//! drop that. A device that goes through the page cache is not believed any more after a flush that
//! failed, until it is opened again; then its part of the page cache is written and dropped.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hostftl_core::DeviceError;
use rustix::fs::{Advice, fadvise};

use crate::planted::{Bug, planted};

/// What everybody says who may flush the device once more after a failure.
const LOST: &str = "an earlier flush failed, and the system may have dropped what it held; end \
                    what uses the device, look at the device, and start again";

/// Says of a block device: write what is cached, then drop it. As in `linux/fs.h`.
const BLKFLSBUF: libc::Ioctl = 0x1261;

/// See the module text. Shared by all who flush one open device.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    cached: bool,
    lost: AtomicBool,
}

impl Trust {
    /// For a device whose transfers go through the page cache, or do not.
    pub(crate) fn new(cached: bool) -> Arc<Self> {
        Arc::new(Trust { cached, lost: AtomicBool::new(false) })
    }

    /// Whether no flush is to be believed any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// What a flush comes to whose own outcome is `result`: an error too when another one failed
    /// meanwhile, because the system tells only one of the two.
    pub(crate) fn heard<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if self.cached && result.is_err() && !planted(Bug::NextFlushBelieved) {
            self.lost.store(true, Ordering::Release);
        }
        if self.is_lost() { result.and(Err(DeviceError::Media)) } else { result }
    }

    /// Does a flush here, if one can still be believed.
    pub(crate) fn flush(&self, flush: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let lost = || Err(io::Error::other(LOST));
        if self.is_lost() {
            return lost();
        }
        let result = flush();
        let heard = self.heard(result.as_ref().map_err(|_| DeviceError::Media).copied());
        if result.is_ok() && heard.is_err() { lost() } else { result }
    }
}

/// Writes what the page cache has of a file or block device that was just opened, and drops it.
pub(crate) fn renew(file: &File, block_device: bool) -> io::Result<()> {
    if planted(Bug::CacheBelieved) {
        return Ok(());
    }
    file.sync_all()?;
    if block_device {
        // SAFETY: the request takes no memory. Without the right to make it, what follows does the
        // same for all that nobody else uses at this moment.
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

    /// How many pages of a file the page cache has.
    fn resident(file: &File) -> usize {
        let mut pages = vec![0_u8; LEN / 4096];
        // SAFETY: a new mapping that is only asked about, as long as the file, with a byte of
        // `pages` for each page.
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
    fn the_page_cache_has_nothing_of_a_renewed_file() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all_at(&[7; LEN], 0).unwrap();
        assert_eq!(resident(&file), LEN / 4096);
        renew(&file, false).unwrap();
        assert_eq!(resident(&file), 0);
        let mut back = vec![0; LEN];
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn no_flush_is_believed_after_one_that_failed() {
        let trust = Trust::new(true);
        let fails = || Err(io::Error::from_raw_os_error(libc::EIO));
        trust.flush(|| Ok(())).unwrap();
        assert_eq!(trust.flush(fails).unwrap_err().raw_os_error(), Some(libc::EIO));
        let message = trust.flush(|| unreachable!("it is not asked")).unwrap_err().to_string();
        assert!(message.contains("an earlier flush failed"), "{message}");
        assert_eq!(trust.heard(Ok(())), Err(DeviceError::Media));
    }

    #[test]
    fn a_flush_fails_beside_one_that_fails() {
        let trust = Trust::new(true);
        let flush = || {
            trust.heard::<()>(Err(DeviceError::NoSpace)).unwrap_err();
            Ok(())
        };
        let message = trust.flush(flush).unwrap_err().to_string();
        assert!(message.contains("an earlier flush failed"), "{message}");
    }

    /// What is not in the page cache can't be dropped from it: the layers decide what to do.
    #[test]
    fn a_direct_device_is_asked_again() {
        let trust = Trust::new(false);
        assert_eq!(trust.heard::<()>(Err(DeviceError::Media)), Err(DeviceError::Media));
        trust.flush(|| Ok(())).unwrap();
    }
}

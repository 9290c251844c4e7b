//! A page-aligned region of anonymous memory. The kernel provides its pages on first access.

use std::io;
use std::ptr::NonNull;

/// Zeroed memory, mapped for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a region is plain memory that is not bound to a thread; code that makes slices of it has
// to keep them disjoint.
unsafe impl Send for Region {}
// SAFETY: as above; `new` is the only place that sets the fields.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let lazily = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | lazily;
        // SAFETY: a new anonymous mapping does not overlap existing memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len.max(1), protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("a mapping is never at zero");
        Ok(Region { start, len: len.max(1) })
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of the byte at `offset`.
    ///
    /// # Panics
    /// When `len` bytes from there are not within the region.
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset + len <= self.len, "{offset}+{len} in a region of {} bytes", self.len);
        // SAFETY: the sum is within the mapping, as just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

/// `MADV_DONTNEED_LOCKED` of Linux 5.18, which libc does not define: `MADV_DONTNEED` for a process
/// whose memory is locked.
const DONTNEED_LOCKED: libc::c_int = 24;

impl Region {
    /// Populates all pages now, if the kernel supports it.
    pub(crate) fn populate(&self) {
        if cfg!(miri) {
            return;
        }
        // SAFETY: changes no byte of our own mapping.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_POPULATE_WRITE) };
    }

    /// Zeroes the `len` bytes at `offset` and returns whole pages to the kernel.
    pub(crate) fn clear(&self, offset: usize, len: usize) {
        const PAGE: usize = 4096;
        let end = offset + len;
        let (from, to) = (offset.next_multiple_of(PAGE), end / PAGE * PAGE);
        // SAFETY: within the mapping, as `at` checks; the caller grants exclusive access to the
        // range.
        let zero =
            |from: usize, to: usize| unsafe { self.at(from, to - from).write_bytes(0, to - from) };
        // Miri does not support `madvise`.
        if from >= to || cfg!(miri) {
            return zero(offset, end);
        }
        zero(offset, from);
        zero(to, end);
        // SAFETY: whole pages of our own private mapping, which read as zeros afterwards.
        let free = |how| unsafe { libc::madvise(self.at(from, to - from).cast(), to - from, how) };
        if free(libc::MADV_DONTNEED) < 0 && free(DONTNEED_LOCKED) < 0 {
            zero(from, to);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no borrow outlives the region.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

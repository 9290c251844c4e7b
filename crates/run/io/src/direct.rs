//! Direct I/O: whether a file can bypass the page cache in units of one sector.
//!
//! If `O_DIRECT` needs longer units, transfers use the page cache instead, which reads, merges and
//! writes the rest of a unit. No device is refused because of its sector size.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use hostftl_core::{Page, SECTOR};

use crate::planted;

/// Whether transfers bypass the page cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direct {
    /// They bypass it.
    Yes,
    /// They do not, for this reason.
    No(&'static str),
}

impl Direct {
    /// Returns whether transfers bypass the page cache.
    pub fn is_on(&self) -> bool {
        *self == Direct::Yes
    }
}

/// Enables direct I/O on `file` if its unit is at most one sector.
pub(crate) fn turn_on(file: &File, block_device: bool) -> Direct {
    if planted::cached() {
        return Direct::No("requested by a test");
    }
    if set_direct(file, true).is_err() {
        return Direct::No("the file system has no direct I/O");
    }
    // Kernels before 6.1 do not report the unit.
    let unit = match (unit_from_statx(file), block_device) {
        (Some(unit), _) => unit,
        (None, true) => logical_block(file).unwrap_or(u32::MAX),
        (None, false) => unit_from_trial(file),
    };
    if unit != 0 && unit <= SECTOR as u32 {
        return Direct::Yes;
    }
    match set_direct(file, false) {
        Ok(()) if unit == 0 => Direct::No("the file system has no direct I/O"),
        Ok(()) => Direct::No("direct I/O needs units larger than a sector"),
        // O_DIRECT could not be cleared, so transfers remain direct.
        Err(_) => Direct::Yes,
    }
}

/// Enables direct I/O on a block device in units of at most `most` bytes, and returns the unit. For
/// devices with no shorter writes and with a fixed order of writes, which the page cache would
/// change.
pub(crate) fn insist(file: &File, most: usize) -> io::Result<usize> {
    let unit = unit_from_statx(file).or_else(|| logical_block(file)).unwrap_or(u32::MAX) as usize;
    if unit == 0 || unit > most {
        return Err(io::Error::other("direct I/O does not support the write unit"));
    }
    set_direct(file, true)?;
    Ok(unit.max(SECTOR))
}

fn set_direct(file: &File, on: bool) -> io::Result<()> {
    // SAFETY: reads and writes the flags of an open descriptor.
    let result = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        let wanted = if on { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, wanted)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the unit of offsets in bytes as the kernel reports it (since 6.1); 0 without direct I/O.
fn unit_from_statx(file: &File) -> Option<u32> {
    // SAFETY: an all-zero statx is a valid value of plain integers.
    let mut facts: libc::statx = unsafe { std::mem::zeroed() };
    let (mask, flags) = (libc::STATX_DIOALIGN, libc::AT_EMPTY_PATH);
    // SAFETY: an open descriptor, an empty C string, and memory for the result.
    let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, mask, &mut facts) };
    let known = result == 0 && facts.stx_mask & mask != 0;
    known.then_some(facts.stx_dio_offset_align)
}

fn logical_block(file: &File) -> Option<u32> {
    let mut size: libc::c_int = 0;
    // SAFETY: the request writes one int.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET, &mut size) };
    (result == 0).then(|| u32::try_from(size).ok()).flatten()
}

/// Tries to read one sector that is not aligned to a block.
// Not inlined: in a function with an early return and a page on its stack, rustc 1.95 does not
// align the stack for the page.
#[inline(never)]
fn unit_from_trial(file: &File) -> u32 {
    let mut page = Page::default();
    match file.read_at(&mut page.0[..SECTOR], SECTOR as u64) {
        Ok(_) => SECTOR as u32,
        Err(_) => u32::MAX,
    }
}

//! A device command as system calls: its remaining range, and the meaning of a call's result.
//!
//! Invariants
//! - The pieces of `iov` are valid until the transfer ends: payload is in the arena, metadata in
//!   boxes of the command that the driver keeps, zeros in a static region, and the rest in
//!   `bounce`.
//! - `done` bytes of `len` are complete; `iov[first..]` is exactly the memory of the next call.

use std::io;
use std::os::fd::RawFd;
use std::sync::LazyLock;

use hostftl_core::{BLOCK, DeviceError, Page, SECTOR};

use crate::planted::{Bug, planted};
use crate::region::Region;

/// Next system call of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// `preadv`.
    Read,
    /// `pwritev`.
    Write,
    /// `fdatasync`.
    Sync,
    /// `fallocate` with this mode.
    Allocate(i32),
}

/// Frees the range, which then reads as zeros.
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
/// Zeroes the range in the cheapest way that the device supports.
const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;

/// Zeros to write; never modified.
static ZEROS: LazyLock<Region> = LazyLock::new(|| Region::new(ZERO_LEN).expect("1 MiB of memory"));
const ZERO_LEN: usize = 1 << 20;
/// Maximum number of zero pieces in one call: 64 MiB.
const ZERO_PIECES: usize = 64;

/// Descriptor of a device that is not a file.
pub(crate) const NO_FILE: RawFd = -1;

#[derive(Debug)]
pub(crate) struct Transfer {
    pub slot: u32,
    pub fd: RawFd,
    call: Call,
    offset: u64,
    len: u64,
    done: u64,
    iov: Vec<libc::iovec>,
    first: usize,
    /// Aligned memory used in place of `iov` where direct I/O does not allow that. It is a `Vec`,
    /// because pointers into a `Box` become invalid when the box moves.
    bounce: Option<Vec<Page>>,
    /// Original pieces of a transfer in bounce memory.
    home: Vec<libc::iovec>,
    /// Bytes read before the requested range, because the device reads whole units.
    lead: usize,
}

// SAFETY: the pointers refer to memory that only this transfer uses until it ends.
unsafe impl Send for Transfer {}

impl Transfer {
    /// Creates a transfer of `len` bytes at byte `offset` of `fd`; `slot` identifies it in the
    /// driver.
    pub(crate) fn new(slot: u32, fd: RawFd, call: Call, offset: u64, len: u64) -> Self {
        let (iov, home) = (Vec::new(), Vec::new());
        let (done, first, bounce, lead) = (0, 0, None, 0);
        Transfer { slot, fd, call, offset, len, done, iov, first, bounce, home, lead }
    }

    /// Creates a transfer that makes a range read as zeros.
    pub(crate) fn reset(slot: u32, fd: RawFd, offset: u64, len: u64) -> Self {
        Self::new(slot, fd, Call::Allocate(PUNCH), offset, len)
    }

    /// Creates a transfer that makes completed writes durable.
    pub(crate) fn sync(slot: u32, fd: RawFd) -> Self {
        Self::new(slot, fd, Call::Sync, 0, 0)
    }

    /// Appends memory to read into or write from.
    pub(crate) fn push(&mut self, start: *mut u8, len: usize) {
        self.iov.push(libc::iovec { iov_base: start.cast(), iov_len: len });
    }

    /// Appends zeros to write.
    pub(crate) fn push_zeros(&mut self, mut len: usize) {
        while len > 0 {
            let part = len.min(ZERO_LEN);
            self.push(ZEROS.at(0, part), part);
            len -= part;
        }
    }

    /// Replaces pieces that direct I/O in units of `unit` bytes would refuse with aligned memory. A
    /// read is extended to whole units if necessary.
    ///
    /// # Panics
    /// When a write does not consist of whole units.
    pub(crate) fn align(&mut self, unit: usize) {
        let odd = |piece: &libc::iovec| {
            let start = piece.iov_base as usize;
            !start.is_multiple_of(SECTOR) || !piece.iov_len.is_multiple_of(unit)
        };
        let moves = matches!(self.call, Call::Read | Call::Write);
        let wide = unit as u64;
        let whole = self.offset.is_multiple_of(wide) && self.len.is_multiple_of(wide);
        // Resets and flushes have no memory, and aligned transfers are used as they are.
        if !moves || whole && !self.iov.iter().any(odd) {
            return;
        }
        assert!(whole || self.call == Call::Read, "a write of a partial unit");
        self.lead = (self.offset % wide) as usize;
        self.len = (self.lead as u64 + self.len).next_multiple_of(wide);
        self.offset -= self.lead as u64;
        let len = self.len as usize;
        let mut pages = vec![Page::default(); len.div_ceil(BLOCK)];
        let start: *mut u8 = pages.as_mut_ptr().cast();
        self.home = std::mem::take(&mut self.iov);
        if self.call == Call::Write {
            self.copy_home(start, false);
        }
        self.push(start, len);
        self.bounce = Some(pages);
    }

    /// Copies between the bounce memory at `start` and the original pieces.
    fn copy_home(&self, start: *mut u8, to_home: bool) {
        let mut at = self.lead;
        for piece in &self.home {
            let (home, len) = (piece.iov_base.cast::<u8>(), piece.iov_len);
            // SAFETY: `lead` and the pieces together have at most `len` bytes, the size of the
            // bounce memory, which is newly allocated and so does not overlap the pieces.
            unsafe {
                let bounced = start.add(at);
                let (from, to) = if to_home { (bounced, home) } else { (home, bounced) };
                std::ptr::copy_nonoverlapping(from, to, len);
            }
            at += len;
        }
    }

    /// Returns the next system call.
    pub(crate) fn call(&self) -> Call {
        self.call
    }

    /// Returns the file offset of the next call, and the remaining bytes of the transfer.
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.offset + self.done, self.len - self.done)
    }

    /// Returns the memory of the next call.
    pub(crate) fn pieces(&self) -> &[libc::iovec] {
        &self.iov[self.first..]
    }

    /// Processes the result of a call, a length or a negative errno. `None` means to call again.
    pub(crate) fn absorb(&mut self, outcome: i32) -> Option<Result<(), DeviceError>> {
        if outcome < 0 {
            return self.absorb_error(-outcome);
        }
        match self.call {
            Call::Sync | Call::Allocate(_) => return Some(Ok(())),
            // The file has become shorter, so its data is lost.
            Call::Read if outcome == 0 => return Some(Err(DeviceError::Media)),
            Call::Write if outcome == 0 => return Some(Err(DeviceError::NoSpace)),
            Call::Read | Call::Write => self.advance(outcome as usize),
        }
        if self.done < self.len {
            return None;
        }
        if let (Call::Read, Some(pages)) = (self.call, self.bounce.as_mut()) {
            let start = pages.as_mut_ptr().cast();
            self.copy_home(start, true);
        }
        Some(Ok(()))
    }

    fn absorb_error(&mut self, errno: i32) -> Option<Result<(), DeviceError>> {
        match (errno, self.call) {
            // ECANCELED: the thread that started the call has ended, which is not a fault of the
            // device.
            (libc::EINTR | libc::EAGAIN | libc::ECANCELED, _) => None,
            // Falls back from punching a hole to zeroing, and then to writing zeros.
            (libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS, Call::Allocate(mode)) => {
                if mode == PUNCH {
                    self.call = Call::Allocate(ZERO);
                } else {
                    self.write_zeros();
                }
                None
            }
            _ => Some(Err(device_error(errno))),
        }
    }

    /// Advances a reset by `bytes` bytes. Returns whether it is complete.
    pub(crate) fn zeroed(&mut self, bytes: u64) -> bool {
        self.done += bytes;
        assert!(self.done <= self.len, "a reset beyond the segment");
        self.done == self.len
    }

    /// Turns the rest of a reset into a write of zeros.
    pub(crate) fn write_zeros(&mut self) {
        self.call = Call::Write;
        self.refill();
    }

    /// Skips `bytes` bytes that were transferred.
    fn advance(&mut self, mut bytes: usize) {
        self.done += bytes as u64;
        while bytes > 0 {
            let piece = &mut self.iov[self.first];
            let part = bytes.min(piece.iov_len);
            piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(part).cast();
            piece.iov_len -= part;
            bytes -= part;
            if piece.iov_len == 0 {
                self.first += 1;
            }
        }
        // The zeros of a reset are supplied in limited portions.
        if self.done < self.len && self.pieces().is_empty() {
            self.refill();
        }
    }

    /// Supplies further zeros for a reset that is executed as a write.
    fn refill(&mut self) {
        self.iov.clear();
        self.first = 0;
        let left = (self.len - self.done).min((ZERO_LEN * ZERO_PIECES) as u64);
        self.push_zeros(left as usize);
    }
}

/// Converts an errno into the error for a layer.
fn device_error(errno: i32) -> DeviceError {
    match errno {
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => DeviceError::NoSpace,
        libc::ENXIO | libc::ENODEV | libc::EBADF | libc::ESHUTDOWN => DeviceError::Removed,
        libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS => DeviceError::Unsupported,
        _ => DeviceError::Media,
    }
}

/// Executes a transfer to a memory device. Only one thread at a time may use that memory.
pub(crate) fn copy(transfer: &Transfer, memory: &Region) -> Result<(), DeviceError> {
    let (offset, len) = transfer.range();
    match transfer.call() {
        Call::Sync => return Ok(()),
        Call::Allocate(_) => memory.clear(offset as usize, len as usize),
        call => {
            let mut at = offset as usize;
            for piece in transfer.pieces() {
                let (there, here) = (memory.at(at, piece.iov_len), piece.iov_base.cast::<u8>());
                let (from, to) = if call == Call::Read { (there, here) } else { (here, there) };
                // SAFETY: the pieces are valid and ours by the first invariant, `at` checks that
                // the memory is long enough, and the two do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from, to, piece.iov_len) };
                at += piece.iov_len;
            }
        }
    }
    Ok(())
}

impl Transfer {
    /// Copies the data of a write that has not started into `bytes`, which must have its length.
    pub(crate) fn copy_out(&self, bytes: &mut [u8]) {
        let mut at = 0;
        for piece in self.pieces() {
            let to = &mut bytes[at..at + piece.iov_len];
            // SAFETY: the pieces are valid and ours by the first invariant, and do not overlap
            // `bytes`.
            unsafe {
                let from = piece.iov_base.cast::<u8>();
                std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), piece.iov_len);
            }
            at += piece.iov_len;
        }
    }

    /// Copies `bytes` into the memory of a read that has not started.
    pub(crate) fn copy_in(&self, bytes: &[u8]) {
        let home = if self.bounce.is_some() { &self.home } else { &self.iov };
        let mut at = self.lead;
        for piece in home {
            let from = &bytes[at..at + piece.iov_len];
            // SAFETY: as in `copy_out`.
            unsafe {
                let to = piece.iov_base.cast::<u8>();
                std::ptr::copy_nonoverlapping(from.as_ptr(), to, piece.iov_len);
            }
            at += piece.iov_len;
        }
    }
}

/// Returns the space of a range to the file system if possible. The range must hold no data.
pub(crate) fn free(fd: RawFd, offset: u64, len: u64) {
    // SAFETY: no memory is involved; an invalid descriptor is refused.
    unsafe { libc::fallocate(fd, PUNCH, offset as libc::off_t, len as libc::off_t) };
}

/// Makes all calls of a transfer in this thread.
pub(crate) fn run(transfer: &mut Transfer) -> Result<(), DeviceError> {
    loop {
        if let Some(result) = transfer.absorb(call_once(transfer)) {
            return result;
        }
    }
}

/// Makes one system call. Returns a length or a negative errno.
fn call_once(transfer: &Transfer) -> i32 {
    let (pieces, (offset, left)) = (transfer.pieces(), transfer.range());
    let (fd, start, count) = (transfer.fd, pieces.as_ptr(), pieces.len() as i32);
    let at = offset as libc::off_t;
    // SAFETY: the pieces are valid and ours for the duration of the transfer, by its first
    // invariant.
    let result = unsafe {
        match transfer.call() {
            Call::Read => libc::preadv(fd, start, count, at),
            Call::Write => libc::pwritev(fd, start, count, at),
            Call::Sync if planted(Bug::ThreadFlush) => 0,
            Call::Sync => libc::fdatasync(fd) as isize,
            Call::Allocate(mode) => libc::fallocate(fd, mode, at, left as libc::off_t) as isize,
        }
    };
    match result {
        ..0 => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        moved => i32::try_from(moved).expect("a call moves less than 2 GiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    fn piece(bytes: &mut [u8], transfer: &mut Transfer) {
        transfer.push(bytes.as_mut_ptr(), bytes.len());
    }

    #[test]
    fn short_transfers_continue() {
        let mut bytes = [[1; 100], [2; 100]];
        let mut transfer = Transfer::new(0, 0, Call::Write, 1000, 200);
        bytes.iter_mut().for_each(|part| piece(part, &mut transfer));
        assert_eq!(transfer.absorb(150), None);
        assert_eq!(transfer.range(), (1150, 50));
        assert_eq!(transfer.pieces().len(), 1);
        assert_eq!(transfer.pieces()[0].iov_base.cast(), bytes[1][50..].as_mut_ptr());
        assert_eq!(transfer.absorb(-libc::EINTR), None);
        assert_eq!(transfer.absorb(50), Some(Ok(())));
    }

    #[test]
    fn errors_are_distinguished() {
        let outcome = |call, errno: i32| {
            Transfer::new(0, 0, call, 0, 512).absorb(-errno).expect("over").expect_err("an error")
        };
        assert_eq!(outcome(Call::Read, libc::EIO), DeviceError::Media);
        assert_eq!(outcome(Call::Write, libc::ENOSPC), DeviceError::NoSpace);
        assert_eq!(outcome(Call::Sync, libc::ENODEV), DeviceError::Removed);
        assert_eq!(outcome(Call::Write, libc::EINVAL), DeviceError::Unsupported);
        let mut short = Transfer::new(0, 0, Call::Read, 0, 512);
        assert_eq!(short.absorb(0), Some(Err(DeviceError::Media)));
    }

    #[test]
    fn a_reset_falls_back_to_writing_zeros() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let mut transfer = Transfer::reset(0, file.as_raw_fd(), 512, 8192);
        assert_eq!(transfer.absorb(-libc::EOPNOTSUPP), None);
        assert_eq!(transfer.call(), Call::Allocate(ZERO));
        assert_eq!(transfer.absorb(-libc::EOPNOTSUPP), None);
        assert_eq!(transfer.call(), Call::Write);
        run(&mut transfer).unwrap();
        let mut after = [1; 10_000];
        file.read_exact_at(&mut after, 0).unwrap();
        assert!(after[..512].iter().chain(&after[8704..]).all(|byte| *byte == 7));
        assert!(after[512..8704].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn odd_pieces_are_bounced_both_ways() {
        let file = tempfile::tempfile().unwrap();
        let mut bytes: Vec<u8> = (0..=255).cycle().take(1025).collect();
        let (head, tail) = bytes[1..].split_at_mut(300);
        let mut write = Transfer::new(0, file.as_raw_fd(), Call::Write, 0, 1024);
        piece(head, &mut write);
        piece(tail, &mut write);
        write.align(SECTOR);
        assert_eq!(write.pieces().len(), 1);
        assert_eq!(write.pieces()[0].iov_base as usize % SECTOR, 0);
        run(&mut write).unwrap();
        let mut back = vec![0; 1025];
        let mut read = Transfer::new(0, file.as_raw_fd(), Call::Read, 0, 1024);
        piece(&mut back[1..], &mut read);
        read.align(SECTOR);
        run(&mut read).unwrap();
        assert_eq!(back[1..], bytes[1..]);
        let mut part = vec![0; 700];
        let mut read = Transfer::new(0, file.as_raw_fd(), Call::Read, 1000 - 700, 700);
        piece(&mut part, &mut read);
        read.align(512);
        assert_eq!(read.range(), (0, 1024), "of whole units");
        run(&mut read).unwrap();
        assert_eq!(part[..], bytes[301..1001]);
    }
}

//! The io_uring engine.
//!
//! Invariants
//! - A transfer stays in its slot from `start` until its completion is reaped, so the memory that
//!   was passed to the kernel does not move.
//! - At most one poll of the waker is armed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use hostftl_core::Verdict;
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::memory::Memory;
use crate::planted::{Bug, planted};
use crate::pool::Finished;
use crate::transfer::{Call, Transfer, run};
use crate::waker::Waker;

const ENTRIES: u32 = 256;
const COMPLETIONS: u32 = 4096;
/// Limit of kernel threads that wait for devices. It exceeds the calls of a device that hangs;
/// otherwise those of other devices would queue behind them.
const WAITING: u32 = 512;
/// Number of consecutive cancellations after which a call is made in this thread. The kernel also
/// cancels a call when the thread that made it ends, but then not all later ones.
const MAX_CANCELLED: u32 = 64;
/// User data of the poll of the waker.
const WAKE: u64 = u64::MAX;

pub(crate) struct Ring {
    ring: IoUring,
    transfers: Vec<Option<Transfer>>,
    flying: usize,
    /// Number of consecutive completions that were cancellations.
    cancelled: u32,
    polling: bool,
    /// Registered memory as address ranges; `None` when the limit on locked memory is too low.
    fixed: Option<[(usize, usize); 2]>,
}

impl Ring {
    /// Creates a ring, with the memory registered if the limit on locked memory allows it.
    pub(crate) fn new(memory: &Memory) -> io::Result<Self> {
        let ring = build(true).or_else(|_| build(false))?;
        // Required for timeouts, and for completions that are not lost on overflow.
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        // Kernels before 5.15 do not support this; they use four threads for each processor.
        let _ = ring.submitter().register_iowq_max_workers(&mut [WAITING, 0]);
        let regions = memory.regions().map(|region| (region.at(0, 0), region.len()));
        let whole = regions.map(|(at, len)| libc::iovec { iov_base: at.cast(), iov_len: len });
        // SAFETY: the driver keeps the memory until the ring is gone.
        let registered = unsafe { ring.submitter().register_buffers(&whole) };
        let ranges = regions.map(|(start, len)| (start as usize, start as usize + len));
        let fixed = registered.is_ok().then_some(ranges);
        Ok(Ring { ring, transfers: Vec::new(), flying: 0, cancelled: 0, polling: false, fixed })
    }

    /// Returns the descriptor that becomes readable on a completion.
    pub(crate) fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Returns whether the memory is registered.
    pub(crate) fn is_registered(&self) -> bool {
        self.fixed.is_some()
    }

    /// Starts a transfer.
    pub(crate) fn start(&mut self, transfer: Transfer) {
        let slot = transfer.slot as usize;
        if self.transfers.len() <= slot {
            self.transfers.resize_with(slot + 1, || None);
        }
        assert!(self.transfers[slot].is_none(), "a slot has one transfer");
        self.transfers[slot] = Some(transfer);
        self.flying += 1;
        self.queue(slot);
    }

    /// Queues the next call of the transfer in `slot`.
    fn queue(&mut self, slot: usize) {
        let transfer = self.transfers[slot].as_ref().expect("a queued slot is taken");
        let entry = self.entry(transfer).user_data(slot as u64);
        self.push(entry);
    }

    fn entry(&self, transfer: &Transfer) -> squeue::Entry {
        let (fd, (offset, left)) = (Fd(transfer.fd), transfer.range());
        let pieces = transfer.pieces();
        let (start, count) = (pieces.as_ptr(), pieces.len() as u32);
        // Fixed buffers have no vectored form, so only a single piece can use one.
        let one = match pieces {
            [piece] => {
                self.fixed(piece).map(|it| (piece.iov_base.cast(), piece.iov_len as u32, it))
            }
            _ => None,
        };
        match (transfer.call(), one) {
            (Call::Read, Some((memory, len, it))) => {
                opcode::ReadFixed::new(fd, memory, len, it).offset(offset).build()
            }
            (Call::Write, Some((memory, len, it))) => {
                opcode::WriteFixed::new(fd, memory, len, it).offset(offset).build()
            }
            (Call::Read, None) => opcode::Readv::new(fd, start, count).offset(offset).build(),
            (Call::Write, None) => opcode::Writev::new(fd, start, count).offset(offset).build(),
            (Call::Sync, _) if planted(Bug::RingFlush) => opcode::Nop::new().build(),
            (Call::Sync, _) => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            (Call::Allocate(mode), _) => {
                opcode::Fallocate::new(fd, left).offset(offset).mode(mode).build()
            }
        }
    }

    /// Returns the index of the registered region that contains a piece.
    fn fixed(&self, piece: &libc::iovec) -> Option<u16> {
        let start = piece.iov_base as usize;
        let inside = |(from, to): &(usize, usize)| *from <= start && start + piece.iov_len <= *to;
        self.fixed?.iter().position(inside).map(|index| index as u16)
    }

    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: the transfer of the entry keeps its memory until it is reaped.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // The queue is full: submitting it makes room.
            self.submit(0, None);
        }
    }

    /// Submits queued entries to the kernel.
    pub(crate) fn flush(&mut self) {
        if self.has_work_for_kernel() {
            self.submit(0, None);
        }
    }

    /// Returns whether entries are queued, or completions become visible only when the kernel is
    /// entered.
    fn has_work_for_kernel(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun()
    }

    /// Submits queued entries, and sleeps until a completion, until `waker` wakes, or until `most`
    /// has passed.
    pub(crate) fn sleep(&mut self, waker: &Waker, most: Option<Duration>) {
        if !self.polling {
            let poll = opcode::PollAdd::new(Fd(waker.fd()), libc::POLLIN as u32).build();
            self.push(poll.user_data(WAKE));
            self.polling = true;
        }
        self.submit(1, most);
    }

    fn submit(&mut self, want: usize, most: Option<Duration>) {
        let time = most.map(|most| Timespec::new().sec(most.as_secs()).nsec(most.subsec_nanos()));
        let mut args = SubmitArgs::new();
        if let Some(time) = &time {
            args = args.timespec(time);
        }
        if let Err(error) = self.ring.submitter().submit_with_args(want, &args) {
            match error.raw_os_error() {
                // Timeout, signal, or completions must be reaped first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => panic!("io_uring accepts no further commands: {error}"),
            }
        }
    }

    /// Moves completed transfers to the end of `list`, and continues those that were short.
    pub(crate) fn collect(&mut self, list: &mut VecDeque<Finished>) {
        while let Some(entry) = self.next_completion() {
            if entry.user_data() == WAKE {
                self.polling = false;
                continue;
            }
            let slot = entry.user_data() as usize;
            let cancelled = entry.result() == -libc::ECANCELED;
            self.cancelled = if cancelled { self.cancelled + 1 } else { 0 };
            let transfer = self.transfers[slot].as_mut().expect("a completion has its transfer");
            let result = match transfer.absorb(entry.result()) {
                // The kernel has no thread for the call, for example because RLIMIT_NPROC is
                // reached.
                None if self.cancelled > MAX_CANCELLED => Some(run(transfer)),
                other => other,
            };
            match result {
                None => self.queue(slot),
                Some(result) => {
                    self.transfers[slot] = None;
                    self.flying -= 1;
                    let result = result.map(|()| Verdict::default());
                    list.push_back(Finished { slot: slot as u32, result });
                }
            }
        }
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }
}

/// Creates a ring. A `cooperative` ring does not interrupt a processor for a completion; the
/// completion appears when the submitting thread next enters the kernel. Kernels before 5.19 do not
/// support it.
fn build(cooperative: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(COMPLETIONS).setup_clamp();
    if cooperative {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    builder.build(ENTRIES)
}

impl Drop for Ring {
    /// Waits for the transfers in flight, because the kernel uses their memory.
    fn drop(&mut self) {
        let mut rest = VecDeque::new();
        while self.flying > 0 {
            self.submit(1, None);
            self.collect(&mut rest);
        }
    }
}

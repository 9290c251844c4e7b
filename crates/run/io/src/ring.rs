//! The io_uring engine.
//!
//! Invariants
//! - A transfer sits in its slot from `start` until its completion was reaped, so what the kernel
//!   was given stays where it is.
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
/// Threads in which the kernel may wait for devices: more than a device that hangs can take up, or
/// calls of the others would wait behind its own.
const WAITING: u32 = 512;
/// After this many cancellations in a row the kernel is not asked again: it cancels a call also
/// when the thread ended that made it, but then not all that follow.
const MAX_CANCELLED: u32 = 64;
/// The name of the poll that hears the waker.
const WAKE: u64 = u64::MAX;

pub(crate) struct Ring {
    ring: IoUring,
    transfers: Vec<Option<Transfer>>,
    flying: usize,
    /// How many completions in a row were cancellations.
    cancelled: u32,
    polling: bool,
    /// The registered memory, as address ranges; none when the kernel keeps no more locked.
    fixed: Option<[(usize, usize); 2]>,
}

impl Ring {
    /// A ring, with the memory registered if the limit on locked memory allows it.
    pub(crate) fn new(memory: &Memory) -> io::Result<Self> {
        let ring = build(true).or_else(|_| build(false))?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        // A kernel before 5.15 does not know this, and keeps four for each processor.
        let _ = ring.submitter().register_iowq_max_workers(&mut [WAITING, 0]);
        let regions = memory.regions().map(|region| (region.at(0, 0), region.len()));
        let whole = regions.map(|(at, len)| libc::iovec { iov_base: at.cast(), iov_len: len });
        // SAFETY: the driver keeps the memory until the ring is gone.
        let registered = unsafe { ring.submitter().register_buffers(&whole) };
        let ranges = regions.map(|(start, len)| (start as usize, start as usize + len));
        let fixed = registered.is_ok().then_some(ranges);
        Ok(Ring { ring, transfers: Vec::new(), flying: 0, cancelled: 0, polling: false, fixed })
    }

    /// What is readable when something has completed.
    pub(crate) fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Whether the memory is registered.
    pub(crate) fn is_registered(&self) -> bool {
        self.fixed.is_some()
    }

    /// Begins a transfer.
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

    /// Which part of the registered memory a piece lies in.
    fn fixed(&self, piece: &libc::iovec) -> Option<u16> {
        let start = piece.iov_base as usize;
        let inside = |(from, to): &(usize, usize)| *from <= start && start + piece.iov_len <= *to;
        self.fixed?.iter().position(inside).map(|index| index as u16)
    }

    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: the transfer behind the entry keeps its memory until it is reaped.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            self.submit(0, None);
        }
    }

    /// Hands what is queued to the kernel.
    pub(crate) fn flush(&mut self) {
        if self.has_work_for_kernel() {
            self.submit(0, None);
        }
    }

    /// Whether something is queued, or the kernel has completions that it shows once it is entered.
    fn has_work_for_kernel(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun()
    }

    /// As [`Ring::flush`], and sleeps until something completes, `waker` wakes, or `most` is over.
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
                // The time is over, a signal came, or completions must be reaped first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => panic!("io_uring does not take commands any more: {error}"),
            }
        }
    }

    /// Moves what is finished to the end of `list`, and goes on with what was short.
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
                // The kernel has no thread for the call, as where RLIMIT_NPROC is reached.
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

/// A ring; a `cooperative` one interrupts no processor for a completion, which is there when the
/// thread that submitted the command enters the kernel next. A kernel before 5.19 has none.
fn build(cooperative: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(COMPLETIONS).setup_clamp();
    if cooperative {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    builder.build(ENTRIES)
}

impl Drop for Ring {
    /// Waits for what the kernel still does with our memory.
    fn drop(&mut self) {
        let mut rest = VecDeque::new();
        while self.flying > 0 {
            self.submit(1, None);
            self.collect(&mut rest);
        }
    }
}

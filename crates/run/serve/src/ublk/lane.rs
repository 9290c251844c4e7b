//! One queue of a block device and its thread. It takes requests from the kernel, passes them to
//! the volume, drives the volume when no other thread does, and returns the answers to the kernel.
//!
//! Invariants
//! - The thread never waits for memory while it holds answers, because the owner of the memory may
//!   be waiting for them. A request without a buffer waits until an answer frees one.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use hostftl_core::HostError;
use hostftl_io::Waker;
use hostftl_io::ublk::{Op, Queue, Request};
use hostftl_volume::front::{Answer, Buffer, Job, JobOp, Port, Submitter};

use super::completions::Completions;
use crate::witness::{RequestKind, RequestObserver};

/// Position of a transfer's length in a cookie, above the tag.
const LENGTH_SHIFT: u32 = 16;

/// Queue of a block device.
pub(super) struct Lane {
    queue: Queue,
    port: Port,
    /// Maximum length of a read or write in bytes.
    longest: u64,
    submitter: Submitter,
    completions: Arc<Completions>,
    witness: Option<Arc<dyn RequestObserver>>,
    /// Requests without a buffer, in order of arrival.
    waiting: VecDeque<Request>,
    /// Number of requests in flight in the volume.
    flying: usize,
    /// Number of requests received.
    requests: u64,
    quit: Arc<AtomicBool>,
}

impl Lane {
    /// Creates queue `number` with `depth` tags for the calling thread. The thread ends without
    /// answering when `quit` is set and `waker` wakes it.
    pub(super) fn new(
        node: Arc<File>,
        number: u16,
        depth: u16,
        waker: Arc<Waker>,
        port: Port,
        witness: Option<Arc<dyn RequestObserver>>,
        quit: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let queue = Queue::new(node, number, depth, waker.clone())?;
        let (submitter, completions, waiting) =
            (port.submitter(), Completions::new(waker), VecDeque::new());
        let (flying, requests, longest) = (0, 0, port.export().max_transfer.into());
        Ok(Lane {
            queue,
            port,
            longest,
            submitter,
            completions,
            witness,
            waiting,
            flying,
            requests,
            quit,
        })
    }

    /// Serves the queue until its device or the server ends; returns the number of requests.
    pub(super) fn run(mut self) -> u64 {
        let mut came = Vec::new();
        loop {
            self.queue.collect(&mut came);
            self.requests += came.len() as u64;
            came.drain(..).for_each(|request| self.take(request));
            self.submitter.help();
            self.settle();
            self.begin_waiting();
            if self.quit.load(SeqCst) || self.queue.is_over() {
                return self.requests;
            }
            self.sleep();
        }
    }

    /// Passes answers to the kernel and waits for a request, an answer or the end.
    fn sleep(&mut self) {
        let (completions, submitter, quit) = (&self.completions, &mut self.submitter, &self.quit);
        let has_work = || completions.has_some() || quit.load(SeqCst);
        if submitter.is_free() {
            return self.queue.submit_and_sleep(has_work, submitter.polls());
        }
        if self.queue.has_answers() {
            // The same call returns new requests.
            return self.queue.submit();
        }
        self.queue.sleep(has_work, |fd| {
            submitter.wait_until(fd, None, has_work);
        });
    }

    /// Processes a request of the kernel.
    fn take(&mut self, request: Request) {
        let Request { tag, op, fua, offset, bytes } = request;
        if let (Some(witness), Some(what)) = (&self.witness, seen(op)) {
            witness.observe(what, offset, bytes);
        }
        match op {
            Op::Read | Op::Write if bytes > self.longest => {
                self.queue.answer(tag, -libc::EINVAL);
            }
            Op::Read | Op::Write if !self.waiting.is_empty() => self.waiting.push_back(request),
            Op::Read | Op::Write => match self.port.try_buffer(bytes as u32) {
                Some(buffer) => self.transfer(request, buffer),
                None => self.waiting.push_back(request),
            },
            Op::Flush => self.push(tag, JobOp::Flush, 0, 0, 0),
            Op::Discard => self.push(tag, JobOp::Trim { fua }, offset, bytes, 0),
            Op::WriteZeroes => self.push(tag, JobOp::Zeroes { fua }, offset, bytes, 0),
            Op::Other(_) => self.queue.answer(tag, -libc::EOPNOTSUPP),
        }
    }

    /// Starts requests that waited for a buffer.
    fn begin_waiting(&mut self) {
        while let Some(request) = self.waiting.front() {
            let bytes = request.bytes as u32;
            let buffer = match self.port.try_buffer(bytes) {
                Some(buffer) => buffer,
                // An answer will free one. Without requests in flight, no buffer is in the
                // completion queue.
                None if self.flying > 0 => return,
                None => {
                    self.submitter.leave();
                    self.port.buffer(bytes)
                }
            };
            let request = self.waiting.pop_front().expect("the one in front");
            self.transfer(request, buffer);
        }
    }

    /// Passes a read or a write to the volume.
    fn transfer(&mut self, request: Request, mut buffer: Buffer) {
        let Request { tag, op, fua, offset, bytes } = request;
        let op = match op {
            Op::Read => JobOp::Read(buffer),
            _ => match self.queue.take_payload(tag, &mut buffer) {
                Ok(()) => JobOp::Write { data: buffer, fua },
                Err(_) => return self.queue.answer(tag, -libc::EIO),
            },
        };
        self.push(tag, op, offset, bytes, bytes);
    }

    /// Passes a job to the volume, whose answer reports `transferred` bytes.
    fn push(&mut self, tag: u16, op: JobOp, offset: u64, bytes: u64, transferred: u64) {
        let (cookie, reply) =
            (transferred << LENGTH_SHIFT | u64::from(tag), self.completions.clone());
        self.flying += 1;
        self.submitter.push(Job { op, offset, bytes, cookie, reply });
    }

    /// Passes completed answers to the kernel.
    fn settle(&mut self) {
        for answer in self.completions.drain() {
            let Answer { cookie, result, data, .. } = answer;
            self.flying -= 1;
            let (tag, bytes) = (cookie as u16, (cookie >> LENGTH_SHIFT) as i32);
            let given = match (result, &data) {
                // The kernel does not need the buffer of a write.
                (Ok(()), Some(data)) => self.give(tag, data),
                (result, _) => result.map_err(errno),
            };
            self.queue.answer(tag, given.map_or_else(|number| -number, |()| bytes));
        }
    }

    /// Copies the data of a read to the kernel.
    fn give(&self, tag: u16, data: &Buffer) -> Result<(), i32> {
        match self.queue.op(tag) {
            Op::Read => self.queue.give_payload(tag, data).map_err(|_| libc::EIO),
            _ => Ok(()),
        }
    }
}

fn errno(error: HostError) -> i32 {
    match error {
        HostError::Io => libc::EIO,
        HostError::NoSpace => libc::ENOSPC,
        HostError::Range => libc::EINVAL,
        HostError::ReadOnly => libc::EPERM,
    }
}

/// Returns the kind of request that a witness records.
fn seen(op: Op) -> Option<RequestKind> {
    match op {
        Op::Read => Some(RequestKind::Read),
        Op::Write => Some(RequestKind::Write),
        Op::Flush => Some(RequestKind::Flush),
        Op::Discard => Some(RequestKind::Trim),
        Op::WriteZeroes => Some(RequestKind::Zeroes),
        Op::Other(_) => None,
    }
}

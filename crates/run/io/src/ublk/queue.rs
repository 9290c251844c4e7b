//! One queue of a block device, used only by the thread that created it: the kernel accepts the
//! answer to a request only from the thread that fetched it.
//!
//! Invariants
//! - A tag belongs to the kernel, to the server with its request, or has ended with the device.
//!   Only a tag of the server is answered.
//! - At most one poll of the waker is armed.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;

use hostftl_core::SECTOR;
use io_uring::types::Fd;
use io_uring::{EnterFlags, IoUring, opcode, squeue};

use super::abi::{self, COMMIT_AND_FETCH_REQ, DESCRIPTION_BYTES, FETCH_REQ, MAX_QUEUE_DEPTH, Op};
use crate::polling::Wait;
use crate::waker::Waker;

/// User data of the poll of the waker.
const WAKE: u64 = u64::MAX;
const PAGE: usize = 4096;

/// Request to the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Tag that identifies the request until it is answered.
    pub tag: u16,
    /// Operation.
    pub op: Op,
    /// Whether the data must be durable before the answer (FUA).
    pub fua: bool,
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Owner of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Kernel,
    Server,
    Withdrawn,
}

/// Queue of requests of a ublk device.
pub struct Queue {
    ring: IoUring,
    node: Arc<File>,
    number: u16,
    descriptions: Descriptions,
    tags: Vec<Tag>,
    waker: Arc<Waker>,
    polling: bool,
}

impl Queue {
    /// Creates queue `number` of the device with the character node `node` and `depth` tags, and
    /// passes all tags to the kernel. `waker` wakes the calling thread.
    ///
    /// # Errors
    /// When the kernel refuses io_uring or the mapping of the descriptions.
    pub fn new(node: Arc<File>, number: u16, depth: u16, waker: Arc<Waker>) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_coop_taskrun();
        // Space for an answer to each tag and a poll.
        let ring = builder.build(u32::from(depth) + 1)?;
        let descriptions = Descriptions::map(&node, number, depth)?;
        let tags = vec![Tag::Kernel; depth.into()];
        let polling = false;
        let mut queue = Queue { ring, node, number, descriptions, tags, waker, polling };
        for tag in 0..depth {
            queue.give(tag, FETCH_REQ, 0);
        }
        queue.submit();
        Ok(queue)
    }

    /// Returns the descriptor that is readable when [`Queue::collect`] may return requests.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring lives as long as the queue that is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Moves new requests to the end of `requests`.
    pub fn collect(&mut self, requests: &mut Vec<Request>) {
        while let Some(entry) = self.ring.completion().next() {
            if entry.user_data() == WAKE {
                self.polling = false;
                continue;
            }
            let tag = entry.user_data() as u16;
            let state = &mut self.tags[usize::from(tag)];
            assert_eq!(*state, Tag::Kernel, "only a tag that the kernel owns is returned");
            match entry.result() {
                0 => {
                    *state = Tag::Server;
                    requests.push(self.descriptions.request(tag));
                }
                // With any other result the tag does not return: the device is ending.
                _ => *state = Tag::Withdrawn,
            }
        }
    }

    /// Answers the request of `tag` with the number of bytes transferred, or a negative errno.
    pub fn answer(&mut self, tag: u16, result: i32) {
        assert_eq!(self.tags[usize::from(tag)], Tag::Server, "one answer per request");
        self.tags[usize::from(tag)] = Tag::Kernel;
        self.give(tag, COMMIT_AND_FETCH_REQ, result);
    }

    /// Reads the data of the write request of `tag` into `data`.
    ///
    /// # Errors
    /// When the request does not exist any more.
    pub fn take_payload(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        self.node.read_exact_at(data, abi::payload_at(self.number, tag))
    }

    /// Supplies the data of the read request of `tag`.
    ///
    /// # Errors
    /// When the request does not exist any more.
    pub fn give_payload(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        self.node.write_all_at(data, abi::payload_at(self.number, tag))
    }

    /// Returns the operation of the request of `tag`.
    pub fn op(&self, tag: u16) -> Op {
        assert_eq!(self.tags[usize::from(tag)], Tag::Server, "an unanswered request");
        self.descriptions.request(tag).op
    }

    /// Returns whether all tags have ended: no request can arrive or be answered.
    pub fn is_over(&self) -> bool {
        self.tags.iter().all(|tag| *tag == Tag::Withdrawn)
    }

    /// Submits queued entries to the kernel, and lets it post completions.
    pub fn submit(&mut self) {
        self.enter(0);
    }

    /// Submits queued entries, and waits for `least` completions or a signal.
    fn enter(&mut self, least: u32) {
        let flags = EnterFlags::GETEVENTS.bits();
        loop {
            let count = self.ring.submission().len() as u32;
            // SAFETY: the entries refer only to memory that exists as long as the ring.
            let entered = unsafe { self.ring.submitter().enter::<()>(count, least, flags, None) };
            match entered {
                Ok(_) if self.ring.submission().is_empty() => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("io_uring accepts no further commands: {error}"),
            }
        }
    }

    /// Returns whether answers are queued for [`Queue::submit`].
    pub fn has_answers(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Registers the thread as a sleeper, then calls `wait`, which waits for [`Queue::fd`], unless
    /// `has_work`. A wake makes the descriptor readable.
    pub fn sleep(&mut self, has_work: impl FnOnce() -> bool, wait: impl FnOnce(BorrowedFd<'_>)) {
        self.hear_waker();
        if self.has_answers() {
            self.submit();
        }
        self.waker.fall_asleep();
        if !has_work() {
            wait(self.fd());
        }
        self.waker.get_up();
    }

    /// Submits queued entries and sleeps until a completion or a wake, unless `has_work`. This
    /// needs one system call, for a thread that waits for nothing else.
    pub fn submit_and_sleep(&mut self, has_work: impl FnOnce() -> bool, polls: Option<Wait<'_>>) {
        self.hear_waker();
        self.waker.fall_asleep();
        if has_work() {
            self.submit()
        } else {
            self.wait(polls)
        }
        self.waker.get_up();
    }

    /// Waits for a completion; queued entries are submitted.
    fn wait(&mut self, mut polls: Option<Wait<'_>>) {
        while polls.as_mut().is_some_and(Wait::keeps_polling) {
            self.submit();
            if !self.ring.completion().is_empty() {
                return;
            }
        }
        self.enter(1);
    }

    /// Arms a poll of the waker, so that a wake appears as a completion.
    fn hear_waker(&mut self) {
        if !self.polling {
            let poll = opcode::PollAdd::new(Fd(self.waker.fd()), libc::POLLIN as u32).build();
            self.push(&poll.user_data(WAKE));
            self.polling = true;
        }
    }

    fn give(&mut self, tag: u16, number: u32, result: i32) {
        let command = abi::io_command(self.number, tag, result);
        let entry = opcode::UringCmd16::new(Fd(self.node.as_raw_fd()), number).cmd(command);
        self.push(&entry.build().user_data(tag.into()));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the entry does not refer to our memory.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit();
        }
    }
}

/// The kernel's descriptions of requests, which it writes before a fetch completes.
struct Descriptions {
    start: NonNull<u8>,
    bytes: usize,
    depth: u16,
}

// SAFETY: memory that is not bound to a thread, and only read.
unsafe impl Send for Descriptions {}

impl Descriptions {
    fn map(node: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let room = |depth: usize| (depth * DESCRIPTION_BYTES).next_multiple_of(PAGE);
        let (bytes, offset) = (room(depth.into()), room(MAX_QUEUE_DEPTH) * usize::from(queue));
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let (fd, offset) = (node.as_raw_fd(), offset as libc::off_t);
        // SAFETY: a new mapping does not overlap existing memory.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("a mapping is never at zero");
        Ok(Descriptions { start, bytes, depth })
    }

    fn request(&self, tag: u16) -> Request {
        assert!(tag < self.depth, "a tag of this queue");
        let at = usize::from(tag) * DESCRIPTION_BYTES;
        // SAFETY: within the mapping; the kernel changes it only while it owns the tag.
        let bytes = unsafe {
            self.start.as_ptr().add(at).cast::<[u8; DESCRIPTION_BYTES]>().read_volatile()
        };
        let (op, fua, first, sectors) = abi::description(&bytes);
        let sector = SECTOR as u64;
        Request { tag, op, fua, offset: first * sector, bytes: u64::from(sectors) * sector }
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

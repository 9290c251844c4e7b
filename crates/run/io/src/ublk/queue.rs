//! One queue of a block device, for the one thread that made it: the kernel wants each request's
//! answer from whoever fetched it.
//!
//! Invariants
//! - A tag is with the kernel, with its request at the server, or gone with the device. What is not
//!   with the server is never answered.
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

/// The name of the poll that hears the waker.
const WAKE: u64 = u64::MAX;
const PAGE: usize = 4096;

/// What somebody wants of the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name until it is answered.
    pub tag: u16,
    /// What to do.
    pub op: Op,
    /// Durable before the answer.
    pub fua: bool,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// Who has a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Kernel,
    Server,
    Gone,
}

/// See the module text.
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
    /// Queue `number` of the device whose character node is `node`, and which has `depth` tags;
    /// `waker` wakes the calling thread. The tags are on their way to the kernel.
    ///
    /// # Errors
    /// When the kernel refuses io_uring or the descriptions of requests.
    pub fn new(node: Arc<File>, number: u16, depth: u16, waker: Arc<Waker>) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_coop_taskrun();
        // Room for an answer to each tag and a poll.
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

    /// What is readable when there may be something to [`Queue::collect`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring lives as long as the queue that is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Moves the requests that came to the end of `requests`.
    pub fn collect(&mut self, requests: &mut Vec<Request>) {
        while let Some(entry) = self.ring.completion().next() {
            if entry.user_data() == WAKE {
                self.polling = false;
                continue;
            }
            let tag = entry.user_data() as u16;
            let state = &mut self.tags[usize::from(tag)];
            assert_eq!(*state, Tag::Kernel, "only what the kernel has comes from it");
            match entry.result() {
                0 => {
                    *state = Tag::Server;
                    requests.push(self.descriptions.request(tag));
                }
                // Whatever else it says, the tag does not come back: so it is when a device ends.
                _ => *state = Tag::Gone,
            }
        }
    }

    /// Answers the request of `tag`: how many bytes were transferred, or a negative error number.
    pub fn answer(&mut self, tag: u16, result: i32) {
        assert_eq!(self.tags[usize::from(tag)], Tag::Server, "one answer for each request");
        self.tags[usize::from(tag)] = Tag::Kernel;
        self.give(tag, COMMIT_AND_FETCH_REQ, result);
    }

    /// Fills `data` with what the request of `tag` writes.
    ///
    /// # Errors
    /// When the request is not there any more.
    pub fn take_payload(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        self.node.read_exact_at(data, abi::payload_at(self.number, tag))
    }

    /// Gives the request of `tag` what it reads.
    ///
    /// # Errors
    /// When the request is not there any more.
    pub fn give_payload(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        self.node.write_all_at(data, abi::payload_at(self.number, tag))
    }

    /// What the request of `tag` wants.
    pub fn op(&self, tag: u16) -> Op {
        assert_eq!(self.tags[usize::from(tag)], Tag::Server, "a request that is not answered");
        self.descriptions.request(tag).op
    }

    /// Whether no request comes any more, and none is to be answered: the device goes away.
    pub fn is_over(&self) -> bool {
        self.tags.iter().all(|tag| *tag == Tag::Gone)
    }

    /// Hands what is queued to the kernel, which looks whether something came.
    pub fn submit(&mut self) {
        self.enter(0);
    }

    /// Hands what is queued to the kernel, and waits until `least` things came, or a signal.
    fn enter(&mut self, least: u32) {
        let flags = EnterFlags::GETEVENTS.bits();
        loop {
            let count = self.ring.submission().len() as u32;
            // SAFETY: what is queued was pushed with memory that lives as long as the ring.
            let entered = unsafe { self.ring.submitter().enter::<()>(count, least, flags, None) };
            match entered {
                Ok(_) if self.ring.submission().is_empty() => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("io_uring does not take commands any more: {error}"),
            }
        }
    }

    /// Whether something waits for [`Queue::submit`].
    pub fn has_answers(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Says that the thread sleeps, then calls `wait`, which waits for [`Queue::fd`], unless
    /// `has_work`. The waker makes that readable.
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

    /// Hands what is queued to the kernel and sleeps until something came or the waker rings,
    /// unless `has_work`: one system call for both, for a thread that waits for nothing else.
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

    /// Waits until something came; what is queued is handed over.
    fn wait(&mut self, mut polls: Option<Wait<'_>>) {
        while polls.as_mut().is_some_and(Wait::goes_on) {
            self.submit();
            if !self.ring.completion().is_empty() {
                return;
            }
        }
        self.enter(1);
    }

    /// Lets the waker's ringing come as what the kernel tells.
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
        // SAFETY: the entry points at no memory of ours.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit();
        }
    }
}

/// The kernel's descriptions of the requests, which it writes before a command ends.
struct Descriptions {
    start: NonNull<u8>,
    bytes: usize,
    depth: u16,
}

// SAFETY: memory without a thread of its own, which is only read.
unsafe impl Send for Descriptions {}

impl Descriptions {
    fn map(node: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let room = |depth: usize| (depth * DESCRIPTION_BYTES).next_multiple_of(PAGE);
        let (bytes, offset) = (room(depth.into()), room(MAX_QUEUE_DEPTH) * usize::from(queue));
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let (fd, offset) = (node.as_raw_fd(), offset as libc::off_t);
        // SAFETY: a fresh mapping touches no memory that exists.
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
        // SAFETY: within the mapping; the kernel changes it only while it has the tag.
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

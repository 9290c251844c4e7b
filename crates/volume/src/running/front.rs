//! What a front end (NBD, ublk) sees of a volume that is being served.

pub(crate) mod ram;
mod seat;

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::Duration;

use hostftl_core::{HostError, Refusal, SECTOR, Verb};
use hostftl_io::{Arena, Driver, Lease, Waker};
use hostftl_layers::AnyLayer;

use crate::open::session::ack_log::{Change, entry::Kind};
use crate::running::engine::Engine;
use crate::running::jobs::Jobs;
use crate::util::error::Error;

pub use seat::Seat;

/// What all clients of a volume may take of memory together, beside the volume's buffers, in bytes:
/// as much as the longest read.
pub const CLIENTS_BYTES: u64 = 32 << 20;

/// Waits until `fd` has something to read, or for `most` at the longest.
pub fn wait_readable(fd: BorrowedFd<'_>, most: Duration) {
    hostftl_io::wait_readable(fd.as_raw_fd(), Some(most));
}

/// Waits until `fd` takes something, or for `most` at the longest.
pub fn wait_writable(fd: BorrowedFd<'_>, most: Duration) {
    hostftl_io::wait_writable(fd.as_raw_fd(), most);
}

/// Whether the peer has closed the connection, or the half of it on which it sends.
pub fn is_hung_up(fd: BorrowedFd<'_>) -> bool {
    hostftl_io::is_hung_up(fd.as_raw_fd())
}

/// Asks for room for `bytes` bytes of what was sent on a socket and not received yet. The kernel
/// gives what it allows.
pub fn set_send_room(fd: BorrowedFd<'_>, bytes: u32) {
    hostftl_io::set_send_room(fd.as_raw_fd(), bytes);
}

/// The block device that a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The UUID of the volume.
    pub volume: [u8; 16],
    /// Whether what is durable is there for the next process: not so in memory.
    pub lasts: bool,
    /// Its name for clients.
    pub name: String,
    /// Another name that means the same.
    pub also: Option<String>,
    /// The name that it had, if that is refused for now, and what to tell whoever asks for it.
    pub held: Option<(String, String)>,
    /// Its length in bytes.
    pub bytes: u64,
    /// The longest read or write in bytes; a front end splits what is longer.
    pub max_transfer: u32,
    /// Where long requests are best split, in bytes.
    pub align: u32,
    /// Whether zeroes take no longer than a trim.
    pub fast_zeroes: bool,
    /// Whether what the last server answered may be gone.
    pub forgot: bool,
    /// Whether it is only read: what would change it is refused, and a flush has nothing to do.
    pub read_only: bool,
}

/// A buffer of the volume's arena, which gets it back when it is dropped.
#[derive(Debug)]
pub struct Buffer(pub(crate) Lease);

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// What a client wants.
#[derive(Debug)]
pub enum JobOp {
    /// Fill the buffer, which is as long as the job.
    Read(Buffer),
    /// Write the buffer; with `fua` it is durable when answered.
    Write {
        /// The bytes, as long as the job.
        data: Buffer,
        /// Durable before the answer.
        fua: bool,
    },
    /// Make durable what was answered before this job came.
    Flush,
    /// The range is not needed, and reads zeros afterwards.
    Trim {
        /// Durable before the answer.
        fua: bool,
    },
    /// The range reads zeros afterwards.
    Zeroes {
        /// Durable before the answer.
        fua: bool,
    },
    /// Which parts are mapped? The answer may be about the front of the range only.
    Status,
}

impl JobOp {
    /// From now on the answer to what changes anything says that it is durable.
    pub(crate) fn make_durable(&mut self) {
        match self {
            JobOp::Write { fua, .. } | JobOp::Trim { fua } | JobOp::Zeroes { fua } => *fua = true,
            JobOp::Read(_) | JobOp::Flush | JobOp::Status => {}
        }
    }
}

/// The most extents in one answer.
pub const MAX_EXTENTS: usize = 256;

/// A part of a range that is mapped, or one that reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How long, in bytes.
    pub bytes: u64,
    /// Whether it may hold something other than zeros.
    pub mapped: bool,
}

/// One request: sector-aligned, and a read or write at most `max_transfer` long. A flush has offset
/// and length 0. When nobody waits for the answer any more, it is dropped.
#[derive(Debug)]
pub struct Job {
    /// What to do.
    pub op: JobOp,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The front end's name for the job, given back with the answer.
    pub cookie: u64,
    /// Where the answer goes.
    pub reply: Arc<dyn Answers>,
}

/// Takes answers, from whichever thread has them.
pub trait Answers: Send + Sync {
    /// An answer. A front end that is gone misses nothing.
    fn take(&self, answer: Answer);
    /// No other answer comes at once: what was taken may go out. This must not wait.
    fn flush(&self) {}
}

impl Answers for Sender<Answer> {
    fn take(&self, answer: Answer) {
        self.send(answer).ok();
    }
}

impl fmt::Debug for dyn Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// The answer to a job.
#[derive(Debug)]
pub struct Answer {
    /// The job's cookie.
    pub cookie: u64,
    /// What came of it.
    pub result: Result<(), HostError>,
    /// The job's buffer. `None` when there was none or a hung device keeps it.
    pub data: Option<Buffer>,
    /// For [`JobOp::Status`]: the extents from the front of the range on, one at least.
    pub extents: Vec<Extent>,
}

impl Answer {
    /// An answer without extents.
    pub fn new(cookie: u64, result: Result<(), HostError>, data: Option<Buffer>) -> Self {
        Answer { cookie, result, data, extents: Vec::new() }
    }
}

/// Where jobs go in. Clones are the same port.
#[derive(Clone, Debug)]
pub struct Port(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// What clients see that come now.
    export: RwLock<Arc<Export>>,
    /// Its length.
    bytes: AtomicU64,
    read_only: bool,
    arena: Arc<Arena>,
    queue: Mutex<Queue>,
    waker: Arc<Waker>,
    /// Does the jobs, if any thread may do them.
    engine: OnceLock<Weak<Engine>>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Port {
    /// A port over `arena` whose jobs an [`Inbox`] takes out; `waker` wakes the thread that has it.
    pub fn new(export: Export, arena: Arc<Arena>, waker: Arc<Waker>) -> (Port, Inbox) {
        let queue = Mutex::new(Queue::default());
        let engine = OnceLock::new();
        let (bytes, read_only) = (AtomicU64::new(export.bytes), export.read_only);
        let export = RwLock::new(Arc::new(export));
        let shared = Arc::new(Shared { export, bytes, read_only, arena, queue, waker, engine });
        (Port(shared.clone()), Inbox(shared))
    }

    /// The block device behind the port, as it is now.
    pub fn export(&self) -> Arc<Export> {
        self.0.export.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// The block device has this length from now on.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        let mut export = self.0.export.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *export = Arc::new(Export { bytes, ..(**export).clone() });
        self.0.bytes.store(bytes, SeqCst);
    }

    /// The buffers of the jobs, and what wakes who does them.
    pub(crate) fn means(&self) -> (&Arc<Arena>, &Arc<Waker>) {
        (&self.0.arena, &self.0.waker)
    }

    /// A buffer of `bytes` bytes. Waits until the arena has room: this is the back-pressure.
    pub fn buffer(&self, bytes: u32) -> Buffer {
        Buffer(self.0.arena.lease(bytes))
    }

    /// As [`Port::buffer`], but says `None` rather than wait.
    pub fn try_buffer(&self, bytes: u32) -> Option<Buffer> {
        self.0.arena.try_lease(bytes).map(Buffer)
    }

    /// A place for a thread that submits jobs, each place for one thread.
    pub fn seat(&self) -> Seat {
        Seat::at(self.clone())
    }

    /// Hands a job over and returns at once. The answer is an error when the range is not whole
    /// sectors of the export, or the volume has stopped.
    pub fn submit(&self, job: Job) {
        self.push(job);
        self.0.waker.wake();
    }

    /// As [`Port::submit`], but wakes nobody: whoever pushes sees to it that the job is done.
    fn push(&self, job: Job) {
        let end = job.offset.checked_add(job.bytes);
        let inside = end.is_some_and(|end| end <= self.0.bytes.load(Relaxed));
        if !inside || !job.is_whole() {
            return job.refuse(Err(HostError::Range));
        }
        if self.0.read_only {
            match job.op {
                JobOp::Read(_) | JobOp::Status => {}
                JobOp::Flush => return job.refuse(Ok(())),
                JobOp::Write { .. } | JobOp::Trim { .. } | JobOp::Zeroes { .. } => {
                    return job.refuse(Err(HostError::ReadOnly));
                }
            }
        }
        if job.bytes == 0 && !matches!(job.op, JobOp::Flush) {
            return job.refuse(Ok(()));
        }
        let mut queue = self.0.queue();
        if queue.closed {
            drop(queue);
            return job.refuse(Err(HostError::Io));
        }
        queue.jobs.push_back(job);
    }

    /// Whether a job waits, or the end.
    pub(crate) fn has_work(&self) -> bool {
        let queue = self.0.queue();
        queue.closed || !queue.jobs.is_empty()
    }

    /// Asks whoever drives the volume for a turn, and says how many there were; 0 when it is over.
    pub(crate) fn pulse(&self) -> u64 {
        let engine = self.0.engine.get().and_then(Weak::upgrade);
        engine.map_or(0, |engine| engine.pulse())
    }

    /// Lets the layer do what an operator wants.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub(crate) fn operate(&self, verb: Verb) -> Result<hostftl_core::Answer, Refusal> {
        let engine = self.0.engine.get().and_then(Weak::upgrade);
        let closed = Err(Refusal::Because("the volume is being closed"));
        engine.map_or(closed, |engine| engine.operate(verb))
    }

    /// Does something between two steps of the layer; none when the volume is being closed.
    pub(crate) fn between<T>(
        &self,
        act: impl FnOnce(&mut Driver<AnyLayer>, &mut Jobs) -> T,
    ) -> Option<T> {
        self.0.engine.get().and_then(Weak::upgrade)?.between(act)
    }

    /// Another driver comes in the place of the one that there is, while whoever asks for something
    /// waits; none when the volume is being closed.
    ///
    /// # Errors
    /// When there is none any more: then the volume is over.
    pub(crate) fn renew<T>(
        &self,
        act: impl FnOnce(Driver<AnyLayer>, &mut Jobs) -> Result<(Driver<AnyLayer>, T), Error>,
    ) -> Option<Result<T, String>> {
        self.0.engine.get().and_then(Weak::upgrade)?.renew(act)
    }

    /// From now on whoever has a seat helps `engine`.
    pub(crate) fn set_engine(&self, engine: &Arc<Engine>) {
        let set = self.0.engine.set(Arc::downgrade(engine));
        assert!(set.is_ok(), "a port has one engine");
    }

    /// Takes no more jobs; what is queued will still be done.
    pub(crate) fn close(&self) {
        self.0.queue().closed = true;
        self.0.waker.ring();
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Job {
    /// Whether the job is whole sectors, and its buffer as long as it says.
    fn is_whole(&self) -> bool {
        let sector = SECTOR as u64;
        let whole = self.offset.is_multiple_of(sector) && self.bytes.is_multiple_of(sector);
        whole
            && match &self.op {
                JobOp::Read(data) | JobOp::Write { data, .. } => data.len() as u64 == self.bytes,
                _ => true,
            }
    }

    /// Returns the change that the job makes, as the stash keeps it; `None` if it changes nothing.
    pub(crate) fn change(&self) -> Option<Change<'_>> {
        let (kind, data): (_, &[u8]) = match &self.op {
            JobOp::Write { data, .. } => (Kind::Write, data),
            JobOp::Trim { .. } => (Kind::Trim, &[]),
            JobOp::Zeroes { .. } => (Kind::Zeroes, &[]),
            JobOp::Read(_) | JobOp::Flush | JobOp::Status => return None,
        };
        Some(Change { kind, offset: self.offset, bytes: self.bytes, data })
    }

    /// Whether it is a read or write of more than `longest` bytes.
    pub(crate) fn is_too_long(&self, longest: u64) -> bool {
        matches!(self.op, JobOp::Read(_) | JobOp::Write { .. }) && self.bytes > longest
    }

    /// Answers the job without doing it.
    pub(crate) fn refuse(self, result: Result<(), HostError>) {
        let data = match self.op {
            JobOp::Read(data) | JobOp::Write { data, .. } => Some(data),
            _ => None,
        };
        self.reply.take(Answer::new(self.cookie, result, data));
        self.reply.flush();
    }
}

/// The end of a [`Port`] where jobs come out, for the one thread that does them.
#[derive(Debug)]
pub struct Inbox(Arc<Shared>);

impl Inbox {
    /// The next job; a read or write longer than `longest` bytes stays.
    pub fn take(&self, longest: u64) -> Taken {
        let mut queue = self.0.queue();
        let Some(job) = queue.jobs.front() else {
            return if queue.closed { Taken::Over } else { Taken::Nothing };
        };
        if job.is_too_long(longest) {
            return Taken::TooLong;
        }
        queue.jobs.pop_front().map_or(Taken::Nothing, Taken::Job)
    }

    /// Whether `take` gives more than nothing: a reason not to sleep.
    pub fn has_work(&self) -> bool {
        let queue = self.0.queue();
        queue.closed || !queue.jobs.is_empty()
    }

    /// The buffers of the jobs.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.0.arena
    }

    /// What wakes the inbox's thread.
    pub fn waker(&self) -> &Arc<Waker> {
        &self.0.waker
    }
}

/// What an inbox has.
#[derive(Debug)]
pub enum Taken {
    /// A job.
    Job(Job),
    /// A job that is too long now.
    TooLong,
    /// Nothing now.
    Nothing,
    /// Nothing, and the port is closed.
    Over,
}

impl Drop for Inbox {
    /// Refuses what is left, so that no client waits for ever.
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.closed = true;
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        jobs.into_iter().for_each(|job| job.refuse(Err(HostError::Io)));
    }
}

//! Requests of clients, their buffers, and the answers to them.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use hostftl_core::{HostError, SECTOR};
use hostftl_io::Lease;

use crate::open::session::ack_log::Change;
use crate::open::session::ack_log::entry::Kind;

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

impl Job {
    /// Whether the job is whole sectors, and its buffer as long as it says.
    pub(crate) fn is_whole(&self) -> bool {
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

//! Requests of clients, their buffers, and the answers to them.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use hostftl_core::{HostError, SECTOR};
use hostftl_io::Lease;

use crate::open::session::ack_log::Change;
use crate::open::session::ack_log::entry::Kind;

/// Block device that a volume exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// UUID of the volume.
    pub volume: [u8; 16],
    /// Whether durable data outlives the process; false for a volume in memory.
    pub lasts: bool,
    /// Name for clients.
    pub name: String,
    /// Alias of the name.
    pub also: Option<String>,
    /// Former name, if it is refused for now, and the reason for clients.
    pub held: Option<(String, String)>,
    /// Length in bytes.
    pub bytes: u64,
    /// Maximum length of a read or write in bytes; a front end splits longer ones.
    pub max_transfer: u32,
    /// Alignment for splitting long requests, in bytes.
    pub align: u32,
    /// Whether zeroing is as fast as a trim.
    pub fast_zeroes: bool,
    /// Whether writes that the last server acknowledged may be lost.
    pub forgot: bool,
    /// Whether changes are refused. A flush has no effect then.
    pub read_only: bool,
}

/// Buffer of the volume's arena, returned when dropped.
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

/// Operation of a job.
#[derive(Debug)]
pub enum JobOp {
    /// Fills the buffer, which is as long as the job.
    Read(Buffer),
    /// Writes the buffer.
    Write {
        /// Data, as long as the job.
        data: Buffer,
        /// Makes the write durable before the answer.
        fua: bool,
    },
    /// Makes everything durable that was acknowledged before the job was submitted.
    Flush,
    /// Discards the range, which reads as zeros afterwards.
    Trim {
        /// Makes the trim durable before the answer.
        fua: bool,
    },
    /// Zeroes the range.
    Zeroes {
        /// Makes the zeroing durable before the answer.
        fua: bool,
    },
    /// Queries the mapped parts. The answer may cover only the start of the range.
    Status,
}

impl JobOp {
    /// Makes a change durable before its answer.
    pub(crate) fn make_durable(&mut self) {
        match self {
            JobOp::Write { fua, .. } | JobOp::Trim { fua } | JobOp::Zeroes { fua } => *fua = true,
            JobOp::Read(_) | JobOp::Flush | JobOp::Status => {}
        }
    }
}

/// Maximum number of extents in an answer.
pub const MAX_EXTENTS: usize = 256;

/// Part of a range that is either mapped or reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub bytes: u64,
    /// Whether it may hold data other than zeros.
    pub mapped: bool,
}

/// A request: sector-aligned; a read or write is at most `max_transfer` long. A flush has offset
/// and length 0. The answer is dropped if its receiver is gone.
#[derive(Debug)]
pub struct Job {
    /// Operation.
    pub op: JobOp,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Identifier of the front end, returned with the answer.
    pub cookie: u64,
    /// Receiver of the answer.
    pub reply: Arc<dyn Answers>,
}

impl Job {
    /// Returns whether the job covers whole sectors and its buffer has its length.
    pub(crate) fn is_whole(&self) -> bool {
        let sector = SECTOR as u64;
        let whole = self.offset.is_multiple_of(sector) && self.bytes.is_multiple_of(sector);
        whole
            && match &self.op {
                JobOp::Read(data) | JobOp::Write { data, .. } => data.len() as u64 == self.bytes,
                _ => true,
            }
    }

    /// Returns the change that the job makes, for the acknowledgement log; `None` if it changes
    /// nothing.
    pub(crate) fn change(&self) -> Option<Change<'_>> {
        let (kind, data): (_, &[u8]) = match &self.op {
            JobOp::Write { data, .. } => (Kind::Write, data),
            JobOp::Trim { .. } => (Kind::Trim, &[]),
            JobOp::Zeroes { .. } => (Kind::Zeroes, &[]),
            JobOp::Read(_) | JobOp::Flush | JobOp::Status => return None,
        };
        Some(Change { kind, offset: self.offset, bytes: self.bytes, data })
    }

    /// Returns whether the job is a read or write of more than `longest` bytes.
    pub(crate) fn is_too_long(&self, longest: u64) -> bool {
        matches!(self.op, JobOp::Read(_) | JobOp::Write { .. }) && self.bytes > longest
    }

    /// Answers the job without executing it.
    pub(crate) fn refuse(self, result: Result<(), HostError>) {
        let data = match self.op {
            JobOp::Read(data) | JobOp::Write { data, .. } => Some(data),
            _ => None,
        };
        self.reply.take(Answer::new(self.cookie, result, data));
        self.reply.flush();
    }
}

/// Receiver of answers, called from any thread.
pub trait Answers: Send + Sync {
    /// Takes an answer. It is dropped if the front end has ended.
    fn take(&self, answer: Answer);
    /// Sends the answers taken so far, because no other one follows at once. It must not block.
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

/// Answer to a job.
#[derive(Debug)]
pub struct Answer {
    /// Cookie of the job.
    pub cookie: u64,
    /// Result of the job.
    pub result: Result<(), HostError>,
    /// Buffer of the job. `None` when it had none, or a device that timed out still holds it.
    pub data: Option<Buffer>,
    /// For [`JobOp::Status`]: extents from the start of the range, at least one.
    pub extents: Vec<Extent>,
}

impl Answer {
    /// Creates an answer without extents.
    pub fn new(cookie: u64, result: Result<(), HostError>, data: Option<Buffer>) -> Self {
        Answer { cookie, result, data, extents: Vec::new() }
    }
}

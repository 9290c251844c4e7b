//! The queue of a port: front ends put jobs in, and the layer's host takes them out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use hostftl_core::HostError;
use hostftl_io::{Arena, Waker};

use crate::running::front::job::{Export, Job, JobOp};

/// See the module text.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The block device that new clients see.
    export: RwLock<Arc<Export>>,
    /// Its length.
    bytes: AtomicU64,
    read_only: bool,
    arena: Arc<Arena>,
    waiting: Mutex<Waiting>,
    waker: Arc<Waker>,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    /// An empty queue, and its end where jobs are taken out; `waker` wakes the thread that has it.
    pub(crate) fn new(export: Export, arena: Arc<Arena>, waker: Arc<Waker>) -> (Arc<Self>, Inbox) {
        let (bytes, read_only) = (AtomicU64::new(export.bytes), export.read_only);
        let (export, waiting) = (RwLock::new(Arc::new(export)), Mutex::default());
        let queue = Arc::new(Queue { export, bytes, read_only, arena, waiting, waker });
        (queue.clone(), Inbox(queue))
    }

    /// The block device behind the queue, as it is now.
    pub(crate) fn export(&self) -> Arc<Export> {
        self.export.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Gives the block device this length.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        let mut export = self.export.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *export = Arc::new(Export { bytes, ..(**export).clone() });
        self.bytes.store(bytes, SeqCst);
    }

    /// The buffers of the jobs.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// What wakes the thread that takes jobs out.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Adds a job and wakes nobody. Answers it with an error when its range is not whole sectors of
    /// the export, or the queue is closed.
    pub(crate) fn push(&self, job: Job) {
        let end = job.offset.checked_add(job.bytes);
        let inside = end.is_some_and(|end| end <= self.bytes.load(Relaxed));
        if !inside || !job.is_whole() {
            return job.refuse(Err(HostError::Range));
        }
        if self.read_only {
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
        let mut waiting = self.lock();
        if waiting.closed {
            drop(waiting);
            return job.refuse(Err(HostError::Io));
        }
        waiting.jobs.push_back(job);
    }

    /// Whether a job waits, or the end.
    pub(crate) fn has_work(&self) -> bool {
        let waiting = self.lock();
        waiting.closed || !waiting.jobs.is_empty()
    }

    /// Takes no more jobs; those that wait will still be done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.waker.ring();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The end of a port where jobs come out, for the one thread that does them.
#[derive(Debug)]
pub struct Inbox(Arc<Queue>);

impl Inbox {
    /// The next job; a read or write longer than `longest` bytes stays.
    pub fn take(&self, longest: u64) -> Taken {
        let mut waiting = self.0.lock();
        let Some(job) = waiting.jobs.front() else {
            return if waiting.closed { Taken::Over } else { Taken::Nothing };
        };
        if job.is_too_long(longest) {
            return Taken::TooLong;
        }
        waiting.jobs.pop_front().map_or(Taken::Nothing, Taken::Job)
    }

    /// Whether `take` gives more than nothing: a reason not to sleep.
    pub fn has_work(&self) -> bool {
        self.0.has_work()
    }

    /// The buffers of the jobs.
    pub fn arena(&self) -> &Arc<Arena> {
        self.0.arena()
    }

    /// What wakes the inbox's thread.
    pub fn waker(&self) -> &Arc<Waker> {
        self.0.waker()
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
        let mut waiting = self.0.lock();
        waiting.closed = true;
        let jobs = std::mem::take(&mut waiting.jobs);
        drop(waiting);
        jobs.into_iter().for_each(|job| job.refuse(Err(HostError::Io)));
    }
}

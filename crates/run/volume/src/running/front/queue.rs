//! Queue of a port: front ends add jobs, and the layer's host takes them out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use hostftl_core::HostError;
use hostftl_io::{Arena, Waker};

use crate::running::front::job::{Export, Job, JobOp};
use crate::util::lock;

/// Queue of jobs.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Block device for new clients.
    export: RwLock<Arc<Export>>,
    /// Length of the block device in bytes.
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
    /// Creates an empty queue and its inbox; `waker` wakes the thread of the inbox.
    pub(crate) fn new(export: Export, arena: Arc<Arena>, waker: Arc<Waker>) -> (Arc<Self>, Inbox) {
        let (bytes, read_only) = (AtomicU64::new(export.bytes), export.read_only);
        let (export, waiting) = (RwLock::new(Arc::new(export)), Mutex::default());
        let queue = Arc::new(Queue { export, bytes, read_only, arena, waiting, waker });
        (queue.clone(), Inbox(queue))
    }

    /// Returns the current block device behind the queue.
    pub(crate) fn export(&self) -> Arc<Export> {
        self.export.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Changes the length of the block device.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        let mut export = self.export.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Replaced as a whole: connected clients keep the description that they negotiated.
        *export = Arc::new(Export { bytes, ..(**export).clone() });
        self.bytes.store(bytes, SeqCst);
    }

    /// Returns the buffers of the jobs.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Returns the waker of the thread that takes jobs.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Adds a job without waking a thread. Answers it with an error if its range is not whole
    /// sectors of the export, or the queue is closed.
    pub(crate) fn push(&self, job: Job) {
        // Offsets come from clients and may overflow.
        let end = job.offset.checked_add(job.bytes);
        let inside = end.is_some_and(|end| end <= self.bytes.load(Relaxed));
        if !inside || !job.is_whole() {
            return job.refuse(Err(HostError::Range));
        }
        if self.read_only {
            match job.op {
                JobOp::Read(_) | JobOp::Status => {}
                // A read-only volume has no unflushed data.
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
        // Answered without the lock: the receiver may submit another job.
        if waiting.closed {
            drop(waiting);
            return job.refuse(Err(HostError::Io));
        }
        waiting.jobs.push_back(job);
    }

    /// Returns whether a job waits, or the queue is closed.
    pub(crate) fn has_work(&self) -> bool {
        let waiting = self.lock();
        waiting.closed || !waiting.jobs.is_empty()
    }

    /// Accepts no more jobs; queued ones are completed.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        // The thread of the inbox must notice the end.
        self.waker.ring();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }
}

/// Receiving end of a port, for the thread that executes the jobs.
#[derive(Debug)]
pub struct Inbox(Arc<Queue>);

impl Inbox {
    /// Takes the next job; a read or write longer than `longest` bytes remains.
    pub fn take(&self, longest: u64) -> NextJob {
        let mut waiting = self.0.lock();
        let Some(job) = waiting.jobs.front() else {
            return if waiting.closed { NextJob::Over } else { NextJob::Nothing };
        };
        // It remains at the front, so later jobs do not overtake it.
        if job.is_too_long(longest) {
            return NextJob::TooLong;
        }
        waiting.jobs.pop_front().map_or(NextJob::Nothing, NextJob::Job)
    }

    /// Returns whether `take` would return a job or the end, so that the thread must not sleep.
    pub fn has_work(&self) -> bool {
        self.0.has_work()
    }

    /// Returns the buffers of the jobs.
    pub fn arena(&self) -> &Arc<Arena> {
        self.0.arena()
    }

    /// Returns the waker of the inbox's thread.
    pub fn waker(&self) -> &Arc<Waker> {
        self.0.waker()
    }
}

/// Result of taking a job.
#[derive(Debug)]
pub enum NextJob {
    /// A job.
    Job(Job),
    /// The next job is too long for now.
    TooLong,
    /// No job is queued.
    Nothing,
    /// No job is queued, and the port is closed.
    Over,
}

impl Drop for Inbox {
    /// Refuses the queued jobs, so that no client waits forever.
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        // Refused without the lock, because a receiver may call back.
        let jobs = std::mem::take(&mut waiting.jobs);
        drop(waiting);
        jobs.into_iter().for_each(|job| job.refuse(Err(HostError::Io)));
    }
}

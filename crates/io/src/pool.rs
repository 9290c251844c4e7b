//! Worker threads: computing that is too long or too much for the driver's thread, and device calls
//! where io_uring is refused.
//!
//! Invariant
//! - Every task put in comes out exactly once as [`Finished`]; then nobody touches its memory.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use hostftl_core::{DeviceError, Verdict};

use crate::compute::Compute;
use crate::transfer::{self, Transfer};
use crate::waker::Waker;
use crate::zoned::{Settling, Zoned};

/// What a worker does.
#[derive(Debug)]
pub enum Task {
    /// The calls of a transfer.
    Transfer(Transfer),
    /// Work for a slot of the driver.
    Compute(u32, Compute),
    /// A share of the driver's short work.
    Share(Vec<(u32, Compute)>),
    /// Keeping the pointers of a zoned file.
    Settle(Settling),
    /// Resetting a zone of a block device: slot, descriptor, first byte and length.
    ResetZone(u32, RawFd, u64, u64),
}

/// What came of a task.
#[derive(Debug)]
pub struct Finished {
    /// The driver's slot.
    pub slot: u32,
    /// The result for the layer.
    pub result: Result<Verdict, DeviceError>,
}

impl Task {
    /// Does the task in this thread; what came of it goes to the end of `list`.
    fn run(self, list: &mut Vec<Finished>) {
        let (slot, result) = match self {
            Task::Share(work) => {
                let done = work.into_iter().map(|(slot, it)| Finished { slot, result: it.run() });
                return list.extend(done);
            }
            Task::Compute(slot, compute) => (slot, compute.run()),
            Task::Transfer(mut transfer) => {
                let result = transfer::run(&mut transfer).map(|()| Verdict::default());
                (transfer.slot, result)
            }
            Task::Settle(settling) => (settling.slot, settling.run()),
            Task::ResetZone(slot, fd, offset, len) => {
                (slot, Zoned::reset_by_kernel(fd, offset, len))
            }
        };
        list.push(Finished { slot, result });
    }
}

/// See the module text.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    tasks: Mutex<Tasks>,
    more: Condvar,
    finished: Mutex<Vec<Finished>>,
    /// Whether a worker has a share of the driver's short work.
    sharing: AtomicBool,
    waker: Arc<Waker>,
}

#[derive(Debug, Default)]
struct Tasks {
    queue: VecDeque<Task>,
    closed: bool,
}

impl Pool {
    /// `threads` threads that wake `waker` for each finished task.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(threads: usize, waker: Arc<Waker>) -> io::Result<Self> {
        let (tasks, finished) = (Mutex::default(), Mutex::default());
        let (more, sharing) = (Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { tasks, more, finished, sharing, waker });
        let mut pool = Pool { shared, threads: Vec::new() };
        for number in 0..threads {
            let shared = pool.shared.clone();
            let builder = thread::Builder::new().name(format!("worker-{number}"));
            pool.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    /// Hands a task over.
    pub fn put(&self, task: Task) {
        lock(&self.shared.tasks).queue.push_back(task);
        self.shared.more.notify_one();
    }

    /// Whether a worker has a share that is not done.
    pub fn is_sharing(&self) -> bool {
        self.shared.sharing.load(Acquire)
    }

    /// Hands a share over, before all tasks: the driver would have done it at once.
    pub fn share(&self, work: Vec<(u32, Compute)>) {
        self.shared.sharing.store(true, Release);
        lock(&self.shared.tasks).queue.push_front(Task::Share(work));
        self.shared.more.notify_one();
    }

    /// Moves what is finished to the end of `list`.
    pub fn collect(&self, list: &mut VecDeque<Finished>) {
        list.extend(lock(&self.shared.finished).drain(..));
    }

    /// Whether something is finished.
    pub fn has_finished(&self) -> bool {
        !lock(&self.shared.finished).is_empty()
    }
}

impl Shared {
    fn work(&self) {
        let mut list = Vec::new();
        while let Some(task) = self.next() {
            let is_share = matches!(task, Task::Share(_));
            task.run(&mut list);
            lock(&self.finished).append(&mut list);
            if is_share {
                self.sharing.store(false, Release);
            }
            self.waker.ring();
        }
    }

    fn next(&self) -> Option<Task> {
        let mut tasks = lock(&self.tasks);
        while tasks.queue.is_empty() && !tasks.closed {
            tasks = self.more.wait(tasks).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        tasks.queue.pop_front()
    }
}

impl Drop for Pool {
    /// Finishes what was put in.
    fn drop(&mut self) {
        lock(&self.shared.tasks).closed = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

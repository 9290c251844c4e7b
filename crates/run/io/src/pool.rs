//! Worker threads: for compute jobs that are too long or too numerous for the driver's thread, and
//! for device calls if io_uring is refused.
//!
//! Invariant
//! - Every task comes out exactly once as [`Finished`]. After that no thread uses its memory.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use hostftl_core::{DeviceError, Verdict};

use crate::compute::Compute;
use crate::placed::PlacedWrites;
use crate::transfer::{self, Transfer};
use crate::waker::Waker;
use crate::zoned::{Settling, Zoned};

/// Short compute jobs that a worker takes at once.
const HANDFUL: usize = 8;
/// Number of lent jobs for which waking a worker pays.
pub(crate) const WORTH_WAKING: usize = 64;

/// Work for a worker.
#[derive(Debug)]
pub(crate) enum Task {
    /// System calls of a transfer.
    Transfer(Transfer),
    /// Write to a drive that takes placements, with the placement.
    Place(Transfer, Arc<PlacedWrites>, u8),
    /// Compute job of a slot.
    Compute(u32, Compute),
    /// Storing the write pointers of a zoned file.
    Settle(Settling),
    /// Reset of a zone of a block device: slot, descriptor, first byte and length.
    ResetZone(u32, RawFd, u64, u64),
}

/// Result of a task.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Slot of the command in the driver.
    pub slot: u32,
    /// The result for the layer.
    pub result: Result<Verdict, DeviceError>,
}

impl Task {
    fn is_long_work(&self) -> bool {
        matches!(self, Task::Compute(..))
    }

    /// Runs the task in this thread.
    fn run(self) -> Finished {
        let (slot, result) = match self {
            Task::Compute(slot, compute) => (slot, compute.run()),
            Task::Transfer(mut transfer) => {
                let result = transfer::run(&mut transfer).map(|()| Verdict::default());
                (transfer.slot, result)
            }
            Task::Place(mut transfer, placed, placement) => {
                let result = placed.run(&mut transfer, placement).map(|()| Verdict::default());
                (transfer.slot, result)
            }
            Task::Settle(settling) => (settling.slot, settling.run()),
            Task::ResetZone(slot, fd, offset, len) => {
                (slot, Zoned::reset_by_kernel(fd, offset, len))
            }
        };
        Finished { slot, result }
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    tasks: Mutex<Tasks>,
    more: Condvar,
    finished: Mutex<Vec<Finished>>,
    /// Whether `finished` is not empty; changed under its lock. The driver checks it after each
    /// command, and this is cheaper than the lock.
    has_finished: AtomicBool,
    waker: Arc<Waker>,
}

#[derive(Debug, Default)]
struct Tasks {
    queue: VecDeque<Task>,
    /// Short jobs lent by the driver, which takes back those that no worker has started.
    lent: VecDeque<(u32, Compute)>,
    /// Sleeping workers. Without any, the system call that wakes them is skipped.
    idle: u32,
    closed: bool,
}

impl Pool {
    /// Starts `threads` threads, which wake `waker` for each finished task.
    pub(crate) fn new(threads: usize, waker: Arc<Waker>) -> io::Result<Self> {
        let (tasks, finished) = (Mutex::default(), Mutex::default());
        let (more, has_finished) = (Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { tasks, more, finished, has_finished, waker });
        let mut pool = Pool { shared, threads: Vec::new() };
        for number in 0..threads {
            let shared = pool.shared.clone();
            let builder = thread::Builder::new().name(format!("worker-{number}"));
            pool.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    /// Returns whether the pool has no threads.
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Queues a task.
    pub(crate) fn put(&self, task: Task) {
        let mut tasks = lock(&self.shared.tasks);
        tasks.queue.push_back(task);
        self.shared.wake(tasks);
    }

    /// Lends all of `work` to the workers; the driver would otherwise run it itself. Keeps the work
    /// if all workers sleep and there is too little to wake one.
    pub(crate) fn lend(&self, work: &mut VecDeque<(u32, Compute)>) {
        let mut tasks = lock(&self.shared.tasks);
        let worth = tasks.lent.len() + work.len() >= WORTH_WAKING;
        // A worker that is awake finds lent jobs without being woken.
        if worth || (tasks.idle as usize) < self.threads.len() {
            tasks.lent.append(work);
        }
        if worth {
            self.shared.wake(tasks);
        }
    }

    /// Takes back some of the jobs lent last. If none are lent, takes the next long job if no
    /// worker has started it.
    pub(crate) fn take_back(&self, work: &mut VecDeque<(u32, Compute)>) {
        let mut tasks = lock(&self.shared.tasks);
        let from = tasks.lent.len().saturating_sub(HANDFUL);
        work.extend(tasks.lent.drain(from..));
        // The order of the queue must hold, so only its first task may be taken.
        let next = tasks.queue.pop_front_if(|task| work.is_empty() && task.is_long_work());
        if let Some(Task::Compute(slot, compute)) = next {
            work.push_back((slot, compute));
        }
    }

    /// Moves finished tasks to the end of `list`.
    pub(crate) fn collect(&self, list: &mut VecDeque<Finished>) {
        if self.has_finished() {
            let mut finished = lock(&self.shared.finished);
            list.extend(finished.drain(..));
            self.shared.has_finished.store(false, SeqCst);
        }
    }

    /// Returns whether a task has finished.
    pub(crate) fn has_finished(&self) -> bool {
        self.shared.has_finished.load(SeqCst)
    }
}

impl Shared {
    /// Wakes a sleeping worker, if there is one.
    fn wake(&self, tasks: MutexGuard<'_, Tasks>) {
        let sleeps = tasks.idle > 0;
        drop(tasks);
        if sleeps {
            self.more.notify_one();
        }
    }

    fn work(&self) {
        let (mut work, mut done) = (Vec::new(), Vec::new());
        while let Some(task) = self.next(&mut work) {
            done.extend(task.map(Task::run));
            done.extend(work.drain(..).map(|(slot, it)| Finished { slot, result: it.run() }));
            self.finish(&mut done);
            self.waker.ring();
        }
    }

    /// Moves `done` to the list that the driver collects.
    fn finish(&self, done: &mut Vec<Finished>) {
        let mut finished = lock(&self.finished);
        finished.append(done);
        self.has_finished.store(!finished.is_empty(), SeqCst);
    }

    /// Waits for the next task, or moves some lent jobs to `work`. Returns `None` when the pool is
    /// closed.
    fn next(&self, work: &mut Vec<(u32, Compute)>) -> Option<Option<Task>> {
        let mut tasks = lock(&self.tasks);
        loop {
            if let Some(task) = tasks.queue.pop_front() {
                return Some(Some(task));
            }
            // Tasks come before lent jobs, which the driver can also run itself.
            let some = tasks.lent.len().min(HANDFUL);
            work.extend(tasks.lent.drain(..some));
            if some > 0 {
                return Some(None);
            }
            // Queued tasks are completed first.
            if tasks.closed {
                return None;
            }
            tasks.idle += 1;
            tasks = self.more.wait(tasks).unwrap_or_else(|poisoned| poisoned.into_inner());
            tasks.idle -= 1;
        }
    }
}

impl Drop for Pool {
    /// Completes all queued tasks.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Arena, Class};
    use hostftl_core::Command;

    /// A pool without threads: no worker can have started a job.
    #[test]
    fn completed_work_is_collected_in_order() {
        let class = Class { bytes: 4096, count: 3 };
        let arena = Arena::new(&[class], Class { bytes: 4096, count: 0 }).unwrap();
        let pool = Pool::new(0, Arc::new(Waker::new().unwrap())).unwrap();
        let mut payloads: Vec<_> = (0..3).map(|_| arena.lease(4096).into_payload()).collect();
        let mut back = VecDeque::new();
        for (slot, payload) in (0..).zip(&mut payloads) {
            let mut command = Command::Digest { from: payload.view(0, 4096), seed: 0 };
            pool.put(Task::Compute(slot, Compute::new(&mut command, &arena.clone().into())));
            let Command::Digest { from, .. } = command else { unreachable!("it is a digest") };
            payload.repay(from);
        }
        for slot in 0..3 {
            pool.take_back(&mut back);
            assert_eq!(back.len(), 1);
            assert_eq!(back.pop_front().map(|(slot, _)| slot), Some(slot));
        }
        pool.take_back(&mut back);
        assert!(back.is_empty());
        payloads.into_iter().for_each(|payload| drop(arena.adopt(payload)));
    }
}

//! Independent jobs on several threads, with bounded memory.
//!
//! Invariants
//! - Jobs marked `first` start before the others. Within each group the largest starts first,
//!   because it also tends to be the longest; equal jobs keep their order. A job that waits for
//!   memory is not overtaken.
//! - The memory of the running jobs never exceeds the limit.

use std::cmp::Reverse;
use std::sync::{Condvar, Mutex, PoisonError};

/// Requirements of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Memory in bytes.
    pub cost: u64,
    /// Whether it starts before the jobs that are not marked.
    pub first: bool,
}

struct Shared {
    next: usize,
    /// Memory of the running jobs in bytes.
    taken: u64,
}

/// Returns the memory of a job when the job ends, including by a panic.
struct Taken<'a> {
    cost: u64,
    shared: &'a Mutex<Shared>,
    freed: &'a Condvar,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        lock(self.shared).taken -= self.cost;
        self.freed.notify_all();
    }
}

/// Runs `job(index)` for each of `jobs` on at most `threads` threads. The costs of the running jobs
/// never add up to more than `limit`. Results are in the order of the jobs.
///
/// # Panics
/// If a job costs more than the limit, which the caller must exclude, or if a job panics.
pub fn run<R: Send>(
    jobs: &[Job],
    limit: u64,
    threads: usize,
    job: impl Fn(usize) -> R + Sync,
) -> Vec<R> {
    assert!(jobs.iter().all(|job| job.cost <= limit), "a job that never fits");
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&index| (!jobs[index].first, Reverse(jobs[index].cost)));
    let shared = Mutex::new(Shared { next: 0, taken: 0 });
    let freed = Condvar::new();
    let work = || {
        let mut done = Vec::new();
        while let Some(index) = begin(&order, jobs, limit, &shared, &freed) {
            let _taken = Taken { cost: jobs[index].cost, shared: &shared, freed: &freed };
            done.push((index, job(index)));
        }
        done
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads = threads.clamp(1, jobs.len().max(1));
        // If the system refuses more threads, the existing ones run all jobs.
        let more = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let all: Vec<_> = (0..threads).map_while(more).collect();
        if all.is_empty() {
            return work();
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<(usize, R)>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        all.into_iter().flat_map(join).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the next job as soon as there is memory for it.
fn begin(
    order: &[usize],
    jobs: &[Job],
    limit: u64,
    shared: &Mutex<Shared>,
    freed: &Condvar,
) -> Option<usize> {
    let mut state = lock(shared);
    loop {
        let index = *order.get(state.next)?;
        let cost = jobs[index].cost;
        if state.taken + cost <= limit {
            state.next += 1;
            state.taken += cost;
            return Some(index);
        }
        state = freed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn memory_is_bounded_and_results_keep_their_order() {
        let costs: Vec<u64> = (0..40).map(|index| 1 + index % 7).collect();
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        for threads in [1, 3, 8] {
            let jobs: Vec<Job> = costs.iter().map(|&cost| Job { cost, first: false }).collect();
            let found = run(&jobs, 10, threads, |index| {
                let taken = now.fetch_add(costs[index], Ordering::SeqCst) + costs[index];
                most.fetch_max(taken, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_micros(300));
                now.fetch_sub(costs[index], Ordering::SeqCst);
                index * 2
            });
            assert_eq!(found, (0..40).map(|index| index * 2).collect::<Vec<_>>());
        }
        assert!((7..=10).contains(&most.load(Ordering::SeqCst)));
    }

    #[test]
    fn priority_runs_start_first() {
        let jobs = [(9, false), (2, true), (5, false), (3, true)];
        let jobs = jobs.map(|(cost, first)| Job { cost, first });
        let order = Mutex::new(Vec::new());
        run(&jobs, 9, 1, |index| lock_list(&order).push(index));
        assert_eq!(*lock_list(&order), [3, 1, 0, 2]);
    }

    fn lock_list(order: &Mutex<Vec<usize>>) -> std::sync::MutexGuard<'_, Vec<usize>> {
        order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

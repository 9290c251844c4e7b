//! Runs of many seeds on all processors, in batches, so that a run can be stopped and resumed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_layers::LayerKind;

use crate::events::Tallies;
use crate::pairs::Pairs;
use crate::run::{Report, Violation, run_seed};

/// Seeds between two points at which a run may stop.
pub(crate) const BATCH: u64 = 64;

/// Extent of a run.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The first seed, and the seed after the last.
    pub seeds: (u64, u64),
    /// Minimum number of steps; the run continues after the last seed until it is reached.
    pub steps: u64,
    /// Number of threads.
    pub threads: usize,
}

/// Totals of one layer.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Next seed.
    pub next: u64,
    /// Completed seeds.
    pub seeds: u64,
    /// Calls of `Layer::step`.
    pub steps: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Requests of the host.
    pub requests: u64,
    /// Counts of named events.
    pub tallies: Tallies,
    /// Counts of combinations on one stack.
    pub pairs: Pairs,
    /// Elapsed time.
    pub elapsed: Duration,
}

impl Summary {
    /// Adds the report of a seed.
    pub fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.steps += report.steps;
        self.cuts += report.cuts;
        self.requests += report.requests;
        self.tallies += &report.tallies;
        self.pairs.note(&report.tallies);
    }
}

/// Run of many seeds with one layer.
#[derive(Debug)]
pub struct Campaign {
    layer: LayerKind,
    goal: Goal,
    /// Totals so far.
    pub summary: Summary,
}

impl Campaign {
    /// Creates a run that starts at the first seed, or where the run of `summary` ended.
    pub fn new(layer: LayerKind, goal: Goal, summary: Option<Summary>) -> Self {
        let fresh = Summary { next: goal.seeds.0, ..Summary::default() };
        Campaign { layer, goal, summary: summary.unwrap_or(fresh) }
    }

    /// Runs batch after batch. `after` receives the summary after each, and ends the run by
    /// returning false.
    ///
    /// # Errors
    /// The violation with the lowest seed of its batch.
    pub fn run(&mut self, mut after: impl FnMut(&Summary) -> bool) -> Result<(), Violation> {
        let begun = Instant::now();
        let before = self.summary.elapsed;
        loop {
            let Summary { next, steps, .. } = self.summary;
            let (_, end) = self.goal.seeds;
            let last = if next < end { end.min(next + BATCH) } else { next + BATCH };
            if next >= end && steps >= self.goal.steps {
                return Ok(());
            }
            let seeds: Vec<u64> = (next..last).collect();
            let reports = run_seeds(self.layer, &seeds, self.goal.threads)?;
            reports.iter().for_each(|report| self.summary.add(report));
            self.summary.next = last;
            self.summary.elapsed = before + begun.elapsed();
            if !after(&self.summary) {
                return Ok(());
            }
        }
    }
}

/// Runs `seeds` on several threads. Returns their reports in the order of the seeds.
///
/// # Errors
/// A violation; no further seed is started after it.
pub fn run_seeds(
    layer: LayerKind,
    seeds: &[u64],
    threads: usize,
) -> Result<Vec<Report>, Violation> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let results = Mutex::new(Vec::with_capacity(seeds.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut spare = None;
                while !stop.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&seed) = seeds.get(at) else { break };
                    let result = run_seed(seed, layer, false, &mut spare);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    results.lock().expect("no thread panics here").push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics here");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the command that reproduces a violation.
pub fn replay_command(violation: &Violation) -> String {
    format!("hostftl-chaos --layer {} --seed {}", violation.layer, violation.seed)
}

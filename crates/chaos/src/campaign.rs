//! Many seeds on all processors, in batches, so that a run can stop and go on.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_layers::LayerKind;

use crate::events::Tallies;
use crate::pairs::Pairs;
use crate::run::{Report, Violation, run_seed};

/// Seeds between two points at which a run may stop.
const BATCH: u64 = 64;

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The first seed and the one after the last.
    pub seeds: (u64, u64),
    /// Goes on past the last seed until so many steps are done.
    pub steps: u64,
    /// Stops when this has passed, or twice as much while an event that must occur is too rare.
    pub limit: Option<Duration>,
    /// How often each event that must occur must have occurred.
    pub events: u64,
    /// How many threads.
    pub threads: usize,
}

/// What was done for one layer.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The next seed to run.
    pub next: u64,
    /// Seeds done.
    pub seeds: u64,
    /// Calls of `Layer::step`.
    pub steps: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Requests of the host.
    pub requests: u64,
    /// Named events.
    pub tallies: Tallies,
    /// What met on one stack.
    pub pairs: Pairs,
    /// Time spent.
    pub elapsed: Duration,
}

impl Summary {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.steps += report.steps;
        self.cuts += report.cuts;
        self.requests += report.requests;
        self.tallies += &report.tallies;
        self.pairs.note(&report.tallies);
    }
}

/// A run over many seeds of one layer.
#[derive(Debug)]
pub struct Campaign {
    layer: LayerKind,
    goal: Goal,
    /// What was done so far.
    pub summary: Summary,
}

impl Campaign {
    /// A run that begins at the first seed, or where `summary` of an earlier run ended.
    pub fn new(layer: LayerKind, goal: Goal, summary: Option<Summary>) -> Self {
        let fresh = Summary { next: goal.seeds.0, ..Summary::default() };
        Campaign { layer, goal, summary: summary.unwrap_or(fresh) }
    }

    /// Runs batch after batch. `after` sees the summary after each, and may end the run by `false`.
    ///
    /// # Errors
    /// The violation with the lowest seed of its batch.
    pub fn run(&mut self, mut after: impl FnMut(&Summary) -> bool) -> Result<(), Violation> {
        let begun = Instant::now();
        let before = self.summary.elapsed;
        loop {
            let limit = self.limit();
            let Summary { next, steps, .. } = self.summary;
            let (_, end) = self.goal.seeds;
            let last = if next < end { end.min(next + BATCH) } else { next + BATCH };
            if next >= end && steps >= self.goal.steps || begun.elapsed() >= limit {
                return Ok(());
            }
            let reports = self.batch(next, last, || begun.elapsed() >= limit)?;
            reports.iter().for_each(|report| self.summary.add(report));
            self.summary.next = next + reports.len() as u64;
            self.summary.elapsed = before + begun.elapsed();
            if !after(&self.summary) {
                return Ok(());
            }
        }
    }

    /// How long the run may take, judged by what it has seen so far.
    fn limit(&self) -> Duration {
        let Some(limit) = self.goal.limit else { return Duration::MAX };
        let covered = self.summary.tallies.cover(self.layer, self.goal.events);
        if covered { limit } else { limit * 2 }
    }

    /// Runs the seeds `from..to`; ends early, without a gap, when it is `late`.
    fn batch(
        &self,
        from: u64,
        to: u64,
        late: impl Fn() -> bool + Sync,
    ) -> Result<Vec<Report>, Violation> {
        let next = AtomicU64::new(from);
        let stop = AtomicBool::new(false);
        let results = Mutex::new(Vec::with_capacity((to - from) as usize));
        thread::scope(|scope| {
            for _ in 0..self.goal.threads {
                scope.spawn(|| {
                    let mut spare = None;
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= to {
                            break;
                        }
                        let result = run_seed(seed, self.layer, false, &mut spare);
                        if late() || result.is_err() {
                            stop.store(true, Ordering::Relaxed);
                        }
                        results.lock().expect("no thread panics here").push((seed, result));
                    }
                });
            }
        });
        let mut results = results.into_inner().expect("no thread panics here");
        results.sort_by_key(|(seed, _)| *seed);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

/// The one command that shows a violation again.
pub fn replay_command(violation: &Violation) -> String {
    format!("hostftl-chaos --layer {} --seed {}", violation.layer, violation.seed)
}

//! Progress of background work, and its remaining time at the measured rate.
//!
//! The rate is the mean over a sliding window. If the rate of the newest part of the window differs
//! (a host came or left, the share was changed, the work started quickly), older samples are
//! dropped: a mean over both would be wrong.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use hostftl_core::{Task, TaskKind};
use hostftl_layers::LayerConfig;
use serde::{Deserialize, Serialize};

/// Window of the rate: long enough to be steady, short enough to follow the load of a host.
const WINDOW: Duration = Duration::from_secs(20);
/// Newest part of the window: longer than a checkpoint or a busy second.
const RECENT: Duration = Duration::from_secs(4);
/// Name of the task that copies a device to its replacement.
pub(crate) const COPY: &str = "copy";

/// Rates differ when one is less than this fraction of the other.
const DIFFERENT: f64 = 0.5;

/// A task. Lengths are in bytes of valid data as stored on the devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct TaskStatus {
    /// `rebuild`, `resilver`, `evacuate`, `scrub` or `copy`.
    pub task: String,
    /// Whether an operator has paused it.
    pub paused: bool,
    /// Whether it is blocked until data is trimmed or a device is added.
    #[serde(default)]
    pub needs_space: bool,
    pub done_bytes: u64,
    pub remaining_bytes: u64,
    /// Measured rate in bytes per second; `None` before the first measurement.
    pub bytes_per_second: Option<u64>,
    /// Remaining time at that rate; `None` without a rate.
    pub eta_seconds: Option<u64>,
}

/// Returns the names of the tasks that a volume can have: only `copy` if its members can't change,
/// and no `rebuild` or `resilver` without redundancy. `parameters` is the layer's text.
pub fn supported_tasks(parameters: &str) -> Vec<&'static str> {
    let Ok(layer) = LayerConfig::parse(parameters) else { return Vec::new() };
    let changes = layer.kind.registration().promises.changes();
    let is_one = |kind: &TaskKind| match kind {
        TaskKind::Rebuild | TaskKind::Resilver => changes && layer.tolerates() > 0,
        TaskKind::Evacuate | TaskKind::Scrub => changes,
    };
    let kinds = TaskKind::ALL.iter().filter(|kind| is_one(kind)).map(|kind| kind.name());
    kinds.chain([COPY]).collect()
}

/// Rates of all tasks.
#[derive(Debug, Default)]
pub(crate) struct Meters(BTreeMap<&'static str, Meter>);

/// Sample of a task: time, bytes done, bytes left.
type Sample = (Instant, u64, u64);

/// Samples of a task, oldest first.
#[derive(Debug, Default)]
struct Meter(VecDeque<Sample>);

impl Meters {
    /// Records samples of the current tasks.
    pub(crate) fn sample(&mut self, tasks: &[Task], now: Instant) {
        // A task that ended must not contribute its rate to a later one.
        self.0.retain(|name, _| tasks.iter().any(|task| task.kind.name() == *name));
        for task in tasks {
            self.0.entry(task.kind.name()).or_default().sample(task, now);
        }
    }

    /// Returns the tasks with their rates.
    pub(crate) fn statuses(&self, tasks: &[Task]) -> Vec<TaskStatus> {
        let status = |task: &Task| {
            let rate = self.0.get(task.kind.name()).and_then(|meter| meter.rate(task));
            let seconds = |rate: u64| task.left.div_ceil(rate);
            TaskStatus {
                task: task.kind.name().into(),
                paused: task.is_paused,
                needs_space: task.lacks_room,
                done_bytes: task.done,
                remaining_bytes: task.left,
                bytes_per_second: rate,
                eta_seconds: rate.filter(|rate| *rate > 0).map(seconds),
            }
        };
        tasks.iter().map(status).collect()
    }
}

impl Meter {
    fn sample(&mut self, task: &Task, now: Instant) {
        let restarted = self.0.back().is_some_and(|(_, done, _)| task.done < *done);
        // Neither a pause nor an earlier task contributes to the rate.
        if task.is_paused || restarted {
            self.0.clear();
        }
        self.0.push_back((now, task.done, task.left));
        // One sample older than the window remains, so that the whole window is covered.
        while self.0.get(1).is_some_and(|(at, ..)| now - *at > WINDOW) {
            self.0.pop_front();
        }
        self.forget_other_rates(now);
    }

    /// Drops samples older than the newest part if their rate differs.
    fn forget_other_rates(&mut self, now: Instant) {
        let begins = self.0.iter().rposition(|(at, ..)| now - *at >= RECENT);
        let Some(begins) = begins.filter(|at| *at > 0) else { return };
        let (old, new) = (speed(&self.0[0], &self.0[begins]), self.speed_since(begins));
        // The load changed, so the older part would falsify the remaining time.
        if old.min(new) < old.max(new) * DIFFERENT {
            self.0.drain(..begins);
        }
    }

    fn speed_since(&self, at: usize) -> f64 {
        speed(&self.0[at], &self.0[self.0.len() - 1])
    }

    fn rate(&self, task: &Task) -> Option<u64> {
        let any = !task.is_paused && self.0.len() > 1;
        any.then(|| self.speed_since(0) as u64).filter(|rate| *rate > 0)
    }
}

/// Returns the rate between two samples in bytes per second; 0 if they are the same. Data that a
/// host overwrites reduces the remaining work and counts too.
fn speed((begin, had, lacked): &Sample, (end, has, lacks): &Sample) -> f64 {
    let came = has.saturating_sub(*had).max(lacked.saturating_sub(*lacks));
    let seconds = (*end - *begin).as_secs_f64();
    if seconds > 0.0 { came as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(done: u64, left: u64) -> Task {
        let (kind, is_paused, lacks_room) = (TaskKind::Scrub, false, false);
        Task { kind, is_paused, lacks_room, done, left, place: 0 }
    }

    #[test]
    fn the_remaining_time_follows_from_the_recent_rate() {
        let (mut meters, begin) = (Meters::default(), Instant::now());
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        meters.sample(&[task(0, 1000)], at(0));
        assert_eq!(meters.statuses(&[task(0, 1000)])[0].eta_seconds, None, "nothing was seen yet");
        meters.sample(&[task(100, 900)], at(10));
        let found = &meters.statuses(&[task(100, 900)])[0];
        assert_eq!((found.bytes_per_second, found.eta_seconds), (Some(10), Some(90)));
        // The rate is ten times as high for longer than the window.
        (1..=3).for_each(|it| meters.sample(&[task(100 + it * 1000, 5000)], at(10 + it * 10)));
        let found = &meters.statuses(&[task(3100, 5000)])[0];
        assert_eq!((found.bytes_per_second, found.eta_seconds), (Some(100), Some(50)));
    }

    /// Simulates a task of `all` bytes: `rate` is the rate in bytes per second at each second.
    /// `look` gets each second and the reported status. Returns the total seconds.
    fn run(all: u64, rate: impl Fn(f64) -> f64, mut look: impl FnMut(f64, &TaskStatus)) -> f64 {
        let (mut meters, begin) = (Meters::default(), Instant::now());
        let (mut done, mut seconds) = (0.0, 0.0);
        while done < all as f64 {
            let now = task(done as u64, all - done as u64);
            meters.sample(&[now], begin + Duration::from_secs_f64(seconds));
            look(seconds, &meters.statuses(&[now])[0]);
            (done, seconds) = (done + rate(seconds) * 0.25, seconds + 0.25);
        }
        seconds
    }

    /// Returns the largest relative error of the remaining time reported after `from` seconds,
    /// until the rest is too small for whole seconds.
    fn error(all: u64, rate: impl Fn(f64) -> f64, from: f64) -> f64 {
        let mut found = Vec::new();
        let end = run(all, rate, |at, it| found.push((at, it.eta_seconds, it.done_bytes)));
        let found = found.into_iter().filter(|(at, _, done)| *at >= from && *done > all / 20);
        let found = found.filter(|(at, ..)| end - at > 25.0);
        found
            .map(|(at, eta, _)| (eta.expect("a rate") as f64 / (end - at) - 1.0).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn the_remaining_time_adapts_to_a_changed_rate() {
        let steady = |_: f64| 1e6;
        assert!(error(100_000_000, steady, 0.0) < 0.05);
        // One second at full speed, before the share for a busy host applies.
        let quick = |at: f64| if at < 1.0 { 2e7 } else { 1e6 };
        assert!(error(200_000_000, quick, 5.5) < 0.05);
        // Checkpoints and a busy host: no progress in one second of eight.
        let bumpy = |at: f64| if at % 8.0 >= 7.0 { 0.0 } else { 8e6 / 7.0 };
        assert!(error(100_000_000, bumpy, 0.0) < 0.2);
        // The share changes in the middle: the estimate follows within five seconds.
        for factor in [0.2, 4.0] {
            let change = |at: f64| if at < 30.0 { 1e6 } else { 1e6 * factor };
            assert!(error(150_000_000, change, 35.0) < 0.05, "{factor}");
        }
    }

    #[test]
    fn paused_and_restarted_tasks_have_no_rate() {
        let (mut meters, begin) = (Meters::default(), Instant::now());
        let second = Duration::from_secs(1);
        meters.sample(&[task(500, 500)], begin);
        meters.sample(&[task(600, 400)], begin + second);
        let rests = [Task { is_paused: true, ..task(600, 400) }];
        meters.sample(&rests, begin + 2 * second);
        let found = &meters.statuses(&rests)[0];
        assert_eq!((found.paused, found.bytes_per_second, found.eta_seconds), (true, None, None));
        meters.sample(&[task(0, 1000)], begin + 3 * second);
        assert_eq!(meters.statuses(&[task(0, 1000)])[0].bytes_per_second, None);
        meters.sample(&[], begin + 4 * second);
        assert!(meters.0.is_empty(), "what is over is forgotten");
    }
}

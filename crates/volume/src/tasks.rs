//! How far the work in the background is, and how long it will take at the rate that it was seen to
//! have.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use hostftl_core::Task;
use serde::{Deserialize, Serialize};

/// Over which time a rate is taken: long enough to be steady, short enough to follow a host that
/// comes or goes.
const WINDOW: Duration = Duration::from_secs(20);

/// A task. Lengths are in bytes, of what is live as it lies on the devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct TaskStatus {
    /// `protect`, `join`, `evacuate`, `restripe` or `scrub`.
    pub task: String,
    /// Whether an operator lets it rest.
    pub paused: bool,
    pub done_bytes: u64,
    pub left_bytes: u64,
    /// Bytes a second, as measured; none before anything was.
    pub rate: Option<u64>,
    /// At that rate; none while there is none.
    pub eta_seconds: Option<u64>,
}

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct Meters(BTreeMap<&'static str, Meter>);

/// What a task had done and what was left at each of some times, oldest first.
#[derive(Debug, Default)]
struct Meter(VecDeque<(Instant, u64, u64)>);

impl Meters {
    /// The tasks as they are now.
    pub fn look(&mut self, tasks: &[Task], now: Instant) {
        self.0.retain(|name, _| tasks.iter().any(|task| task.kind.name() == *name));
        for task in tasks {
            self.0.entry(task.kind.name()).or_default().look(task, now);
        }
    }

    /// The tasks in figures.
    pub fn tell(&self, tasks: &[Task]) -> Vec<TaskStatus> {
        let tell = |task: &Task| {
            let rate = self.0.get(task.kind.name()).and_then(|meter| meter.rate(task));
            let seconds = |rate: u64| task.left.div_ceil(rate);
            TaskStatus {
                task: task.kind.name().into(),
                paused: task.is_paused,
                done_bytes: task.done,
                left_bytes: task.left,
                rate,
                eta_seconds: rate.filter(|rate| *rate > 0).map(seconds),
            }
        };
        tasks.iter().map(tell).collect()
    }
}

impl Meter {
    fn look(&mut self, task: &Task, now: Instant) {
        let restarted = self.0.back().is_some_and(|(_, done, _)| task.done < *done);
        if task.is_paused || restarted {
            self.0.clear();
        }
        self.0.push_back((now, task.done, task.left));
        // One that is older than the window stays, so that all of the window is covered.
        while self.0.get(1).is_some_and(|(at, ..)| now - *at > WINDOW) {
            self.0.pop_front();
        }
    }

    fn rate(&self, task: &Task) -> Option<u64> {
        let ((begin, had, lacked), (end, has, lacks)) = (self.0.front()?, self.0.back()?);
        let seconds = (*end - *begin).as_secs_f64();
        // What a host overwrites is less to be done as well.
        let came = has.saturating_sub(*had).max(lacked.saturating_sub(*lacks));
        let any = !task.is_paused && seconds > 0.0 && came > 0;
        any.then(|| (came as f64 / seconds) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::TaskKind;

    fn task(done: u64, left: u64) -> Task {
        Task { kind: TaskKind::Scrub, is_paused: false, done, left, place: 0 }
    }

    #[test]
    fn the_time_that_is_left_follows_from_the_rate_of_late() {
        let (mut meters, begin) = (Meters::default(), Instant::now());
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        meters.look(&[task(0, 1000)], at(0));
        assert_eq!(meters.tell(&[task(0, 1000)])[0].eta_seconds, None, "nothing was seen yet");
        meters.look(&[task(100, 900)], at(10));
        let told = &meters.tell(&[task(100, 900)])[0];
        assert_eq!((told.rate, told.eta_seconds), (Some(10), Some(90)));
        // It goes ten times as fast for longer than the window.
        (1..=3).for_each(|it| meters.look(&[task(100 + it * 1000, 5000)], at(10 + it * 10)));
        let told = &meters.tell(&[task(3100, 5000)])[0];
        assert_eq!((told.rate, told.eta_seconds), (Some(100), Some(50)));
    }

    #[test]
    fn what_rests_or_begins_again_has_no_rate() {
        let (mut meters, begin) = (Meters::default(), Instant::now());
        let second = Duration::from_secs(1);
        meters.look(&[task(500, 500)], begin);
        meters.look(&[task(600, 400)], begin + second);
        let rests = [Task { is_paused: true, ..task(600, 400) }];
        meters.look(&rests, begin + 2 * second);
        let told = &meters.tell(&rests)[0];
        assert_eq!((told.paused, told.rate, told.eta_seconds), (true, None, None));
        meters.look(&[task(0, 1000)], begin + 3 * second);
        assert_eq!(meters.tell(&[task(0, 1000)])[0].rate, None);
        meters.look(&[], begin + 4 * second);
        assert!(meters.0.is_empty(), "what is over is forgotten");
    }
}

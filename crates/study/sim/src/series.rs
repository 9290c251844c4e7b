//! What happened over time, in at most 256 intervals of one width, however long a run is.
//!
//! Invariants
//! - An answer is in the interval in which it came; work of the drives is in the interval that was
//!   open when it was last looked at.
//! - When the intervals would not suffice, pairs of them become one and the width doubles.

use hostftl_core::Nanos;
use serde::Serialize;

use crate::coarse::{self, BUCKETS};
use crate::ratio::ratio;

/// Intervals at most.
const MOST: usize = 256;
/// The width to begin with, in ns.
const FIRST_WIDTH: Nanos = 100_000;

/// Sums since the run began, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Sectors programmed.
    pub programmed: u64,
    /// How long dies worked, in ns.
    pub busy: Nanos,
}

#[derive(Clone, Debug)]
struct Slot {
    transfers: u64,
    written: u64,
    work: Sample,
    /// Reads and writes by how long they took.
    took: Box<[u32]>,
}

impl Slot {
    fn new() -> Self {
        let took = vec![0; BUCKETS].into_boxed_slice();
        Slot { transfers: 0, written: 0, work: Sample::default(), took }
    }

    fn absorb(&mut self, other: &Slot) {
        self.transfers += other.transfers;
        self.written += other.written;
        self.work.programmed += other.work.programmed;
        self.work.busy += other.work.busy;
        self.took.iter_mut().zip(&other.took).for_each(|(sum, more)| *sum += more);
    }

    /// So many thousandths of the reads and writes took no longer.
    fn no_longer(&self, permille: u64) -> Option<Nanos> {
        let all: u64 = self.took.iter().map(|&count| u64::from(count)).sum();
        let mut left = all - all * permille / 1000;
        let reached = |(_, count): &(usize, &u32)| {
            left = left.saturating_sub(u64::from(**count));
            left == 0
        };
        let found = self.took.iter().enumerate().rev().find(reached);
        found.filter(|_| all > 0).map(|(bucket, _)| coarse::top(bucket))
    }
}

/// The intervals so far.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    start: Nanos,
    width: Nanos,
    slots: Vec<Slot>,
    last: Sample,
}

/// One interval of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// When it began, in ns from the start of the run.
    pub at_ns: Nanos,
    /// Reads and writes answered per second.
    pub iops: f64,
    /// Bytes programmed for each byte whose write was answered.
    pub waf: Option<f64>,
    /// 99 of 100 reads and writes were no longer, in ns, to 6 %.
    pub p99_ns: Option<Nanos>,
    /// 999 of 1000 were no longer, in ns, to 6 %.
    pub p999_ns: Option<Nanos>,
    /// The part of the time that a die worked, on average.
    pub busy: f64,
}

impl Series {
    /// An empty series that begins at `start`, when the drives had done `done`.
    pub(crate) fn new(start: Nanos, done: Sample) -> Self {
        Series { start, width: FIRST_WIDTH, slots: vec![Slot::new()], last: done }
    }

    /// Whether `now` is behind the open interval, so that [`Series::sample`] is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now >= self.start + self.width * self.slots.len() as u64
    }

    /// The drives have done `done`, and it is `now`.
    pub(crate) fn sample(&mut self, now: Nanos, done: Sample) {
        let open = self.slots.last_mut().expect("there is always one");
        open.work.programmed += done.programmed - self.last.programmed;
        open.work.busy += done.busy - self.last.busy;
        self.last = done;
        while (now - self.start) / self.width >= MOST as u64 {
            self.widen();
        }
        let needed = ((now - self.start) / self.width) as usize + 1;
        if self.slots.len() < needed {
            self.slots.resize_with(needed, Slot::new);
        }
    }

    fn widen(&mut self) {
        let merged = self.slots.chunks(2).map(|pair| {
            let mut slot = pair[0].clone();
            pair[1..].iter().for_each(|other| slot.absorb(other));
            slot
        });
        self.slots = merged.collect();
        self.width *= 2;
    }

    /// A request that took `took` was answered; `written` sectors of it were written.
    #[inline]
    pub(crate) fn answer(&mut self, took: Nanos, transfer: bool, written: u64) {
        let open = self.slots.last_mut().expect("there is always one");
        open.written += written;
        if transfer {
            open.transfers += 1;
            open.took[coarse::bucket(took)] += 1;
        }
    }

    /// The intervals of a run that ended at `end` on drives with `dies` dies in all.
    pub(crate) fn intervals(&self, end: Nanos, dies: u32) -> Vec<Interval> {
        let of = |(index, slot): (usize, &Slot)| {
            let at_ns = index as u64 * self.width;
            let whole = end.saturating_sub(self.start + at_ns).min(self.width).max(1) as f64;
            Interval {
                at_ns,
                iops: slot.transfers as f64 / whole * 1e9,
                waf: ratio(slot.work.programmed, slot.written),
                p99_ns: slot.no_longer(990),
                p999_ns: slot.no_longer(999),
                busy: slot.work.busy as f64 / whole / f64::from(dies.max(1)),
            }
        };
        self.slots.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_fits_and_nothing_is_lost() {
        for step in [1_000, 777_777, 300_000_000] {
            let mut series = Series::new(5, Sample { programmed: 100, busy: 40 });
            for index in 1..=2000 {
                let now = 5 + index * step;
                if series.is_due(now) {
                    let (programmed, busy) = (100 + index * 16, 40 + index * step);
                    series.sample(now, Sample { programmed, busy });
                }
                series.answer(step, true, 8);
            }
            let end = 5 + 2000 * step;
            series.sample(end, Sample { programmed: 100 + 2000 * 16, busy: 40 + 2000 * step });
            let intervals = series.intervals(end, 2);
            assert!(intervals.len() <= MOST && intervals.len() > 10, "{}", intervals.len());
            assert_eq!(series.slots.iter().map(|slot| slot.written).sum::<u64>(), 2000 * 8);
            let programmed: u64 = series.slots.iter().map(|slot| slot.work.programmed).sum();
            assert_eq!(programmed, 2000 * 16);
            let middle = intervals[intervals.len() / 2];
            assert!((middle.iops * step as f64 / 1e9 - 1.0).abs() < 0.2, "{middle:?}");
            assert!((middle.busy - 0.5).abs() < 0.1, "{middle:?}");
            let p99 = middle.p99_ns.expect("there were requests");
            assert!(p99 >= step && p99 <= step + step / 16);
        }
    }
}

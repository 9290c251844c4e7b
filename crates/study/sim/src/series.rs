//! A time series with at most 256 intervals of equal width, for runs of any length.
//!
//! Invariants
//! - A completion belongs to the interval in which it occurred. Work of the drives belongs to the
//!   interval that was open when it was last sampled.
//! - When the intervals do not suffice, they are merged in pairs and the width doubles.

use hostftl_core::Nanos;
use serde::Serialize;

use crate::coarse::{self, BUCKETS};
use crate::ratio::ratio;

/// Maximum number of intervals.
const MOST: usize = 256;
/// Initial width in ns.
const FIRST_WIDTH: Nanos = 100_000;

/// Totals since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Sectors programmed.
    pub programmed: u64,
    /// Busy time of the dies in ns.
    pub busy: Nanos,
}

#[derive(Clone, Debug)]
struct Slot {
    transfers: u64,
    written: u64,
    work: Sample,
    /// Number of reads and writes by latency bucket.
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

    /// Returns the given quantile (in thousandths) of the latencies of reads and writes.
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
    /// Start, in ns from the start of the run.
    pub at_ns: Nanos,
    /// Reads and writes completed per second.
    pub iops: f64,
    /// Bytes programmed per byte of the completed writes.
    pub waf: Option<f64>,
    /// 99th percentile of the latency of reads and writes in ns, with a resolution of 6 %.
    pub p99_ns: Option<Nanos>,
    /// 99.9th percentile in ns, with a resolution of 6 %.
    pub p999_ns: Option<Nanos>,
    /// Share of the time in which a die was busy, on average.
    pub busy: f64,
}

impl Series {
    /// Creates an empty series that starts at `start`, when the totals of the drives were `done`.
    pub(crate) fn new(start: Nanos, done: Sample) -> Self {
        Series { start, width: FIRST_WIDTH, slots: vec![Slot::new()], last: done }
    }

    /// Returns whether `now` is behind the open interval, so that [`Series::sample`] is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now >= self.start + self.width * self.slots.len() as u64
    }

    /// Adds the work of the drives up to the totals `done`, and opens the interval of `now`.
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

    /// Records a completed request with latency `took`. `written` is the number of sectors that it
    /// wrote.
    #[inline]
    pub(crate) fn answer(&mut self, took: Nanos, transfer: bool, written: u64) {
        let open = self.slots.last_mut().expect("there is always one");
        open.written += written;
        if transfer {
            open.transfers += 1;
            open.took[coarse::bucket(took)] += 1;
        }
    }

    /// Returns the intervals of a run that ended at `end`, on drives with `dies` dies in total.
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
    fn series_of_any_length_fit_without_loss() {
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

//! Generates the records of a synthetic workload; the same seed gives the same records.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::record::{Op, Record};
use crate::workload::{Pattern, Workload};

/// The hot part of a skewed workload: 90 % of the requests go to 5 % of the span.
const HOT_REQUESTS: f64 = 0.90;
const HOT_SHARE: u64 = 20;

/// The records of one workload.
#[derive(Debug)]
pub struct Synth {
    work: Workload,
    rng: Xoshiro256PlusPlus,
    made: u64,
    since_flush: u64,
}

impl Synth {
    /// The records of `work` for `seed`.
    pub fn new(work: Workload, seed: u64) -> Self {
        Synth { work, rng: Xoshiro256PlusPlus::seed_from_u64(seed), made: 0, since_flush: 0 }
    }

    fn unit(&mut self) -> u64 {
        let units = self.work.span / self.work.size;
        match self.work.pattern {
            Pattern::Uniform | Pattern::Mix => self.rng.random_range(0..units),
            Pattern::Sequential => self.made % units,
            Pattern::Skew => {
                let hot = (units / HOT_SHARE).max(1);
                if hot == units || self.rng.random_bool(HOT_REQUESTS) {
                    self.rng.random_range(0..hot)
                } else {
                    self.rng.random_range(hot..units)
                }
            }
        }
    }
}

impl Iterator for Synth {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let seconds_in = |made: u64, iops: u64| {
            (u128::from(made) * 1_000_000_000).checked_div(iops.into()).unwrap_or(0) as u64
        };
        let t_ns = seconds_in(self.made, self.work.iops);
        if self.work.flush > 0 && self.since_flush == self.work.flush {
            self.since_flush = 0;
            return Some(Record { t_ns, op: Op::Flush, dev: 0, lba: 0, sectors: 0 });
        }
        if self.made == self.work.count {
            return None;
        }
        let lba = self.unit() * self.work.size;
        let is_read = self.work.read > 0 && self.rng.random_range(0..100) < self.work.read;
        self.made += 1;
        self.since_flush += u64::from(!is_read);
        let op = if is_read { Op::Read } else { Op::Write };
        Some(Record { t_ns, op, dev: 0, lba, sectors: self.work.size })
    }
}

//! Generator of a synthetic workload's records; the same seed gives the same records.

use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::record::{Op, Record};
use crate::workload::{Pattern, Workload};

/// A prime. Its multiples scatter the ranks of the Zipf distribution over the span.
const SCATTER: u64 = 2_654_435_761;

/// Stream of the records of one workload.
#[derive(Debug)]
pub struct Synth {
    work: Workload,
    rng: Xoshiro256PlusPlus,
    zipf: Option<Zipf<f64>>,
    made: u64,
    since_flush: u64,
}

impl Synth {
    /// Makes the records of `work` for `seed`.
    pub fn new(work: Workload, seed: u64) -> Self {
        let units = (work.span / work.size) as f64;
        let zipf = (work.pattern == Pattern::Zipf).then(|| {
            Zipf::new(units, f64::from(work.theta) / 1000.0).expect("the workload was checked")
        });
        Synth { work, rng: Xoshiro256PlusPlus::seed_from_u64(seed), zipf, made: 0, since_flush: 0 }
    }

    fn unit(&mut self) -> u64 {
        let units = self.work.span / self.work.size;
        match self.work.pattern {
            Pattern::Uniform | Pattern::Mix => self.rng.random_range(0..units),
            Pattern::Sequential => self.made % units,
            Pattern::Skew => self.skewed(units),
            Pattern::Moving => {
                let moves = self.made / self.work.every;
                let start = u128::from(moves) * u128::from(self.hot(units)) % u128::from(units);
                (self.skewed(units) + start as u64) % units
            }
            Pattern::Zipf => {
                let zipf = self.zipf.as_ref().expect("the stream exists with the workload");
                let rank = (self.rng.sample(zipf) as u64).clamp(1, units) - 1;
                if units.is_multiple_of(SCATTER) {
                    rank
                } else {
                    (u128::from(rank) * u128::from(SCATTER) % u128::from(units)) as u64
                }
            }
        }
    }

    /// Returns the number of hot units.
    fn hot(&self, units: u64) -> u64 {
        (units * u64::from(self.work.hot) / 100).max(1)
    }

    /// Draws a unit of a distribution whose hot units come first.
    fn skewed(&mut self, units: u64) -> u64 {
        let hot = self.hot(units);
        if hot == units || self.rng.random_range(0..100) < self.work.share {
            self.rng.random_range(0..hot)
        } else {
            self.rng.random_range(hot..units)
        }
    }
}

impl Iterator for Synth {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        let seconds_in = |made: u64, iops: u64| {
            (u128::from(made) * 1_000_000_000).checked_div(iops.into()).unwrap_or(0) as u64
        };
        let t_ns = seconds_in(self.made, self.work.iops);
        if self.work.flush > 0 && self.since_flush == self.work.flush {
            self.since_flush = 0;
            return Some(Record::flush(t_ns, 0));
        }
        if self.made == self.work.count {
            return None;
        }
        let lba = self.unit() * self.work.size;
        let is_read = self.work.read > 0 && self.rng.random_range(0..100) < self.work.read;
        self.made += 1;
        self.since_flush += u64::from(!is_read);
        let op = if is_read { Op::Read } else { Op::Write };
        Some(Record::new(t_ns, op, 0, lba, self.work.size))
    }
}

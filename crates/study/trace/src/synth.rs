//! Generator of a synthetic workload's records; the same seed gives the same records.

use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::drawn::Drawn;
use crate::permutation::Permutation;
use crate::record::{Extras, Op, Record};
use crate::workload::{Pattern, Workload};

/// A prime. Its multiples scatter the ranks of the Zipf distribution over the span.
const SCATTER: u64 = 2_654_435_761;

/// Stream of the records of one workload.
#[derive(Debug)]
pub struct Synth {
    work: Workload,
    requests: Requests,
    made: u64,
    since_flush: u64,
}

/// Source of the requests, without times and flushes.
#[derive(Debug)]
enum Requests {
    /// All of one pattern.
    Plain(Box<Plain>),
    /// A drawn mixture.
    Drawn(Drawn),
}

impl Synth {
    /// Makes the records of `work` for `seed`.
    pub fn new(work: Workload, seed: u64) -> Self {
        let requests = match work.pattern {
            Pattern::Drawn => Requests::Drawn(Drawn::new(&work, seed)),
            _ => Requests::Plain(Box::new(Plain::new(work, seed))),
        };
        Synth { work, requests, made: 0, since_flush: 0 }
    }

    /// Returns the fields that writes can have besides the usual ones.
    pub(crate) fn extras(&self) -> Extras {
        Extras { placement: self.work.placement > 0, ..Extras::default() }
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
        let is_due = match &mut self.requests {
            Requests::Plain(_) => self.work.flush > 0 && self.since_flush == self.work.flush,
            Requests::Drawn(drawn) => drawn.take_flush(),
        };
        if is_due {
            self.since_flush = 0;
            return Some(Record::flush(t_ns, 0));
        }
        if self.made == self.work.count {
            return None;
        }
        let (op, lba, sectors) = match &mut self.requests {
            Requests::Plain(plain) => plain.request(),
            Requests::Drawn(drawn) => drawn.request(self.made),
        };
        self.made += 1;
        self.since_flush += u64::from(op == Op::Write);
        let placement = if op == Op::Write { self.work.placement } else { 0 };
        Some(Record { placement, ..Record::new(t_ns, op, 0, lba, sectors) })
    }
}

/// Requests of one pattern. All have the same length.
#[derive(Debug)]
pub(crate) struct Plain {
    work: Workload,
    rng: Xoshiro256PlusPlus,
    zipf: Option<Zipf<f64>>,
    /// Order of the current pass.
    order: Permutation,
    made: u64,
}

impl Plain {
    /// Makes the requests of `work` for `seed`.
    pub(crate) fn new(work: Workload, seed: u64) -> Self {
        let units = work.span / work.size;
        let zipf = (work.pattern == Pattern::Zipf).then(|| {
            Zipf::new(units as f64, f64::from(work.theta) / 1000.0)
                .expect("the workload was checked")
        });
        let (rng, order) = (Xoshiro256PlusPlus::seed_from_u64(seed), Permutation::new(units));
        Plain { work, rng, zipf, order, made: 0 }
    }

    /// Returns the operation, first sector and number of sectors of the next request.
    #[inline]
    pub(crate) fn request(&mut self) -> (Op, u64, u64) {
        let lba = self.unit() * self.work.size;
        let is_read = self.work.read > 0 && self.rng.random_range(0..100) < self.work.read;
        self.made += 1;
        (if is_read { Op::Read } else { Op::Write }, lba, self.work.size)
    }

    fn unit(&mut self) -> u64 {
        let units = self.work.span / self.work.size;
        match self.work.pattern {
            Pattern::Uniform | Pattern::Mix | Pattern::Drawn => self.rng.random_range(0..units),
            Pattern::Sequential => self.made % units,
            Pattern::Permutation => {
                let index = self.made % units;
                if index == 0 {
                    self.order.draw(&mut self.rng);
                }
                self.order.at(index)
            }
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

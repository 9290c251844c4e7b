//! A flow of a drawn workload: requests of one kind in an address range of its own.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::mixture::PHASES;
use crate::record::Op;
use crate::synth::Plain;
use crate::workload::{Pattern, Workload};

/// Properties of a flow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// Addresses, request size, reads and flushes, relative to `first`.
    pub(super) work: Workload,
    /// First sector.
    pub(super) first: u64,
    /// A request has 1, 2, 4 … 2^`doublings` units, each with equal probability.
    pub(super) doublings: u32,
    /// Sectors of a file that is discarded and then written sequentially; 0 if the flow has none.
    pub(super) file: u64,
    /// Relative frequency of requests in each phase.
    pub(super) weights: [u64; PHASES],
}

/// State of a flow.
#[derive(Debug)]
pub(super) struct Flow {
    shape: Shape,
    plain: Plain,
    rng: Xoshiro256PlusPlus,
    /// Range of the current file that is still to be written.
    file: (u64, u64),
    /// Sector after the last request, for sequential addresses.
    next: u64,
    writes: u64,
    flushes: bool,
}

impl Flow {
    pub(super) fn new(shape: Shape, seed: u64) -> Self {
        let unit = if shape.file > 0 { shape.file } else { shape.work.size };
        let plain = Plain::new(Workload { size: unit, ..shape.work }, seed);
        let rng = Xoshiro256PlusPlus::seed_from_u64(!seed);
        Flow { shape, plain, rng, file: (0, 0), next: 0, writes: 0, flushes: false }
    }

    /// Returns the relative frequency of requests in a phase.
    pub(super) fn weight(&self, phase: usize) -> u64 {
        self.shape.weights[phase]
    }

    /// Returns whether the last request must be flushed.
    pub(super) fn take_flush(&mut self) -> bool {
        core::mem::take(&mut self.flushes)
    }

    /// Returns the operation, first sector and number of sectors of the next request.
    pub(super) fn request(&mut self) -> (Op, u64, u64) {
        let (op, lba, sectors) =
            if self.shape.file > 0 { self.request_of_file() } else { self.plain_request() };
        if op == Op::Write && self.shape.work.flush > 0 {
            self.writes += 1;
            self.flushes = self.writes.is_multiple_of(self.shape.work.flush);
        }
        (op, self.shape.first + lba, sectors)
    }

    fn plain_request(&mut self) -> (Op, u64, u64) {
        let (op, mut lba, unit) = self.plain.request();
        if self.shape.work.pattern == Pattern::Sequential {
            lba = self.next;
        }
        let units = 1 << self.rng.random_range(0..=self.shape.doublings);
        let sectors = (unit * units).min(self.shape.work.span - lba);
        self.next = (lba + sectors) % self.shape.work.span;
        (op, lba, sectors)
    }

    /// Writes the rest of a file, or discards another one.
    fn request_of_file(&mut self) -> (Op, u64, u64) {
        let (at, end) = self.file;
        if at == end {
            let (op, lba, sectors) = self.plain.request();
            if op == Op::Write {
                self.file = (lba, lba + sectors);
                return (Op::Discard, lba, sectors);
            }
            return (op, lba, self.shape.work.size.min(sectors));
        }
        let sectors = self.shape.work.size.min(end - at);
        self.file.0 += sectors;
        (Op::Write, at, sectors)
    }
}

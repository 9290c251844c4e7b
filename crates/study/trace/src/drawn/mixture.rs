//! Draws the flows of a workload.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::flow::Shape;
use crate::workload::{Pattern, Workload};

/// Number of phases. In each, the flows have other relative frequencies.
pub(super) const PHASES: usize = 8;
/// Sectors of 1 MiB. Flows begin at multiples of it.
const MIB: u64 = 2048;
/// Sectors of 1 KiB.
const KIB: u64 = 2;
/// Maximum number of flows, without journals.
const MOST: u64 = 5;

/// Kinds of flows.
#[derive(Clone, Copy)]
enum Kind {
    /// Pages with Zipf popularity, and mostly a journal.
    Database,
    /// A hot set that moves.
    Moving,
    /// Small requests of several sizes, of which most go to a hot part.
    Skewed,
    /// Small requests everywhere.
    Uniform,
    /// Long sequential writes.
    Bulk,
    /// Files that are written, discarded and written again.
    Files,
}

const KINDS: [Kind; 6] =
    [Kind::Database, Kind::Moving, Kind::Skewed, Kind::Uniform, Kind::Bulk, Kind::Files];

/// Returns the flows that number `draw` selects for `span` sectors, at least 16 MiB.
pub(super) fn mixture(draw: u64, span: u64) -> Vec<Shape> {
    let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(draw));
    let parts: Vec<u64> = (0..dice.range(2, MOST)).map(|_| dice.range(2, 8)).collect();
    let all: u64 = parts.iter().sum();
    let mut shapes = Vec::new();
    let mut first = 0;
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let length = if is_last { span - first } else { (span * part / all / MIB).max(1) * MIB };
        let kind = dice.pick(&KINDS);
        // In bytes, long requests would outweigh all others.
        let weight = match kind {
            Kind::Bulk => 1,
            Kind::Files => 4,
            _ => 16,
        } * dice.range(1, 8);
        dice.flow(kind, (first, length), weight, &mut shapes);
        first += length;
    }
    shapes
}

/// Random choices.
struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// Returns a number of `from..=to`.
    fn range(&mut self, from: u64, to: u64) -> u64 {
        self.0.random_range(from..=to)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())]
    }

    /// Returns frequencies around `weight`. In some phases the flow is quiet or busy.
    fn weights(&mut self, weight: u64) -> [u64; PHASES] {
        core::array::from_fn(|_| weight * self.pick(&[1, 10, 10, 10, 30]))
    }

    /// Adds a flow of a kind, and its journal if it has one.
    fn flow(&mut self, kind: Kind, (first, length): (u64, u64), weight: u64, to: &mut Vec<Shape>) {
        let weights = self.weights(weight);
        let journal = match kind {
            Kind::Database => (length * self.range(1, 5) / 100 / MIB).max(1) * MIB,
            _ => 0,
        };
        let journal = if journal < length && self.range(0, 3) > 0 { journal } else { 0 };
        let work = self.work(kind, length - journal);
        let doublings = match kind {
            Kind::Skewed | Kind::Bulk => self.range(0, 4) as u32,
            _ => 0,
        };
        let file = match kind {
            Kind::Files => self.pick(&[MIB / 8, MIB, 4 * MIB]).min(work.span),
            _ => 0,
        };
        to.push(Shape { work, first: first + journal, doublings, file, weights });
        if journal > 0 {
            let work = self.journal(journal);
            to.push(Shape { work, first, doublings: self.range(0, 3) as u32, file: 0, weights });
        }
    }

    /// Draws the requests of a flow of `length` sectors.
    fn work(&mut self, kind: Kind, length: u64) -> Workload {
        let (pattern, sizes): (_, &[u64]) = match kind {
            Kind::Database => (Pattern::Zipf, &[4, 8, 16, 16]),
            Kind::Moving => (Pattern::Moving, &[4, 8, 16, 64]),
            Kind::Skewed => (Pattern::Skew, &[4, 4, 8]),
            Kind::Uniform => (Pattern::Uniform, &[4, 4, 8, 16]),
            Kind::Bulk => (Pattern::Sequential, &[64, 128, 256]),
            Kind::Files => (Pattern::Uniform, &[32, 128]),
        };
        let size = self.pick(sizes) * KIB;
        Workload {
            pattern,
            size,
            span: length / size * size,
            read: self.pick(&[0, 10, 30, 50, 70]),
            flush: self.pick(&[0, 0, 16, 64, 256]),
            theta: self.range(600, 1200) as u32,
            hot: self.range(2, 30) as u32,
            share: self.range(60, 98) as u32,
            every: self.range(2_000, 50_000),
            ..Workload::default()
        }
    }

    /// Draws a journal: small sequential writes in a ring of `length` sectors, with flushes.
    fn journal(&mut self, length: u64) -> Workload {
        let size = self.pick(&[1, KIB, 4 * KIB, 4 * KIB]);
        let flush = self.pick(&[1, 1, 2, 8]);
        Workload { pattern: Pattern::Sequential, size, span: length, flush, ..Workload::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_ranges_of_their_own_within_the_span() {
        for draw in 0..1000 {
            let span = 16 * MIB + draw % 7 * 8;
            let mut shapes = mixture(draw, span);
            shapes.sort_by_key(|shape| shape.first);
            let ends = shapes.iter().map(|shape| shape.first + shape.work.span);
            let next = shapes.iter().skip(1).map(|shape| shape.first).chain([span]);
            assert!(ends.zip(next).all(|(end, next)| end <= next), "{draw}: {shapes:?}");
            assert!(shapes.iter().all(|shape| shape.work.span >= shape.work.size.max(shape.file)));
        }
    }

    #[test]
    fn mixtures_differ() {
        let all: Vec<_> = (0..100).map(|draw| mixture(draw, 64 * MIB)).collect();
        let is_repeated = |at: usize| all[at + 1..].contains(&all[at]);
        assert!(!(0..100).any(is_repeated));
        let with = |is: fn(&Shape) -> bool| all.iter().filter(|it| it.iter().any(is)).count();
        let journals = with(|shape| shape.work.flush == 1);
        let files = with(|shape| shape.file > 0);
        let sequential = with(|shape| shape.work.pattern == Pattern::Sequential);
        assert!([journals, files, sequential].iter().all(|count| (10..90).contains(count)));
    }
}

//! Write rate of each block, in one byte per block: a moving average of the intervals between its
//! writes (Stoica and Ailamaki, VLDB 2013, store a rate per page).
//!
//! Intervals and ages are in ticks. [`TICKS`] ticks are as many host writes as there are blocks. An
//! average has a mantissa of four bits, and is rounded at random so that small steps accumulate.
//! The temperature of a block follows from its average, or from its age if that is longer.
//!
//! The guard detects a change of the hot set: blocks with long averages are then rewritten
//! repeatedly after short intervals. While this lasts, an average that a short interval contradicts
//! is replaced by that interval.

use alloc::vec;
use alloc::vec::Vec;

use super::dice::Dice;

/// Average of an unknown block.
const NEW: u8 = u8::MAX;
/// Ticks of an interval in which as many blocks are written as there are.
const TICKS: u32 = 2048;
/// Mantissa bits of an average.
const MANTISSA: u32 = 4;
/// Bounds between temperatures, an octave apart. The first is [`TICKS`] times the square root of
/// 1/2.
const BOUNDS: [u32; 3] = [1448, 2896, 5793];
/// Divisor of the step from an average towards a new interval.
const SHARE: u32 = 4;
/// An interval below this fraction of the average contradicts it (`BELIED`) or is counted as short
/// (`SHORT`).
const BELIED: u32 = 4;
const SHORT: u32 = 16;
/// Thresholds of the share of short intervals, among blocks whose average exceeds the number of
/// blocks. Between them the guard keeps its state. At stable rates the share is about 0.1.
const GUARD: (f64, f64) = (0.19, 0.25);
/// Window of the share: a fraction of the number of blocks, and the minimum number of intervals.
const WINDOW: (f64, f64) = (0.1, 64.0);

/// Write rates of all blocks. Ages are in blocks written by the host.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    /// Encoded average of each block.
    means: Vec<u8>,
    /// Ticks per unit of age.
    tick: f64,
    /// Recent share of short intervals after long averages, and the weight of one interval.
    short: f64,
    weight: f64,
    /// Whether the hot set is changing.
    moves: bool,
    dice: Dice,
}

impl Rates {
    /// Creates the state for `blocks` unknown blocks.
    ///
    /// # Panics
    /// If there is no block.
    pub(super) fn new(blocks: u64) -> Self {
        assert!(blocks > 0, "a block has a rate");
        let count = blocks as f64;
        Rates {
            means: vec![NEW; blocks as usize],
            tick: f64::from(TICKS) / count,
            short: 0.0,
            weight: 1.0 / (WINDOW.0 * count).max(WINDOW.1),
            moves: false,
            dice: Dice::new(0),
        }
    }

    /// Returns the bytes of the state for `blocks` blocks.
    pub(super) fn memory(blocks: u64) -> u64 {
        blocks
    }

    /// Returns whether a block that the host writes will probably be rewritten soon. `replaced` is
    /// the age of the version that is replaced.
    #[inline]
    pub(super) fn is_hot(&self, block: u64, replaced: Option<f64>) -> bool {
        let mean = self.means[block as usize];
        let next = self.interval(replaced).map(|interval| self.followed(mean, interval));
        let known = || (mean != NEW).then(|| ticks(mean));
        next.or_else(known).is_some_and(|mean| mean < BOUNDS[0])
    }

    /// Returns how cold a block is that was written `age` ago, from 0 to 3.
    #[inline]
    pub(super) fn coldness(&self, block: u64, age: f64) -> u8 {
        let age = (age * self.tick) as u32;
        let wait = match self.means[block as usize] {
            NEW => TICKS.saturating_add(age),
            mean => ticks(mean).max(age),
        };
        BOUNDS.iter().filter(|bound| wait >= **bound).count() as u8
    }

    /// Notes a host write to a block; `replaced` is the age of its previous version.
    #[inline]
    pub(super) fn wrote(&mut self, block: u64, replaced: Option<f64>) {
        let Some(interval) = self.interval(replaced) else { return };
        let mean = self.means[block as usize];
        if mean != NEW && ticks(mean) > TICKS {
            let is_short = f64::from(u8::from(interval < ticks(mean) / SHORT));
            self.short += (is_short - self.short) * self.weight;
            self.moves = self.short > if self.moves { GUARD.0 } else { GUARD.1 };
        }
        let next = self.followed(mean, interval);
        self.means[block as usize] = code(next + self.dice.below(1 << exponent(next)));
    }

    /// Converts an age to ticks. Returns `None` if it exceeds all averages: such an age is not an
    /// interval, but comes from an earlier life or from other blocks of a segment.
    fn interval(&self, age: Option<f64>) -> Option<u32> {
        age.map(|age| (age * self.tick) as u32).filter(|interval| *interval < ticks(NEW - 1))
    }

    /// Returns the average after an interval.
    fn followed(&self, mean: u8, interval: u32) -> u32 {
        if mean == NEW {
            return interval;
        }
        let was = ticks(mean);
        let belied = self.moves && interval < was / BELIED;
        if belied { interval } else { (was * (SHARE - 1) + interval) / SHARE }
    }
}

/// Returns the shift of the mantissa for an average of `ticks`.
fn exponent(ticks: u32) -> u32 {
    (ticks | 1).ilog2().saturating_sub(MANTISSA)
}

/// Encodes a number of ticks.
fn code(ticks: u32) -> u8 {
    let exponent = exponent(ticks);
    ((exponent << MANTISSA) + (ticks >> exponent)).min((NEW - 1).into()) as u8
}

/// Decodes a number of ticks.
fn ticks(code: u8) -> u32 {
    let high = u32::from(code >> MANTISSA);
    let low = u32::from(code) & ((1 << MANTISSA) - 1);
    if high == 0 { low } else { ((1 << MANTISSA) + low) << (high - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u64 = 1 << 16;
    const ALL: f64 = BLOCKS as f64;

    /// Creates rates with this average of block 0.
    fn known(interval: f64) -> Rates {
        let mut it = Rates::new(BLOCKS);
        it.wrote(0, Some(interval));
        it
    }

    #[test]
    fn bytes_round_trip() {
        for byte in 0..NEW {
            assert_eq!(code(ticks(byte)), byte);
            assert!(byte == 0 || ticks(byte) > ticks(byte - 1));
        }
        assert_eq!((code(u32::MAX), ticks(NEW - 1) / TICKS), (NEW - 1, 240));
    }

    #[test]
    fn a_mean_starts_at_the_first_interval_and_follows_the_next() {
        let mut it = known(ALL);
        assert_eq!(ticks(it.means[0]), TICKS);
        let after = |it: &mut Rates, interval| {
            let sum = (0..1000).map(|_| {
                it.means[0] = code(TICKS);
                it.wrote(0, Some(interval));
                f64::from(ticks(it.means[0]))
            });
            sum.sum::<f64>() / 1e3 / f64::from(TICKS)
        };
        let means = [1.0, 0.0, 1.1, 5.0].map(|interval| after(&mut it, interval * ALL));
        for (mean, wanted) in means.into_iter().zip([1.0, 0.75, 1.025, 2.0]) {
            assert!((mean - wanted).abs() < 0.01, "{mean} is not {wanted}");
        }
    }

    #[test]
    fn unknown_blocks_are_cold_and_old_ages_are_ignored() {
        let mut it = Rates::new(BLOCKS);
        assert!(!it.is_hot(0, None) && !it.is_hot(0, Some(1e15)));
        assert_eq!([0.0, ALL, 1e15].map(|age| it.coldness(0, age)), [1, 2, 3]);
        it.wrote(0, Some(1e15));
        assert_eq!(it.means[0], NEW);
        assert!(it.is_hot(0, Some(0.1 * ALL)), "its first interval counts");
        it.wrote(0, Some(0.1 * ALL));
        it.wrote(0, Some(1e15));
        assert!(it.is_hot(0, None) && it.is_hot(0, Some(1e15)), "the mean stays");
    }

    #[test]
    fn a_block_is_as_cold_as_its_mean_or_as_its_age() {
        let means = [0.1, 0.65, 0.75, 1.35, 1.5, 2.7, 3.0, 200.0].map(|it| known(it * ALL));
        assert_eq!(means.each_ref().map(|it| it.coldness(0, 0.0)), [0, 0, 1, 1, 2, 2, 3, 3]);
        let ages = [0.5, 0.8, 2.0, 9.0, 1e9].map(|age| means[0].coldness(0, age * ALL));
        assert_eq!(ages, [0, 1, 2, 3, 3]);
        let hot = means.each_ref().map(|it| it.is_hot(0, None));
        assert_eq!(hot, [true, true, false, false, false, false, false, false]);
    }

    #[test]
    fn a_mean_restarts_after_repeated_short_intervals() {
        let mut it = Rates::new(BLOCKS);
        let mut play = |short: u64, of: u64| {
            for at in 0..BLOCKS {
                it.means[0] = code(4 * TICKS);
                it.wrote(0, Some(if at % of < short { 0.1 * ALL } else { 4.0 * ALL }));
            }
            it.followed(code(4 * TICKS), TICKS / 2)
        };
        let (anew, slowly) = (TICKS / 2, (12 * TICKS + TICKS / 2) / 4);
        let moves = [play(1, 10), play(1, 3), play(2, 9), play(1, 10)];
        assert_eq!(moves, [slowly, anew, anew, slowly]);
    }

    #[test]
    fn one_block_and_zero_ages_are_handled() {
        let mut it = Rates::new(1);
        for age in [0.0, 1.0, 0.5, 200.0, f64::INFINITY] {
            it.wrote(0, Some(age));
            assert!(it.coldness(0, age) <= 3);
        }
        assert_eq!(Rates::memory(9), Rates::new(9).means.len() as u64);
    }
}

//! How often the host writes each block, in one byte a block: a sliding mean of the intervals
//! between its writes (Stoica and Ailamaki, VLDB 2013, keep a rate a page).
//!
//! Intervals and ages are in ticks, of which [`TICKS`] are as many blocks as there are. A mean has
//! four bits of mantissa and is rounded at random, so that small steps count. A block is as warm as
//! its mean says, or as cold as its age says when it has rested for longer.
//!
//! The guard: where blocks with long means are written again at once, over and over, the hot blocks
//! are others now. As long as that is so a mean that a short interval belies starts anew.

use alloc::vec;
use alloc::vec::Vec;

use super::dice::Dice;

/// The mean of a block of which nothing is known.
const NEW: u8 = u8::MAX;
/// Ticks of an interval in which as many blocks are written as there are.
const TICKS: u32 = 2048;
/// Bits of the mantissa of a mean.
const MANTISSA: u32 = 4;
/// Bounds between warmths, an octave apart: the first one is the root of 1/2 of [`TICKS`].
const BOUNDS: [u32; 3] = [1448, 2896, 5793];
/// A mean goes one part of so many of the way to an interval.
const SHARE: u32 = 4;
/// An interval that is less than one part of so many of the mean belies it, and one that is less
/// than one of so many is counted.
const BELIED: u32 = 4;
const SHORT: u32 = 16;
/// The shares of short intervals, of blocks with means above the blocks of the volume, between
/// which the guard stays as it is: where rates stay as they are the share is about 0.1.
const GUARD: (f64, f64) = (0.19, 0.25);
/// The share is the mean of about so many intervals, over the blocks, and of so many at least.
const LOOK: (f64, f64) = (0.1, 64.0);

/// See the module text. Ages are in blocks that the host wrote.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    /// The byte of each block.
    means: Vec<u8>,
    /// Ticks of an age of 1.
    tick: f64,
    /// Which share of intervals after long means was short lately, and by how much one more counts.
    short: f64,
    weight: f64,
    /// Whether what is hot has changed.
    moves: bool,
    dice: Dice,
}

impl Rates {
    /// Nothing is known of so many blocks.
    ///
    /// # Panics
    /// When there is no block.
    pub(super) fn new(blocks: u64) -> Self {
        assert!(blocks > 0, "who has no block has no rates");
        let count = blocks as f64;
        Rates {
            means: vec![NEW; blocks as usize],
            tick: f64::from(TICKS) / count,
            short: 0.0,
            weight: 1.0 / (LOOK.0 * count).max(LOOK.1),
            moves: false,
            dice: Dice::new(0),
        }
    }

    /// Bytes of what is known of so many blocks.
    pub(super) fn memory(blocks: u64) -> u64 {
        blocks
    }

    /// Whether a block will soon be written again when the host writes it, by the age of the
    /// version that is replaced.
    #[inline]
    pub(super) fn is_hot(&self, block: u64, replaced: Option<f64>) -> bool {
        let mean = self.means[block as usize];
        let next = self.interval(replaced).map(|interval| self.followed(mean, interval));
        let known = || (mean != NEW).then(|| ticks(mean));
        next.or_else(known).is_some_and(|mean| mean < BOUNDS[0])
    }

    /// How cold a block is that was written so long ago: from 0 to 3.
    #[inline]
    pub(super) fn coldness(&self, block: u64, age: f64) -> u8 {
        let age = (age * self.tick) as u32;
        let wait = match self.means[block as usize] {
            NEW => TICKS.saturating_add(age),
            mean => ticks(mean).max(age),
        };
        BOUNDS.iter().filter(|bound| wait >= **bound).count() as u8
    }

    /// The host wrote a block, whose version before was of such an age.
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

    /// An age in ticks. None when it is beyond all means: that is no interval, but of an earlier
    /// life, or beside such blocks in a segment.
    fn interval(&self, age: Option<f64>) -> Option<u32> {
        age.map(|age| (age * self.tick) as u32).filter(|interval| *interval < ticks(NEW - 1))
    }

    /// What comes after such a mean and interval.
    fn followed(&self, mean: u8, interval: u32) -> u32 {
        if mean == NEW {
            return interval;
        }
        let was = ticks(mean);
        let belied = self.moves && interval < was / BELIED;
        if belied { interval } else { (was * (SHARE - 1) + interval) / SHARE }
    }
}

/// How far the mantissa of a mean of so many ticks is shifted.
fn exponent(ticks: u32) -> u32 {
    (ticks | 1).ilog2().saturating_sub(MANTISSA)
}

/// The byte of so many ticks.
fn code(ticks: u32) -> u8 {
    let exponent = exponent(ticks);
    ((exponent << MANTISSA) + (ticks >> exponent)).min((NEW - 1).into()) as u8
}

/// The ticks of a byte.
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

    /// Rates that have learnt such a mean of block 0.
    fn known(interval: f64) -> Rates {
        let mut it = Rates::new(BLOCKS);
        it.wrote(0, Some(interval));
        it
    }

    #[test]
    fn a_byte_holds_what_it_stands_for() {
        for byte in 0..NEW {
            assert_eq!(code(ticks(byte)), byte);
            assert!(byte == 0 || ticks(byte) > ticks(byte - 1));
        }
        assert_eq!((code(u32::MAX), ticks(NEW - 1) / TICKS), (NEW - 1, 240));
    }

    #[test]
    fn a_mean_begins_with_an_interval_and_follows_the_next_ones_in_the_mean() {
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
    fn what_nothing_is_known_of_is_cold_when_it_is_written_and_an_old_age_says_nothing() {
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
    fn a_mean_starts_anew_where_short_intervals_are_many() {
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
    fn a_volume_of_one_block_and_ages_of_nothing_are_well() {
        let mut it = Rates::new(1);
        for age in [0.0, 1.0, 0.5, 200.0, f64::INFINITY] {
            it.wrote(0, Some(age));
            assert!(it.coldness(0, age) <= 3);
        }
        assert_eq!(Rates::memory(9), Rates::new(9).means.len() as u64);
    }
}

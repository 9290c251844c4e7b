//! Blocks by how soon they are written again, as it went with blocks like them ([`ByHazard`]). One
//! byte a block is kept beside its age.
//!
//! The byte is a sliding mean of the intervals between the writes of a block (Stoica and Ailamaki,
//! VLDB 2013, keep a rate a page), in 16ths of an octave, rounded at random so that small steps
//! count. The mean alone says too little: a block that has rested for long may have become cold,
//! and of two blocks with the same mean the one that was written just now may be hot for a while.
//! So a table has how often blocks of such a mean and such an age are written: deaths over
//! exposure, as in the tables of life insurers (a hazard rate, constant in each cell). Each write
//! is a death, and for each write a block is drawn and counted as exposed. Half of what the table
//! knows is forgotten within one and a half overwrites. The class of a write or of a copy follows
//! from the rate of its cell, and is right whatever the reason for the rate.
//!
//! The guard: where blocks with long means are written again at once, over and over, the hot blocks
//! are others now. As long as that is so a mean that a short interval belies starts anew.

use hostftl_layers::policy::Dice;

use super::rate::dither;
use super::rule::{NEVER, Placement};

const CLASSES: u8 = 10;
/// A class is an octave of intervals; the first one begins at this power of two times the blocks,
/// and has all below as well.
const FIRST: f64 = -6.0;
/// Which part of the way a mean goes to an interval.
const SHARE: f64 = 0.25;
/// The mean of a block that was written once.
const NEW: u8 = u8::MAX;
/// The least mean is this power of two times the blocks, and an octave has so many means.
const LEAST: f64 = -8.0;
const FINE: f64 = 16.0;
/// Rows of the table have so many means, and one more is for blocks that were written once.
const ROW: u8 = 8;
const ROWS: usize = 33;
/// Columns are octaves of age, the first ends at this power of two times the blocks.
const COLUMNS: usize = 20;
const YOUNGEST: f64 = -9.0;
/// A cell begins as if so many had died in it at the rate that the mean says.
const ASSUMED: f64 = 3.0;
/// What is left of the table after each overwrite.
const KEPT: f64 = 0.6;
/// An interval that is such a part of the mean belies it, and one that is such a part is counted.
const BELIED: f64 = 0.25;
const SHORT: f64 = 1.0 / 16.0;
/// The shares of short intervals, of blocks with means above the blocks of the volume, between
/// which the guard stays as it is: where rates stay as they are the share is about 0.1.
const GUARD: (f64, f64) = (0.19, 0.25);
/// The share is the mean of about so many intervals, over the blocks of the volume.
const LOOK: f64 = 0.1;

/// What became of blocks, by their means and ages.
#[derive(Clone, Debug)]
struct Table {
    blocks: f64,
    /// Deaths, and writes of the host that blocks lived through, of each cell.
    cells: Vec<(f64, f64)>,
}

impl Table {
    fn new(blocks: u32) -> Self {
        Table { blocks: blocks.into(), cells: vec![(0.0, 0.0); ROWS * COLUMNS] }
    }

    fn cell(&self, mean: u8, age: f64) -> usize {
        let row = if mean == NEW { ROWS - 1 } else { usize::from(mean / ROW) };
        let octave = (age.max(1.0) / self.blocks).log2() - YOUNGEST + 1.0;
        row * COLUMNS + (octave.max(0.0) as usize).min(COLUMNS - 1)
    }

    fn died(&mut self, mean: u8, age: f64) {
        let at = self.cell(mean, age);
        self.cells[at].0 += 1.0;
    }

    /// One block, drawn from all, is `age` old: it stands for all others while one is written.
    fn lives(&mut self, mean: u8, age: f64) {
        let at = self.cell(mean, age);
        self.cells[at].1 += self.blocks;
    }

    fn forget(&mut self) {
        self.cells
            .iter_mut()
            .for_each(|(dead, lived)| (*dead, *lived) = (*dead * KEPT, *lived * KEPT));
    }

    /// Writes of the host until such a block is written again, if its rate stays.
    fn interval(&self, mean: u8, age: f64) -> f64 {
        let guess = match mean {
            NEW => self.blocks + age,
            _ => interval(mean, self.blocks).max(age),
        };
        let (dead, lived) = self.cells[self.cell(mean, age)];
        (lived + ASSUMED * guess) / (dead + ASSUMED)
    }
}

/// Whether what is hot has changed.
#[derive(Clone, Copy, Debug, Default)]
struct Guard {
    share: f64,
    moves: bool,
}

impl Guard {
    /// A block with a long mean was written, after a short interval or not.
    fn saw(&mut self, short: bool, blocks: f64) {
        self.share += (f64::from(u8::from(short)) - self.share) / (LOOK * blocks).max(64.0);
        self.moves = self.share > if self.moves { GUARD.0 } else { GUARD.1 };
    }
}

/// See the module text.
#[derive(Clone, Debug)]
pub struct ByHazard {
    /// The byte of each block.
    means: Vec<u8>,
    /// When each block was written last: a log that knows the ages needs no place for this.
    last: Vec<u64>,
    table: Table,
    guard: Guard,
    written: u64,
}

impl ByHazard {
    /// Nothing is known of so many blocks.
    pub fn new(blocks: u32) -> Self {
        assert!(blocks > 0, "a log has a block");
        let (means, last) = (vec![NEW; blocks as usize], vec![NEVER; blocks as usize]);
        ByHazard { means, last, table: Table::new(blocks), guard: Guard::default(), written: 0 }
    }

    fn class(&self, mean: u8, age: f64) -> u8 {
        let octave = (self.table.interval(mean, age) / self.table.blocks).log2();
        ((octave - FIRST).max(0.0) as u8).min(CLASSES - 1)
    }

    /// The mean of a block that is written at such an age.
    fn followed(&mut self, mean: u8, age: f64, dither: f64) -> u8 {
        let blocks = self.table.blocks;
        if mean == NEW {
            return code(age, blocks, dither);
        }
        let was = interval(mean, blocks);
        if was > blocks {
            self.guard.saw(age < SHORT * was, blocks);
        }
        let belied = self.guard.moves && age < BELIED * was;
        code(if belied { age } else { was + SHARE * (age - was) }, blocks, dither)
    }

    /// Counts a block, drawn from all, among those that live.
    fn draw(&mut self) {
        let drawn = Dice::new(self.written).below(self.means.len() as u32) as usize;
        if self.last[drawn] != NEVER {
            self.table.lives(self.means[drawn], (self.written - self.last[drawn]) as f64);
        }
    }
}

impl Placement for ByHazard {
    fn classes(&self) -> u8 {
        CLASSES
    }

    fn of_writes(&mut self, lbas: &[u32], ages: &[u64], classes: &mut [u8]) {
        for ((lba, age), to) in lbas.iter().zip(ages).zip(classes) {
            let block = *lba as usize;
            if *age != NEVER {
                let (mean, age) = (self.means[block], age.max(&1));
                self.table.died(mean, *age as f64);
                let dither = dither(u64::from(*lba), self.written);
                self.means[block] = self.followed(mean, *age as f64, dither);
            }
            self.last[block] = self.written;
            self.draw();
            *to = self.class(self.means[block], 0.0);
            self.written += 1;
            if self.written.is_multiple_of(self.means.len() as u64) {
                self.table.forget();
            }
        }
    }

    fn of_copies(&mut self, lbas: &[u32], ages: &[u64], _from: u8, classes: &mut [u8]) {
        for ((lba, age), to) in lbas.iter().zip(ages).zip(classes) {
            *to = self.class(self.means[*lba as usize], *age as f64);
        }
    }
}

/// The byte of an interval.
fn code(interval: f64, blocks: f64, dither: f64) -> u8 {
    let fine = ((interval.max(1.0) / blocks).log2() - LEAST) * FINE + dither;
    (fine.max(0.0) as u8).min(NEW - 1)
}

/// The interval of a byte.
fn interval(mean: u8, blocks: f64) -> f64 {
    (f64::from(mean) / FINE + LEAST).exp2() * blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u32 = 1 << 16;
    const ALL: f64 = BLOCKS as f64;

    #[test]
    fn a_byte_holds_an_interval_to_a_16th_of_an_octave() {
        for times in [1.0 / 256.0, 0.03, 0.5, 1.0, 9.0, 200.0] {
            let back = interval(code(times * ALL, ALL, 0.5), ALL) / ALL;
            assert!((back / times).log2().abs() <= 0.5 / FINE + 1e-9, "{back} of {times}");
        }
        assert_eq!((code(1.0, ALL, 0.9), code(1e12, ALL, 0.0)), (0, NEW - 1));
    }

    #[test]
    fn a_mean_goes_a_part_of_the_way_and_starts_with_the_first_interval() {
        let mut it = ByHazard::new(BLOCKS);
        assert_eq!(it.followed(NEW, ALL, 0.0), 128);
        assert_eq!(it.followed(128, ALL, 0.0), 128, "as it was foretold");
        let far = it.followed(128, 5.0 * ALL, 0.0);
        assert_eq!(far, code(2.0 * ALL, ALL, 0.0), "a quarter of the way from 1 to 5");
        let steps: u32 =
            (0..1000).map(|at| u32::from(it.followed(128, ALL, f64::from(at) / 1e3))).sum();
        assert_eq!(steps, 128_000, "at random in the mean it stays");
    }

    #[test]
    fn a_cell_has_deaths_over_exposure_and_begins_as_the_mean_says() {
        let mut it = Table::new(BLOCKS);
        let young = it.interval(128, 10.0);
        assert!((young / ALL - 1.0).abs() < 1e-9 && it.interval(128, 4.0 * ALL) > 3.9 * ALL);
        (0..10_000).for_each(|_| it.died(128, 10.0));
        // While a block is written one of 64 blocks is of this cell.
        (0..10_000 / 64).for_each(|_| it.lives(128, 10.0));
        assert!((it.interval(128, 10.0) / (ALL / 64.0) - 1.0).abs() < 0.03);
        assert!((it.interval(128, ALL) / ALL - 1.0).abs() < 1e-9, "another age is another cell");
        let known = it.interval(128, 10.0);
        (0..40).for_each(|_| it.forget());
        assert!((it.interval(128, 10.0) / young - 1.0).abs() < 0.01 && known < young);
    }

    #[test]
    fn a_mean_starts_anew_where_short_intervals_are_many() {
        let mut it = ByHazard::new(BLOCKS);
        let long = code(4.0 * ALL, ALL, 0.0);
        let mut play = |short: u32, of: u32| {
            for at in 0..BLOCKS {
                it.followed(long, if at % of < short { 0.1 * ALL } else { 4.0 * ALL }, 0.0);
            }
            it.followed(long, 0.5 * ALL, 0.0)
        };
        let (anew, slowly) = (code(0.5 * ALL, ALL, 0.0), code(3.125 * ALL, ALL, 0.0));
        assert_eq!(
            (play(1, 10), play(1, 3), play(2, 9), play(1, 10)),
            (slowly, anew, anew, slowly)
        );
    }

    #[test]
    fn every_age_and_mean_has_a_class() {
        let it = ByHazard::new(BLOCKS);
        for mean in 0..=NEW {
            let of = |age| it.class(mean, age);
            assert!(of(0.0) <= of(ALL) && of(ALL) <= of(1e15) && of(1e15) < CLASSES);
        }
        assert_eq!((it.class(0, 0.0), it.class(NEW, 1e15)), (0, CLASSES - 1));
    }

    /// Blocks that live long once they have lived: copies go to colder classes than the mean says.
    #[test]
    fn what_has_rested_goes_to_a_colder_class() {
        let mut it = ByHazard::new(BLOCKS);
        let mut classes = [0; 64];
        let hot: Vec<u32> = (0..64).collect();
        it.of_writes(&hot, &[NEVER; 64], &mut classes);
        for _ in 0..2000 {
            it.of_writes(&hot, &[64; 64], &mut classes);
        }
        assert!(classes.iter().all(|class| *class == 0), "{classes:?}");
        it.of_copies(&hot, &[u64::from(BLOCKS); 64], 0, &mut classes);
        assert!(classes.iter().all(|class| *class >= 5), "{classes:?}");
    }
}

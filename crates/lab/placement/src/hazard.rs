//! Placement by the expected time until the next write, learned from similar blocks ([`ByHazard`]).
//! It keeps one byte per block in addition to the block's age.
//!
//! The byte is an exponential moving average of the intervals between the writes of a block (Stoica
//! and Ailamaki, VLDB 2013, keep a rate per page). Its unit is a 16th of an octave, with random
//! rounding so that small changes have an effect. The average alone is insufficient: a block that
//! has not been written for long may have turned cold, and of two blocks with the same average the
//! one written last may be hot for a while.
//!
//! Therefore a table records how often blocks with a given average and age are written: deaths
//! divided by exposure, as in the tables of life insurers (a hazard rate that is constant in each
//! cell). Each write counts as a death. With each write one random block is counted as exposed. The
//! table decays with a half-life of about 1.4 overwrites of the volume. The class of a write or a
//! copy follows from the rate of its cell, whatever the reason for that rate.
//!
//! The guard detects that the set of hot blocks changes: blocks with long averages are then often
//! written again after short intervals. As long as this lasts, the average of a block restarts when
//! an interval is much shorter than the average.

use hostftl_layers::policy::Dice;

use super::rate::dither;
use super::rule::{NEVER, Placement};

const CLASSES: u8 = 10;
/// Each class is an octave of intervals. The first class ends one octave above this power of two
/// times the number of blocks, and includes all shorter intervals.
const FIRST: f64 = -6.0;
/// Weight of the latest interval in the average.
const SHARE: f64 = 0.25;
/// Average of a block with a single write.
const NEW: u8 = u8::MAX;
/// The lowest average is this power of two times the number of blocks. An octave has [`FINE`]
/// averages.
const LEAST: f64 = -8.0;
const FINE: f64 = 16.0;
/// Averages per row of the table. One additional row is for blocks with a single write.
const ROW: u8 = 8;
const ROWS: usize = 33;
/// Columns of the table are octaves of age. The first ends at this power of two times the number of
/// blocks.
const COLUMNS: usize = 20;
const YOUNGEST: f64 = -9.0;
/// Deaths with which each cell starts, at the rate that the average implies.
const ASSUMED: f64 = 3.0;
/// Factor by which the table decays with each overwrite of the volume.
const KEPT: f64 = 0.6;
/// The average of a block restarts at an interval below the first fraction of it. Intervals below
/// the second count as short.
const BELIED: f64 = 0.25;
const SHORT: f64 = 1.0 / 16.0;
/// Thresholds of the guard, with hysteresis: the share of short intervals of blocks whose average
/// exceeds the size of the volume. With constant rates the share is about 0.1.
const GUARD: (f64, f64) = (0.19, 0.25);
/// Window of that share, in intervals per block of the volume.
const LOOK: f64 = 0.1;

/// Deaths and exposure of blocks by average and age.
#[derive(Clone, Debug)]
struct Table {
    blocks: f64,
    /// Deaths, and host writes survived, for each cell.
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

    /// Counts a random block of this age as exposed. It represents all blocks during one write.
    fn lives(&mut self, mean: u8, age: f64) {
        let at = self.cell(mean, age);
        self.cells[at].1 += self.blocks;
    }

    fn forget(&mut self) {
        self.cells
            .iter_mut()
            .for_each(|(dead, lived)| (*dead, *lived) = (*dead * KEPT, *lived * KEPT));
    }

    /// Returns the number of host writes until a block in this cell is written again, if its rate
    /// remains constant.
    fn interval(&self, mean: u8, age: f64) -> f64 {
        let guess = match mean {
            NEW => self.blocks + age,
            _ => interval(mean, self.blocks).max(age),
        };
        let (dead, lived) = self.cells[self.cell(mean, age)];
        (lived + ASSUMED * guess) / (dead + ASSUMED)
    }
}

/// Detector of changes of the hot set.
#[derive(Clone, Copy, Debug, Default)]
struct Guard {
    share: f64,
    moves: bool,
}

impl Guard {
    /// Records an interval of a block with a long average.
    fn saw(&mut self, short: bool, blocks: f64) {
        self.share += (f64::from(u8::from(short)) - self.share) / (LOOK * blocks).max(64.0);
        self.moves = self.share > if self.moves { GUARD.0 } else { GUARD.1 };
    }
}

/// Placement by hazard rate.
#[derive(Clone, Debug)]
pub struct ByHazard {
    /// Average interval of each block.
    means: Vec<u8>,
    /// Time of the last write of each block. A log that stores ages does not need this field.
    last: Vec<u64>,
    table: Table,
    guard: Guard,
    written: u64,
}

impl ByHazard {
    /// Creates the rule for `blocks` blocks without history.
    pub fn new(blocks: u32) -> Self {
        assert!(blocks > 0, "a log has a block");
        let (means, last) = (vec![NEW; blocks as usize], vec![NEVER; blocks as usize]);
        ByHazard { means, last, table: Table::new(blocks), guard: Guard::default(), written: 0 }
    }

    fn class(&self, mean: u8, age: f64) -> u8 {
        let octave = (self.table.interval(mean, age) / self.table.blocks).log2();
        ((octave - FIRST).max(0.0) as u8).min(CLASSES - 1)
    }

    /// Returns the new average of a block that is written at this age.
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

    /// Counts a random block as exposed.
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

/// Encodes an interval as a byte.
fn code(interval: f64, blocks: f64, dither: f64) -> u8 {
    let fine = ((interval.max(1.0) / blocks).log2() - LEAST) * FINE + dither;
    (fine.max(0.0) as u8).min(NEW - 1)
}

/// Decodes a byte to an interval.
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
    fn a_mean_moves_partially_and_starts_at_the_first_interval() {
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
    fn a_hazard_is_deaths_over_exposure_with_the_mean_as_prior() {
        let mut it = Table::new(BLOCKS);
        let young = it.interval(128, 10.0);
        assert!((young / ALL - 1.0).abs() < 1e-9 && it.interval(128, 4.0 * ALL) > 3.9 * ALL);
        (0..10_000).for_each(|_| it.died(128, 10.0));
        // One of 64 blocks is in this cell during each write.
        (0..10_000 / 64).for_each(|_| it.lives(128, 10.0));
        assert!((it.interval(128, 10.0) / (ALL / 64.0) - 1.0).abs() < 0.03);
        assert!((it.interval(128, ALL) / ALL - 1.0).abs() < 1e-9, "another age is another cell");
        let known = it.interval(128, 10.0);
        (0..40).for_each(|_| it.forget());
        assert!((it.interval(128, 10.0) / young - 1.0).abs() < 0.01 && known < young);
    }

    #[test]
    fn a_mean_restarts_after_repeated_short_intervals() {
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

    /// Blocks that have survived for long: copies go to colder classes than the average implies.
    #[test]
    fn idle_blocks_move_to_a_colder_class() {
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

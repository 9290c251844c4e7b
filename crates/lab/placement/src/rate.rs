//! Classes by write frequency with almost no memory: the only state of a block is the class of the
//! segment that holds it (Stoica and Ailamaki, VLDB 2013, keep a rate per page).
//!
//! Class `i` is for blocks that are written again after 0.1·3ⁱ times the blocks of the volume. With
//! each write, the class moves part of the way towards the class of the block's age. The result is
//! rounded to one of its two neighbours at random, so on average it follows an exponential moving
//! average of the logarithm. A copy moves to a colder class if its age exceeds the interval of its
//! class.
//!
//! The guard detects that the set of hot blocks changes: blocks of cold classes are then often
//! written again early, and their class is no longer meaningful. As long as this lasts, writes of
//! cold blocks go to a separate class, as in SepBIT, and only their next age determines their
//! class.

use hostftl_layers::policy::Dice;

/// Interval of the first class, relative to the blocks of the volume.
const FIRST: f64 = 0.1;
/// Ratio of the intervals of neighbouring classes.
const STEP: f64 = 3.0;
/// Fraction of the distance that a class moves at a write.
const SHARE: f64 = 0.3;
/// Age below which a block that is written again counts as short-lived, relative to the blocks of
/// the volume.
const YOUNG: f64 = 0.17;
/// Thresholds of the guard, with hysteresis: the share of cold writes that are short-lived. With
/// constant rates the share is at most 0.17.
const GUARD: (f64, f64) = (0.20, 0.24);
/// Number of cold writes between two evaluations of the guard: relative to the blocks of the
/// volume, and minimum.
const LOOK: (f64, f64) = (0.02, 64.0);

/// State of a block before a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    class: u8,
    age: f64,
    fresh: bool,
}

impl Known {
    /// Creates the state of a block in a segment of `class`. `age` is the number of host writes
    /// since its last write. `fresh` is true if its page was written by the host, false if it was
    /// copied.
    pub(crate) fn new(class: u8, age: f64, fresh: bool) -> Self {
        assert!(age >= 0.0, "a block was written before it is written again");
        Known { class, age, fresh }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Frequency {
    blocks: f64,
    classes: u8,
    /// Whether the set of hot blocks is changing.
    moves: bool,
    /// Writes to cold classes, and the short-lived ones among them.
    placed: f64,
    died: f64,
}

impl Frequency {
    /// Creates the rule for a volume of `blocks` blocks with `classes` classes, at least 4.
    pub(crate) fn new(blocks: u64, classes: u8) -> Self {
        assert!(classes >= 4, "two classes can't distinguish rates");
        Frequency { blocks: blocks as f64, classes, moves: false, placed: 0.0, died: 0.0 }
    }

    /// Returns the separate class for cold writes while the hot set is changing.
    pub(crate) fn apart(&self) -> u8 {
        self.classes - 1
    }

    fn coldest(&self) -> u8 {
        self.classes - 2
    }

    /// Returns the first cold class.
    fn cold(&self) -> u8 {
        self.classes / 2
    }

    /// Returns the class for blocks of this age, with a fraction.
    fn level(&self, age: f64) -> f64 {
        let level = (age.max(1.0) / (FIRST * self.blocks)).ln() / STEP.ln();
        level.clamp(0.0, f64::from(self.coldest()))
    }

    /// Returns the class of a write; `dither` is in 0..1.
    pub(crate) fn of_write(&self, old: Option<Known>, dither: f64) -> u8 {
        assert!((0.0..1.0).contains(&dither), "a class between two is one of them");
        let level = match old {
            None => f64::from(self.coldest()),
            Some(Known { class, age, .. }) if class == self.apart() => self.level(age),
            Some(Known { class, age, .. }) => {
                let was = f64::from(class.min(self.coldest()));
                was + SHARE * (self.level(age) - was)
            }
        };
        match (level + dither) as u8 {
            class if class >= self.cold() && self.moves => self.apart(),
            class => class.min(self.coldest()),
        }
    }

    /// Returns the class of a copy from a segment of class `from`.
    pub(crate) fn of_copy(&self, from: u8, age: f64, dither: f64) -> u8 {
        let was = if from == self.apart() { self.cold() } else { from.min(self.coldest()) };
        let level = self.level(age).max(f64::from(was));
        ((level + dither) as u8).min(self.coldest())
    }

    /// Records that a block in state `old` was written to `class`.
    pub(crate) fn wrote(&mut self, class: u8, old: Option<Known>) {
        assert!(class < self.classes, "class {class} is not used");
        let young = |old: Known| {
            let cold = (self.cold()..self.classes).contains(&old.class);
            cold && old.fresh && old.age < YOUNG * self.blocks
        };
        self.died += f64::from(u8::from(old.is_some_and(young)));
        if class < self.cold() {
            return;
        }
        self.placed += 1.0;
        if self.placed < (LOOK.0 * self.blocks).max(LOOK.1) {
            return;
        }
        let share = self.died / self.placed;
        self.moves = share > if self.moves { GUARD.0 } else { GUARD.1 };
        (self.placed, self.died) = (self.placed / 2.0, self.died / 2.0);
    }
}

/// Returns a number in 0..1 that is determined by block and time.
pub(crate) fn dither(block: u64, now: u64) -> f64 {
    f64::from(Dice::new(block ^ now.rotate_left(32)).below(1 << 24)) / f64::from(1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u64 = 100_000;

    fn fresh(class: u8, age: f64) -> Option<Known> {
        Some(Known { class, age, fresh: true })
    }

    #[test]
    fn a_class_follows_the_ages_and_is_right_in_the_mean() {
        let it = Frequency::new(BLOCKS, 6);
        assert_eq!(it.of_write(None, 0.0), 4, "what is new is cold");
        assert_eq!(it.of_write(fresh(2, 0.9 * BLOCKS as f64), 0.5), 2, "as it was foretold");
        let hotter = |dither| it.of_write(fresh(3, 10.0), dither);
        assert_eq!((hotter(0.0), hotter(0.95)), (2, 3));
        let mean = (0..1000).map(|at| f64::from(hotter(f64::from(at) / 1000.0))).sum::<f64>();
        assert!((mean / 1000.0 - 2.1).abs() < 0.01, "0.3 of the way from 3 to 0");
        assert_eq!(it.of_write(fresh(u8::MAX, 1e12), 0.9), 4, "of an earlier life");
    }

    #[test]
    fn copies_move_only_to_colder_classes() {
        let it = Frequency::new(BLOCKS, 6);
        assert_eq!(it.of_copy(3, 10.0, 0.0), 3);
        assert_eq!(it.of_copy(1, 0.9 * BLOCKS as f64, 0.5), 2);
        assert_eq!((it.of_copy(0, 1e12, 0.9), it.of_copy(it.apart(), 10.0, 0.0)), (4, 3));
    }

    #[test]
    fn cold_writes_are_apart_as_long_as_they_die_young() {
        let mut it = Frequency::new(BLOCKS, 6);
        let cold = fresh(4, 9.0 * BLOCKS as f64);
        let mut play = |young: u64, of: u64| {
            for at in 0..20_000 {
                let dies = fresh(4, if at % of < young { 100.0 } else { 1e6 });
                it.wrote(4, dies);
            }
            it.of_write(cold, 0.5)
        };
        assert_eq!((play(1, 6), play(1, 3), play(1, 4), play(1, 6)), (4, 5, 5, 4));
        assert_eq!((it.of_write(fresh(5, 10.0), 0.0), it.of_write(cold, 0.0)), (0, 4));
    }

    #[test]
    fn a_few_classes_are_enough() {
        for classes in [4, 6] {
            let mut it = Frequency::new(BLOCKS, classes);
            (0..10_000).for_each(|_| it.wrote(classes - 1, fresh(classes - 1, 1.0)));
            for from in 0..=classes {
                for age in [1.0, 1e4, 1e5, 1e9] {
                    assert!(it.of_write(fresh(from, age), 0.99) < classes);
                    assert!(it.of_copy(from, age, 0.99) < classes);
                }
            }
        }
    }
}

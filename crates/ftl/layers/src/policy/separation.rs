//! Which writes share a segment: what dies together should lie together.
//!
//! With `lifetime` (the idea of SepBIT, FAST 2022) a write of the host is taken to live as long as
//! the version that it replaces: it is hot when that lived shorter than hot segments do. Copies go
//! by where they come from and by how long ago the host wrote them. Of ages only that of a whole
//! segment is known, and in a simulation the exact age of each block was no better.
//!
//! With `rate` both go by how often the host writes the block ([`Rates`]): copies of one segment
//! may go to all classes of copies.
//!
//! Invariant: a class is below [`CLASSES`]; copies and writes share one only under `none`.

use alloc::borrow::ToOwned;
use core::fmt;
use core::str::FromStr;

use super::own::{NAMED_SEPARATIONS, OwnSeparation};
use super::rates::Rates;
use super::words::UnknownWord;

/// Classes of what is written.
pub const CLASSES: usize = 6;
/// The class of hot writes, and of all writes where they are not told apart.
pub const HOT: u8 = 0;
const COLD: u8 = 1;
/// The first class of copies.
const COPIES: u8 = 2;

/// Hot segments whose lifespans make one mean.
const SAMPLE: u32 = 16;

/// What is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separation {
    /// Nothing.
    None,
    /// The host's writes and copies.
    Two,
    /// Writes by how long they will live, copies by how long they have lived.
    Lifetime,
    /// Both by how often the host writes the block.
    Rate,
    /// As a policy says that has a file of its own.
    Own(&'static OwnSeparation),
}

/// See the module text. Ages are in blocks that the host wrote.
#[derive(Clone, Debug)]
pub struct Separator {
    rule: Separation,
    /// Classes of copies.
    copies: u8,
    /// How long hot segments lived lately; all is hot before that is known.
    lifespan: f64,
    sum: f64,
    samples: u32,
    /// Of each block, under `rate`.
    rates: Option<Rates>,
}

impl Separator {
    /// A separator that has seen nothing yet, with at most so many classes: 2, 4 or 6. A policy of
    /// its own file has six or is `two`. Without blocks `rate` is `two`.
    pub fn new(rule: Separation, classes: u8) -> Self {
        Self::of_blocks(rule, classes, 0)
    }

    /// The same, with what `rate` has to know of so many blocks.
    pub fn of_blocks(rule: Separation, classes: u8, blocks: u64) -> Self {
        let rule = Self::ruled(rule, classes, blocks);
        let copies = match rule {
            Separation::Lifetime | Separation::Rate => classes - COPIES,
            _ => 1,
        };
        let rates = (rule == Separation::Rate).then(|| Rates::new(blocks));
        Separator { rule, copies, lifespan: f64::INFINITY, sum: 0.0, samples: 0, rates }
    }

    /// The rule that so few classes and blocks leave.
    fn ruled(rule: Separation, classes: u8, blocks: u64) -> Separation {
        match rule {
            Separation::Lifetime if classes <= COPIES => Separation::Two,
            Separation::Rate if classes <= COPIES || blocks == 0 => Separation::Two,
            Separation::Own(_) if usize::from(classes) < CLASSES => Separation::Two,
            rule => rule,
        }
    }

    /// Bytes of what is known of so many blocks.
    pub fn memory(rule: Separation, classes: u8, blocks: u64) -> u64 {
        match Self::ruled(rule, classes, blocks) {
            Separation::Rate => Rates::memory(blocks),
            _ => 0,
        }
    }

    /// Whether copies from one segment may be of several classes.
    pub fn tells_blocks_apart(&self) -> bool {
        self.rates.is_some()
    }

    /// The class of a write of the host to a block, which replaces a version of such an age, if
    /// any.
    #[inline]
    pub fn of_write_to(&self, block: u64, replaced: Option<f64>) -> u8 {
        match (&self.rates, replaced) {
            (Some(rates), _) if rates.is_hot(block, replaced) => HOT,
            (Some(_), _) => COLD,
            (None, Some(age)) => self.of_write(age),
            (None, None) => self.of_new(),
        }
    }

    /// The class of a copy of a block, from a segment of class `from` and such an age.
    #[inline]
    pub fn of_copy_of(&self, block: u64, from: u8, age: f64) -> u8 {
        match &self.rates {
            Some(rates) => COPIES + rates.coldness(block, age).min(self.copies - 1),
            None => self.of_copy(from, age),
        }
    }

    /// The host wrote a block, and replaced a version of such an age, if any.
    #[inline]
    pub fn wrote(&mut self, block: u64, replaced: Option<f64>) {
        if let Some(rates) = &mut self.rates {
            rates.wrote(block, replaced);
        }
    }

    /// Whether anything may come to a class.
    pub fn uses(&self, class: u8) -> bool {
        match self.rule {
            Separation::None => class == HOT,
            Separation::Two => class == HOT || class == COPIES,
            Separation::Lifetime | Separation::Rate => class < COPIES + self.copies,
            Separation::Own(_) => usize::from(class) < CLASSES,
        }
    }

    /// The class of a write of the host that replaces a version of such an age.
    pub fn of_write(&self, age: f64) -> u8 {
        if let Separation::Own(own) = self.rule {
            return self.own_write(own, Some(age));
        }
        let cold = self.rule == Separation::Lifetime && age >= self.lifespan;
        if cold { COLD } else { HOT }
    }

    /// The class of what replaces nothing, of blocks that nothing is known of, and of trims.
    pub fn of_new(&self) -> u8 {
        if let Separation::Own(own) = self.rule {
            return self.own_write(own, None);
        }
        match self.rule {
            Separation::Lifetime | Separation::Rate => COLD,
            _ => HOT,
        }
    }

    fn own_write(&self, own: &OwnSeparation, age: Option<f64>) -> u8 {
        let class = (own.of_write)(age, self.lifespan);
        assert!(class < COPIES, "{}: class {class} is none of the host's writes", own.word);
        class
    }

    /// The class of a copy from a segment of class `from` and such an age.
    pub fn of_copy(&self, from: u8, age: f64) -> u8 {
        let bounds = [4.0, 16.0];
        let old = || bounds.iter().filter(|bound| age >= *bound * self.lifespan).count() as u8;
        match self.rule {
            Separation::None => HOT,
            Separation::Two | Separation::Rate => COPIES,
            Separation::Lifetime if from == HOT => COPIES,
            Separation::Lifetime => COPIES + (1 + old()).min(self.copies - 1),
            Separation::Own(own) => {
                let class = (own.of_copy)(from, age, self.lifespan);
                let is_of_copies = (usize::from(COPIES)..CLASSES).contains(&class.into());
                assert!(is_of_copies, "{}: class {class} is none of copies", own.word);
                class
            }
        }
    }

    /// A segment was emptied when the writes in it were of such an age.
    pub fn emptied(&mut self, class: u8, age: f64) {
        if class != HOT {
            return;
        }
        self.sum += age;
        self.samples += 1;
        if self.samples == SAMPLE {
            self.lifespan = self.sum / f64::from(SAMPLE);
            (self.sum, self.samples) = (0.0, 0);
        }
    }
}

impl Separation {
    /// What stands for its word in help.
    pub const WORDS: &'static str = "none|two|lifetime|rate";
    /// The words that there are, for messages.
    pub const KNOWN: &'static str = "none, two, lifetime or rate";
}

impl FromStr for Separation {
    type Err = UnknownWord;

    /// Reads `none`, `two`, `lifetime` or `rate`.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "none" => Ok(Separation::None),
            "two" => Ok(Separation::Two),
            "lifetime" => Ok(Separation::Lifetime),
            "rate" => Ok(Separation::Rate),
            other => {
                let own = NAMED_SEPARATIONS.iter().find(|own| own.word == other);
                own.map(|own| Separation::Own(own)).ok_or_else(|| UnknownWord {
                    key: "separation",
                    value: other.to_owned(),
                    known: Separation::KNOWN,
                })
            }
        }
    }
}

impl fmt::Display for Separation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Separation::None => "none",
            Separation::Two => "two",
            Separation::Lifetime => "lifetime",
            Separation::Rate => "rate",
            Separation::Own(own) => own.word,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were() {
        for word in ["none", "two", "lifetime", "rate"] {
            assert_eq!(alloc::format!("{}", word.parse::<Separation>().unwrap()), word);
        }
        assert!("three".parse::<Separation>().is_err());
    }

    #[test]
    fn a_write_is_hot_when_what_it_replaces_lived_shorter_than_hot_segments_do() {
        let mut it = Separator::new(Separation::Lifetime, 6);
        assert_eq!(it.of_write(1e12), HOT, "nothing is known yet");
        (0..SAMPLE).for_each(|_| it.emptied(HOT, 100.0));
        assert_eq!((it.of_write(99.0), it.of_write(100.0)), (HOT, COLD));
        (0..SAMPLE).for_each(|_| it.emptied(COLD, 900.0));
        assert_eq!(it.of_write(200.0), COLD, "only hot segments count");
        (0..SAMPLE).for_each(|_| it.emptied(HOT, 300.0));
        assert_eq!(it.of_write(200.0), HOT, "the mean follows");
    }

    #[test]
    fn copies_go_by_where_they_come_from_and_by_age() {
        let mut it = Separator::new(Separation::Lifetime, 6);
        (0..SAMPLE).for_each(|_| it.emptied(HOT, 100.0));
        assert_eq!(it.of_copy(HOT, 1e12), COPIES);
        let ages = [399.0, 400.0, 1599.0, 1600.0];
        assert_eq!(ages.map(|age| it.of_copy(COLD, age)), [3, 4, 4, 5]);
        let few = Separator { copies: 2, ..it.clone() };
        assert_eq!(ages.map(|age| few.of_copy(4, age)), [3; 4]);
    }

    #[test]
    fn nothing_comes_to_a_class_that_is_not_used() {
        for (rule, classes, used) in [
            (Separation::None, 6, 1),
            (Separation::Two, 6, 2),
            (Separation::Lifetime, 2, 2),
            (Separation::Lifetime, 4, 4),
            (Separation::Lifetime, 6, 6),
        ] {
            let mut it = Separator::new(rule, classes);
            (0..SAMPLE).for_each(|_| it.emptied(HOT, 10.0));
            assert_eq!((0..CLASSES as u8).filter(|class| it.uses(*class)).count(), used);
            for age in [0.0, 10.0, 50.0, 1e9] {
                assert!(it.uses(it.of_write(age)) && it.uses(it.of_new()));
                let from = (0..CLASSES as u8).filter(|class| it.uses(*class));
                from.for_each(|from| assert!(it.uses(it.of_copy(from, age))));
            }
        }
    }

    #[test]
    fn by_rates_copies_of_one_segment_go_to_all_classes_of_copies() {
        let mut it = Separator::of_blocks(Separation::Rate, 6, 100);
        let intervals = [10.0, 100.0, 200.0, 900.0];
        for (block, interval) in (0..).zip(intervals) {
            assert_eq!(it.of_write_to(block, None), COLD, "nothing is known yet");
            it.wrote(block, Some(interval));
        }
        assert!(it.tells_blocks_apart());
        assert_eq!([0, 1, 2, 3].map(|block| it.of_write_to(block, None)), [HOT, COLD, COLD, COLD]);
        assert_eq!([0, 1, 2, 3].map(|block| it.of_copy_of(block, HOT, 5.0)), [2, 3, 4, 5]);
        it.copies = 2;
        assert_eq!([0, 1, 2, 3].map(|block| it.of_copy_of(block, HOT, 5.0)), [2, 3, 3, 3]);
        let used = |classes, blocks| {
            let it = Separator::of_blocks(Separation::Rate, classes, blocks);
            let used = (0..CLASSES as u8).filter(|class| it.uses(*class)).count();
            (used, Separator::memory(Separation::Rate, classes, blocks))
        };
        assert_eq!(
            (used(6, 9), used(4, 9), used(2, 9), used(6, 0)),
            ((6, 9), (4, 9), (2, 0), (2, 0))
        );
    }
}

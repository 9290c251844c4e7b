//! Write separation: data with similar lifetimes should share a segment.
//!
//! `lifetime` follows the idea of SepBIT (FAST 2022). A host write is expected to live as long as
//! the version that it replaces. It is hot if that version lived for a shorter time than hot
//! segments do. Copies are classified by the class of their segment and by the time since the host
//! wrote them. Only the age of a whole segment is known; in simulations the exact age of each block
//! gave no better result.
//!
//! `rate` classifies both by the rate at which the host writes the block ([`Rates`]). Copies from
//! one segment may then go to all classes of copies.
//!
//! Invariant: a class is below [`CLASSES`]; copies and host writes share a class only under `none`.

use alloc::borrow::ToOwned;
use core::fmt;
use core::str::FromStr;

use super::own::{NAMED_SEPARATIONS, OwnSeparation};
use super::rates::Rates;
use super::words::UnknownWord;

/// Number of classes.
pub const CLASSES: usize = 6;
/// Class of hot writes, and of all writes if they are not separated.
pub const HOT: u8 = 0;
const COLD: u8 = 1;
/// First class of copies.
const COPIES: u8 = 2;

/// Number of hot segments whose mean lifespan is taken.
const SAMPLE: u32 = 16;

/// Criterion of separation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separation {
    /// No separation.
    None,
    /// One stream that the host and garbage collection fill in turn, segment by segment.
    Phases,
    /// Separates host writes from copies.
    Two,
    /// Separates host writes by expected lifetime, and copies by age.
    Lifetime,
    /// Separates both by the rate at which the host writes the block.
    Rate,
    /// Separates by a policy in a file of its own.
    Own(&'static OwnSeparation),
}

/// State of a separation. Ages are in blocks written by the host.
#[derive(Clone, Debug)]
pub struct Separator {
    rule: Separation,
    /// Number of classes of copies.
    copies: u8,
    /// Recent mean lifespan of hot segments; infinite at first, so that all writes are hot.
    lifespan: f64,
    sum: f64,
    samples: u32,
    /// Rate of each block, under `rate`.
    rates: Option<Rates>,
}

impl Separation {
    /// Returns the separation that is possible with this number of classes and blocks.
    pub(crate) fn acting(self, classes: u8, blocks: u64) -> Separation {
        Separator::ruled(self, classes, blocks)
    }
}

impl Separator {
    /// Creates a separator with at most `classes` classes: 2, 4 or 6. A policy in a file of its own
    /// needs six, and otherwise becomes `two`. Without blocks, `rate` also becomes `two`.
    pub fn new(rule: Separation, classes: u8) -> Self {
        Self::with_blocks(rule, classes, 0)
    }

    /// Creates a separator with the state that `rate` needs for `blocks` blocks.
    pub fn with_blocks(rule: Separation, classes: u8, blocks: u64) -> Self {
        assert!(classes >= COPIES && usize::from(classes) <= CLASSES, "2, 4 or 6 classes");
        let rule = Self::ruled(rule, classes, blocks);
        let copies = match rule {
            Separation::Lifetime | Separation::Rate => classes - COPIES,
            _ => 1,
        };
        let rates = (rule == Separation::Rate).then(|| Rates::new(blocks));
        Separator { rule, copies, lifespan: f64::INFINITY, sum: 0.0, samples: 0, rates }
    }

    /// Returns the rule that is possible with this number of classes and blocks.
    fn ruled(rule: Separation, classes: u8, blocks: u64) -> Separation {
        match rule {
            Separation::Lifetime if classes <= COPIES => Separation::Two,
            Separation::Rate if classes <= COPIES || blocks == 0 => Separation::Two,
            Separation::Own(_) if usize::from(classes) < CLASSES => Separation::Two,
            rule => rule,
        }
    }

    /// Returns the bytes of the state for `blocks` blocks.
    pub fn memory(rule: Separation, classes: u8, blocks: u64) -> u64 {
        match Self::ruled(rule, classes, blocks) {
            Separation::Rate => Rates::memory(blocks),
            _ => 0,
        }
    }

    /// Returns whether copies from one segment may belong to several classes.
    pub fn separates_blocks(&self) -> bool {
        self.rates.is_some()
    }

    /// Returns the class of a host write to a block. `replaced` is the age of the version that it
    /// replaces, if any.
    #[inline]
    pub fn for_write_to(&self, block: u64, replaced: Option<f64>) -> u8 {
        match (&self.rates, replaced) {
            (Some(rates), _) if rates.is_hot(block, replaced) => HOT,
            (Some(_), _) => COLD,
            (None, Some(age)) => self.for_write(age),
            (None, None) => self.for_new(),
        }
    }

    /// Returns the class of a copy of a block, from a segment of class `from` and age `age`.
    #[inline]
    pub fn for_copy_from(&self, block: u64, from: u8, age: f64) -> u8 {
        match &self.rates {
            Some(rates) => COPIES + rates.coldness(block, age).min(self.copies - 1),
            None => self.for_copy(from, age),
        }
    }

    /// Notes a host write to a block. `replaced` is the age of the version that it replaced, if
    /// any.
    #[inline]
    pub fn wrote(&mut self, block: u64, replaced: Option<f64>) {
        if let Some(rates) = &mut self.rates {
            rates.wrote(block, replaced);
        }
    }

    /// Returns whether a class may receive data.
    pub fn uses(&self, class: u8) -> bool {
        match self.rule {
            Separation::None | Separation::Phases => class == HOT,
            Separation::Two => class == HOT || class == COPIES,
            Separation::Lifetime | Separation::Rate => class < COPIES + self.copies,
            Separation::Own(_) => usize::from(class) < CLASSES,
        }
    }

    /// Returns the class of a host write that replaces a version of age `age`.
    pub fn for_write(&self, age: f64) -> u8 {
        if let Separation::Own(own) = self.rule {
            return self.own_write(own, Some(age));
        }
        let cold = self.rule == Separation::Lifetime && age >= self.lifespan;
        if cold { COLD } else { HOT }
    }

    /// Returns the class of a write that replaces nothing, of an unknown block, and of a trim.
    pub fn for_new(&self) -> u8 {
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
        assert!(class < COPIES, "{}: class {class} does not belong to host writes", own.word);
        class
    }

    /// Returns the class of a copy from a segment of class `from` and age `age`.
    pub fn for_copy(&self, from: u8, age: f64) -> u8 {
        let bounds = [4.0, 16.0];
        let old = || bounds.iter().filter(|bound| age >= *bound * self.lifespan).count() as u8;
        match self.rule {
            Separation::None | Separation::Phases => HOT,
            Separation::Two | Separation::Rate => COPIES,
            Separation::Lifetime if from == HOT => COPIES,
            Separation::Lifetime => COPIES + (1 + old()).min(self.copies - 1),
            Separation::Own(own) => {
                let class = (own.of_copy)(from, age, self.lifespan);
                let is_of_copies = (usize::from(COPIES)..CLASSES).contains(&class.into());
                assert!(is_of_copies, "{}: class {class} does not belong to copies", own.word);
                class
            }
        }
    }

    /// Notes that a segment was emptied when its data had age `age`.
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
    /// Returns the maximum number of classes that have a stream of their own; one with phases.
    pub(crate) fn classes(self) -> u8 {
        match self {
            Separation::Phases => 1,
            Separation::None | Separation::Two => 2,
            Separation::Lifetime | Separation::Rate | Separation::Own(_) => CLASSES as u8,
        }
    }

    /// Placeholder for the word in help texts.
    pub const WORDS: &'static str = "auto|none|phases|two|lifetime|rate";
    /// List of the words, for messages.
    pub const KNOWN: &'static str = "auto, none, phases, two, lifetime or rate";
}

impl FromStr for Separation {
    type Err = UnknownWord;

    /// Parses `none`, `two`, `lifetime` or `rate`.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "none" => Ok(Separation::None),
            "phases" => Ok(Separation::Phases),
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
            Separation::Phases => "phases",
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
    fn words_round_trip() {
        for word in ["none", "two", "lifetime", "rate"] {
            assert_eq!(alloc::format!("{}", word.parse::<Separation>().unwrap()), word);
        }
        assert!("three".parse::<Separation>().is_err());
    }

    #[test]
    fn a_write_is_hot_if_its_predecessor_was_short_lived() {
        let mut it = Separator::new(Separation::Lifetime, 6);
        assert_eq!(it.for_write(1e12), HOT, "nothing is known yet");
        (0..SAMPLE).for_each(|_| it.emptied(HOT, 100.0));
        assert_eq!((it.for_write(99.0), it.for_write(100.0)), (HOT, COLD));
        (0..SAMPLE).for_each(|_| it.emptied(COLD, 900.0));
        assert_eq!(it.for_write(200.0), COLD, "only hot segments count");
        (0..SAMPLE).for_each(|_| it.emptied(HOT, 300.0));
        assert_eq!(it.for_write(200.0), HOT, "the mean follows");
    }

    #[test]
    fn copies_are_classified_by_origin_and_age() {
        let mut it = Separator::new(Separation::Lifetime, 6);
        (0..SAMPLE).for_each(|_| it.emptied(HOT, 100.0));
        assert_eq!(it.for_copy(HOT, 1e12), COPIES);
        let ages = [399.0, 400.0, 1599.0, 1600.0];
        assert_eq!(ages.map(|age| it.for_copy(COLD, age)), [3, 4, 4, 5]);
        let few = Separator { copies: 2, ..it.clone() };
        assert_eq!(ages.map(|age| few.for_copy(4, age)), [3; 4]);
    }

    #[test]
    fn unused_classes_receive_no_data() {
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
                assert!(it.uses(it.for_write(age)) && it.uses(it.for_new()));
                let from = (0..CLASSES as u8).filter(|class| it.uses(*class));
                from.for_each(|from| assert!(it.uses(it.for_copy(from, age))));
            }
        }
    }

    #[test]
    fn rates_spread_copies_over_all_copy_classes() {
        let mut it = Separator::with_blocks(Separation::Rate, 6, 100);
        let intervals = [10.0, 100.0, 200.0, 900.0];
        for (block, interval) in (0..).zip(intervals) {
            assert_eq!(it.for_write_to(block, None), COLD, "nothing is known yet");
            it.wrote(block, Some(interval));
        }
        assert!(it.separates_blocks());
        assert_eq!([0, 1, 2, 3].map(|block| it.for_write_to(block, None)), [HOT, COLD, COLD, COLD]);
        assert_eq!([0, 1, 2, 3].map(|block| it.for_copy_from(block, HOT, 5.0)), [2, 3, 4, 5]);
        it.copies = 2;
        assert_eq!([0, 1, 2, 3].map(|block| it.for_copy_from(block, HOT, 5.0)), [2, 3, 3, 3]);
        let used = |classes, blocks| {
            let it = Separator::with_blocks(Separation::Rate, classes, blocks);
            let used = (0..CLASSES as u8).filter(|class| it.uses(*class)).count();
            (used, Separator::memory(Separation::Rate, classes, blocks))
        };
        assert_eq!(
            (used(6, 9), used(4, 9), used(2, 9), used(6, 0)),
            ((6, 9), (4, 9), (2, 0), (2, 0))
        );
    }
}

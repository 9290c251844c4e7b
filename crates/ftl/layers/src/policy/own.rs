//! Victim policies and placement policies in files of their own: what they implement, and how they
//! are named.
//!
//! docs/HACKING.md has the recipes, and `crates/ftl/layers/tests/suite/own_policy.rs` one of each.

use alloc::boxed::Box;
use core::fmt::Debug;

/// What a victim policy is told, and what it is asked. Each sealed segment is known by its number;
/// `now` and all ages are in host writes, so that every clock picks alike.
///
/// What it is told costs O(1), what it is asked at most O(pages of a segment).
pub trait VictimPolicy: Debug + Send + Sync {
    /// A segment was filled; `valid` of its pages still count.
    fn sealed(&mut self, segment: u32, valid: u32, now: u64);

    /// A sealed segment has `valid` pages that count from now on.
    fn changed(&mut self, segment: u32, valid: u32, now: u64);

    /// A sealed segment is collected and no longer sealed.
    fn freed(&mut self, segment: u32);

    /// The sealed segment to collect next, `None` when there is none; `valid` tells how many pages
    /// of one count. Asked twice with nothing told between, the answer is the same.
    fn pick(&self, now: u64, valid: &dyn Fn(u32) -> u32) -> Option<u32>;

    /// Tells the numbers from which [`VictimPolicy::load`] makes a policy that picks as this one:
    /// a saved drive model keeps them.
    fn save(&self, put: &mut dyn FnMut(u64));

    /// Takes up what was saved, when nothing is sealed; `None` when the numbers that `take` gives
    /// can't be those of such a policy.
    fn load(&mut self, take: &mut dyn FnMut() -> Option<u64>) -> Option<()>;
}

/// The name of such a policy, and how it is made.
#[derive(Debug)]
pub struct OwnPolicy {
    /// Its word, as in `gc=WORD`. Two policies are the same if their words are.
    pub word: &'static str,
    /// Makes one for so many segments of so many pages, none of them sealed.
    pub new: fn(segments: u32, pages: u32) -> Box<dyn VictimPolicy>,
    /// Bytes of all its tables.
    pub memory: fn(segments: u32, pages: u32) -> u64,
}

impl PartialEq for OwnPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl Eq for OwnPolicy {}

/// A placement policy: which writes share a segment. Ages and the lifespan are in blocks that the
/// host wrote; the lifespan is that of hot segments lately, infinite before one is known.
#[derive(Debug)]
pub struct OwnSeparation {
    /// Its word, as in `separation=WORD`. Two policies are the same if their words are.
    pub word: &'static str,
    /// The class of a write of the host that replaces a version of such an age, `None` for one that
    /// replaces nothing, and for trims: 0, which is hot, or 1.
    pub of_write: fn(age: Option<f64>, lifespan: f64) -> u8,
    /// The class of a copy from a segment of class `from` and such an age: 2 to 5.
    pub of_copy: fn(from: u8, age: f64, lifespan: f64) -> u8,
}

impl PartialEq for OwnSeparation {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl Eq for OwnSeparation {}

/// The placement policies of this kind that users may choose by their words.
pub(super) const NAMED_SEPARATIONS: &[&OwnSeparation] = &[];

/// The victim policies of this kind that users may choose by their words.
pub(super) const NAMED: &[&OwnPolicy] = &[];

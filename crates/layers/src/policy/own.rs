//! A victim policy in a file of its own: what it implements, and how it is named.
//!
//! docs/HACKING.md has the recipe, and `crates/layers/tests/suite/own_policy.rs` one that is whole.

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

/// The policies of this kind that users may choose by their words.
pub const NAMED: &[&OwnPolicy] = &[];

//! Interface of victim policies and placement policies in files of their own.
//!
//! docs/HACKING.md has the recipes, and `crates/ftl/layers/tests/suite/own_policy.rs` an example of
//! each.

use alloc::boxed::Box;
use core::fmt::Debug;

/// A victim policy. Sealed segments are identified by number. `now` and all ages are in host
/// writes, so the choice does not depend on a clock.
///
/// Notifications cost O(1), and a choice at most O(pages per segment).
pub trait VictimPolicy: Debug + Send + Sync {
    /// Notes that a segment was filled; `valid` of its pages are valid.
    fn sealed(&mut self, segment: u32, valid: u32, now: u64);

    /// Notes that a sealed segment now has `valid` valid pages.
    fn changed(&mut self, segment: u32, valid: u32, now: u64);

    /// Removes a segment that is collected from the sealed ones.
    fn freed(&mut self, segment: u32);

    /// Returns the sealed segment to collect next, or `None` if there is none. `valid` returns the
    /// valid pages of a segment. Without a notification in between, the result is always the same.
    fn pick(&self, now: u64, valid: &dyn Fn(u32) -> u32) -> Option<u32>;

    /// Writes the numbers from which [`VictimPolicy::load`] restores an equivalent policy. They are
    /// part of a saved drive model.
    fn save(&self, put: &mut dyn FnMut(u64));

    /// Restores the saved state while nothing is sealed. Returns `None` if the numbers from `take`
    /// are not a valid state.
    fn load(&mut self, take: &mut dyn FnMut() -> Option<u64>) -> Option<()>;
}

/// Name and constructor of a victim policy.
#[derive(Debug)]
pub struct OwnPolicy {
    /// Word of the policy, as in `gc=WORD`. Policies with the same word are equal.
    pub word: &'static str,
    /// Creates a policy for a number of segments and of pages per segment, with none of them
    /// sealed.
    pub new: fn(segments: u32, pages: u32) -> Box<dyn VictimPolicy>,
    /// Returns the bytes of all tables.
    pub memory: fn(segments: u32, pages: u32) -> u64,
}

impl PartialEq for OwnPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl Eq for OwnPolicy {}

/// A placement policy: the choice of writes that share a segment. Ages and the lifespan are in
/// blocks written by the host. The lifespan is the recent mean of hot segments, infinite before one
/// is known.
#[derive(Debug)]
pub struct OwnSeparation {
    /// Word of the policy, as in `separation=WORD`. Policies with the same word are equal.
    pub word: &'static str,
    /// Returns the class of a host write, 0 (hot) or 1. `age` is that of the version it replaces,
    /// or `None` for a write that replaces nothing and for a trim.
    pub of_write: fn(age: Option<f64>, lifespan: f64) -> u8,
    /// Returns the class of a copy, 2 to 5, from a segment of class `from` and age `age`.
    pub of_copy: fn(from: u8, age: f64, lifespan: f64) -> u8,
}

impl PartialEq for OwnSeparation {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl Eq for OwnSeparation {}

/// Placement policies of this kind that users can choose by word.
pub(super) const NAMED_SEPARATIONS: &[&OwnSeparation] = &[];

/// Victim policies of this kind that users can choose by word.
pub(super) const NAMED: &[&OwnPolicy] = &[];

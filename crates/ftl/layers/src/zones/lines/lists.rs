//! The block lists of each parallel unit, as `gennvm` and `rrpc` keep them: free, full and bad.
//!
//! Of the free segments the one with the fewest erases is used next, of equal ones the one that
//! came back first; or always the one that came back first, as `gennvm` has it. Two of a unit's are
//! reserved: below that only collection gets one. A segment that failed is retired when it would
//! come back. With `pblk` there is one list over all units, of lines, and nothing is reserved in
//! it.
//!
//! Invariants
//! - A segment is in at most one list; what is in none is open, being collected, or on its way
//!   back.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::zones::layout::Layout;
use crate::zones::params::Reuse;

/// Free segments of a unit that only collection gets.
const RESERVED: usize = 2;
/// `rrpc` collects below this share of a unit's segments, one in so many.
const LIMIT: u32 = 10;

/// Who wants a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The host.
    Host,
    /// Collection, or somebody who can't wait.
    Collection,
}

/// A free segment; the least is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    /// Its erases, where they count.
    wear: u32,
    /// How many segments came back before it.
    turn: u64,
    segment: u32,
}

/// One parallel unit.
#[derive(Clone, Debug)]
struct Unit {
    free: BinaryHeap<Reverse<Free>>,
    /// Those that may be collected, in the order in which they were filled.
    full: VecDeque<u32>,
    /// On their way to be free.
    coming: u32,
    bad: u32,
}

#[derive(Debug)]
pub(super) struct Lists {
    units: Vec<Unit>,
    reuse: Reuse,
    /// How many segments came back.
    turn: u64,
    reserved: usize,
    /// With fewer free segments a unit is collected.
    need: u32,
}

impl Lists {
    /// Nothing is free yet: all is on its way.
    pub(super) fn new(layout: &Layout, reuse: Reuse) -> Self {
        let each = layout.lines / layout.fronts;
        let full = || VecDeque::with_capacity(each as usize);
        let free = || BinaryHeap::with_capacity(each as usize);
        let unit = || Unit { free: free(), full: full(), coming: 0, bad: 0 };
        Lists {
            units: (0..layout.fronts).map(|_| unit()).collect(),
            reuse,
            turn: 0,
            reserved: if layout.wide { 0 } else { RESERVED },
            need: if layout.wide { 0 } else { (each / LIMIT).max(layout.fronts) },
        }
    }

    /// Bytes for a segment.
    pub(super) const EACH: usize = size_of::<Free>() + size_of::<u32>();

    /// Takes the free segment of a unit that is next.
    pub(super) fn get(&mut self, unit: u32, who: Who) -> Option<u32> {
        let it = &mut self.units[unit as usize];
        if who == Who::Host && it.free.len() < self.reserved {
            return None;
        }
        it.free.pop().map(|Reverse(free)| free.segment)
    }

    /// A segment will be free.
    pub(super) fn await_one(&mut self, unit: u32) {
        self.units[unit as usize].coming += 1;
    }

    /// A segment with so many erases is free, or is retired because it failed.
    pub(super) fn put(&mut self, unit: u32, (segment, erases): (u32, u32), failed: bool) {
        let wear = if self.reuse == Reuse::FewestErases { erases } else { 0 };
        let it = &mut self.units[unit as usize];
        it.coming -= 1;
        if failed {
            it.bad += 1
        } else {
            it.free.push(Reverse(Free { wear, turn: self.turn, segment }))
        }
        self.turn += 1;
    }

    /// Free segments of a unit.
    pub(super) fn free_of(&self, unit: u32) -> u32 {
        self.units[unit as usize].free.len() as u32
    }

    /// All free segments.
    pub(super) fn free(&self) -> u32 {
        self.units.iter().map(|it| it.free.len() as u32).sum()
    }

    /// The unit with the most free segments.
    pub(super) fn freest(&self) -> u32 {
        let units = 0..self.units.len() as u32;
        units.max_by_key(|unit| self.free_of(*unit)).expect("there is a unit")
    }

    /// Whether a unit has fewer free segments than it needs.
    pub(super) fn any_in_need(&self) -> bool {
        self.units.iter().any(|it| (it.free.len() as u32 + it.coming) < self.need)
    }

    /// A segment may be collected from now on.
    pub(super) fn offer(&mut self, unit: u32, segment: u32) {
        self.units[unit as usize].full.push_back(segment);
    }

    /// A segment may not be collected any more.
    pub(super) fn withdraw(&mut self, unit: u32, segment: u32) {
        let full = &mut self.units[unit as usize].full;
        let index = full.iter().position(|it| *it == segment).expect("it was offered");
        full.remove(index);
    }

    /// Of the unit with the fewest free segments that has any which `fits`, the one with the least
    /// `valid`, and of equal ones the one that was filled first.
    pub(super) fn most_invalid(
        &self,
        fits: impl Fn(u32) -> bool,
        valid: impl Fn(u32) -> u32,
    ) -> Option<u32> {
        let of = |it: &Unit| {
            let listed = it.full.iter().copied().filter(|segment| fits(*segment));
            Some((it.free.len(), listed.min_by_key(|segment| valid(*segment))?))
        };
        let found = self.units.iter().filter_map(of).min_by_key(|(free, _)| *free);
        found.map(|(_, segment)| segment)
    }

    /// Whether the lists have so many segments, of which so many are none of theirs now.
    pub(super) fn add_up_to(&self, all: u32, elsewhere: u32) -> bool {
        let of = |it: &Unit| (it.free.len() + it.full.len()) as u32 + it.coming + it.bad;
        self.units.iter().map(of).sum::<u32>() + elsewhere == all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists_by(reuse: Reuse, free: u32) -> Lists {
        let unit = Unit { free: BinaryHeap::new(), full: VecDeque::new(), coming: 0, bad: 0 };
        let units = alloc::vec![unit; 2];
        let mut lists = Lists { units, reuse, turn: 0, reserved: RESERVED, need: 4 };
        for segment in 0..2 * free {
            lists.await_one(segment % 2);
            lists.put(segment % 2, (segment, 7), false);
        }
        lists
    }

    fn lists(free: u32) -> Lists {
        lists_by(Reuse::FewestErases, free)
    }

    /// Segment 0 is erased three times and comes back each time, 2 twice, 4 not at all.
    fn order_after_wear(reuse: Reuse) -> [Option<u32>; 3] {
        let mut lists = lists_by(reuse, 3);
        let taken = [0, 2, 4].map(|_| lists.get(0, Who::Collection).expect("three are free"));
        assert_eq!(taken, [0, 2, 4], "equal ones in the order in which they came back");
        for (segment, erases) in [(0, 10), (2, 9), (4, 7)] {
            lists.await_one(0);
            lists.put(0, (segment, erases), false);
        }
        taken.map(|_| lists.get(0, Who::Collection))
    }

    #[test]
    fn the_one_with_the_fewest_erases_goes_first_unless_the_order_is_that_of_gennvm() {
        assert_eq!(order_after_wear(Reuse::FewestErases), [Some(4), Some(2), Some(0)]);
        assert_eq!(order_after_wear(Reuse::Fifo), [Some(0), Some(2), Some(4)]);
    }

    #[test]
    fn two_are_kept_for_collection_and_the_oldest_of_equal_ones_goes_first() {
        let mut lists = lists(3);
        assert_eq!(lists.get(0, Who::Host), Some(0));
        assert_eq!(lists.get(0, Who::Host), Some(2));
        assert_eq!(lists.get(0, Who::Host), None, "one is left");
        assert_eq!(lists.get(1, Who::Host), Some(1), "each unit has its own");
        assert_eq!(lists.get(0, Who::Collection), Some(4));
        assert_eq!(lists.get(0, Who::Collection), None);
        assert_eq!((lists.free_of(0), lists.free(), lists.freest()), (0, 2, 1));
    }

    #[test]
    fn what_failed_does_not_come_back() {
        let mut lists = lists(4);
        assert!(!lists.any_in_need());
        let taken = lists.get(0, Who::Host).unwrap();
        assert!(lists.any_in_need(), "three are fewer than four");
        lists.await_one(0);
        assert!(!lists.any_in_need(), "one is on its way");
        lists.put(0, (taken, 8), true);
        assert!(lists.any_in_need() && lists.free_of(0) == 3);
        assert!(lists.add_up_to(8, 0) && !lists.add_up_to(8, 1));
    }

    #[test]
    fn the_most_invalid_is_taken_and_the_earliest_of_equal_ones() {
        let mut lists = lists(3);
        let valid = [0, 0, 9, 5, 7, 5, 1, 8];
        let valid = |segment: u32| valid[segment as usize];
        for segment in [3, 7, 5] {
            lists.offer(1, segment);
        }
        assert_eq!(lists.most_invalid(|_| true, valid), Some(3), "as valid as 5, and earlier");
        assert_eq!(lists.most_invalid(|segment| segment != 3, valid), Some(5));
        for segment in [2, 4, 6] {
            lists.offer(0, segment);
        }
        lists.get(1, Who::Host);
        assert_eq!(lists.most_invalid(|_| true, valid), Some(3), "its unit has less room");
        lists.withdraw(1, 3);
        lists.withdraw(1, 5);
        lists.withdraw(1, 7);
        assert_eq!(lists.most_invalid(|_| true, valid), Some(6));
        assert_eq!(lists.most_invalid(|_| false, valid), None);
    }
}

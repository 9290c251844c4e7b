//! Block lists of each parallel unit, as in `gennvm` and `rrpc`: free, full and bad.
//!
//! The next free segment is the one with the fewest erases, among equals the one that has been free
//! longest; or, as in `gennvm`, always the one that has been free longest. Two segments of each
//! unit are reserved for garbage collection. A failed segment is retired instead of becoming free.
//! `pblk` has one list of lines over all units, without a reserve.
//!
//! Invariants
//! - A segment is in at most one list. A segment in no list is open, being collected, or being
//!   freed.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::zones::layout::Layout;
use crate::zones::params::Reuse;

/// Free segments of a unit that only garbage collection may take.
const RESERVED: usize = 2;
/// Divisor of a unit's segments: `rrpc` collects when fewer than this share are free.
const LIMIT: u32 = 10;

/// Purpose of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Blocks of the host.
    Host,
    /// Garbage collection, or writes that must not wait.
    Collection,
}

/// A free segment, ordered by use: the least is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    /// Erase count, or 0 where it doesn't matter.
    wear: u32,
    /// Number of segments that became free before it.
    turn: u64,
    segment: u32,
}

/// Lists of a parallel unit.
#[derive(Clone, Debug)]
struct Unit {
    free: BinaryHeap<Reverse<Free>>,
    /// Segments that may be collected, in the order in which they were filled.
    full: VecDeque<u32>,
    /// Number of segments that are being freed.
    coming: u32,
    bad: u32,
}

/// Lists of all parallel units.
#[derive(Debug)]
pub(super) struct Lists {
    units: Vec<Unit>,
    reuse: Reuse,
    /// Number of segments that became free so far.
    turn: u64,
    reserved: usize,
    /// Number of free segments below which a unit is collected.
    need: u32,
}

impl Lists {
    /// Creates empty lists.
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

    /// Bytes per segment.
    pub(super) const EACH: usize = size_of::<Free>() + size_of::<u32>();

    /// Takes the next free segment of a unit.
    pub(super) fn get(&mut self, unit: u32, who: Who) -> Option<u32> {
        let it = &mut self.units[unit as usize];
        // Without these, garbage collection could not free anything.
        if who == Who::Host && it.free.len() < self.reserved {
            return None;
        }
        it.free.pop().map(|Reverse(free)| free.segment)
    }

    /// Notes that a segment will become free.
    pub(super) fn await_one(&mut self, unit: u32) {
        self.units[unit as usize].coming += 1;
    }

    /// Adds a free segment with its erase count, or retires a failed one.
    pub(super) fn put(&mut self, unit: u32, (segment, erases): (u32, u32), failed: bool) {
        let wear = if self.reuse == Reuse::FewestErases { erases } else { 0 };
        let it = &mut self.units[unit as usize];
        it.coming -= 1;
        if failed {
            it.bad += 1
        } else {
            // With a wear of 0 for all, the order is that of `turn`.
            it.free.push(Reverse(Free { wear, turn: self.turn, segment }))
        }
        self.turn += 1;
    }

    /// Returns the number of free segments of a unit.
    pub(super) fn free_segments(&self, unit: u32) -> u32 {
        self.units[unit as usize].free.len() as u32
    }

    /// Returns the number of all free segments.
    pub(super) fn free(&self) -> u32 {
        self.units.iter().map(|it| it.free.len() as u32).sum()
    }

    /// Returns the unit with the most free segments.
    pub(super) fn freest(&self) -> u32 {
        let units = 0..self.units.len() as u32;
        units.max_by_key(|unit| self.free_segments(*unit)).expect("a unit exists")
    }

    /// Returns whether a unit has fewer free segments than it needs.
    pub(super) fn any_in_need(&self) -> bool {
        // Segments that are being freed need no further collection.
        self.units.iter().any(|it| (it.free.len() as u32 + it.coming) < self.need)
    }

    /// Offers a full segment for collection.
    pub(super) fn offer(&mut self, unit: u32, segment: u32) {
        self.units[unit as usize].full.push_back(segment);
    }

    /// Withdraws a segment from collection.
    pub(super) fn withdraw(&mut self, unit: u32, segment: u32) {
        let full = &mut self.units[unit as usize].full;
        let index = full.iter().position(|it| *it == segment).expect("the unit was offered");
        full.remove(index);
    }

    /// Returns the segment with the least `valid` of the unit with the fewest free segments; among
    /// equals the one filled first. Only segments that satisfy `fits` count.
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

    /// Returns whether the lists have `all` segments, except for `elsewhere` in none of them.
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

    /// Segment 0 is erased three times, segment 2 twice, and segment 4 not at all.
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
    fn the_least_erased_segment_is_first_unless_fifo() {
        assert_eq!(order_after_wear(Reuse::FewestErases), [Some(4), Some(2), Some(0)]);
        assert_eq!(order_after_wear(Reuse::Fifo), [Some(0), Some(2), Some(4)]);
    }

    #[test]
    fn two_segments_are_reserved_for_gc_and_ties_go_to_the_oldest() {
        let mut lists = lists(3);
        assert_eq!(lists.get(0, Who::Host), Some(0));
        assert_eq!(lists.get(0, Who::Host), Some(2));
        assert_eq!(lists.get(0, Who::Host), None, "one is left");
        assert_eq!(lists.get(1, Who::Host), Some(1), "each unit has its own");
        assert_eq!(lists.get(0, Who::Collection), Some(4));
        assert_eq!(lists.get(0, Who::Collection), None);
        assert_eq!((lists.free_segments(0), lists.free(), lists.freest()), (0, 2, 1));
    }

    #[test]
    fn failed_segments_are_not_reused() {
        let mut lists = lists(4);
        assert!(!lists.any_in_need());
        let taken = lists.get(0, Who::Host).unwrap();
        assert!(lists.any_in_need(), "three are fewer than four");
        lists.await_one(0);
        assert!(!lists.any_in_need(), "one is on its way");
        lists.put(0, (taken, 8), true);
        assert!(lists.any_in_need() && lists.free_segments(0) == 3);
        assert!(lists.add_up_to(8, 0) && !lists.add_up_to(8, 1));
    }

    #[test]
    fn the_most_invalid_and_earliest_victim_is_chosen() {
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

//! Completion time of each die, and the earliest of them.
//!
//! The times are kept in a tree of minima. It needs no allocation and no search, and an update
//! takes one step per level. Of equal times the one with the lowest index comes first.

use std::hint::select_unpredictable;

use hostftl_core::Nanos;

/// Time of an index with nothing in progress.
const NEVER: Nanos = Nanos::MAX;

/// A time and its index. Both have the size of a register, so that the processor selects between
/// two entries without an unpredictable branch.
#[derive(Clone, Copy, Debug)]
struct Least {
    at: Nanos,
    index: u64,
}

#[derive(Debug)]
pub(super) struct Agenda {
    /// The earlier entry of each pair of children, stored in pairs. The root is at 1, and the
    /// leaves are the second half.
    nodes: Vec<[Least; 2]>,
    leaves: usize,
}

impl Agenda {
    /// Makes an agenda for `count` indices with nothing in progress.
    pub(super) fn new(count: u32) -> Self {
        let leaves = (count as usize).next_power_of_two();
        let mut agenda = Agenda { nodes: vec![[Least { at: NEVER, index: 0 }; 2]; leaves], leaves };
        (0..leaves as u32).rev().for_each(|index| agenda.clear(index));
        agenda
    }

    #[inline]
    fn node(&self, node: usize) -> Least {
        self.nodes[node / 2][node % 2]
    }

    /// Returns the earliest time.
    #[inline]
    pub(super) fn next_at(&self) -> Option<Nanos> {
        Some(self.node(1).at).filter(|&at| at != NEVER)
    }

    /// Sets the completion time of `index`.
    #[inline]
    pub(super) fn set(&mut self, index: u32, at: Nanos) {
        let mut node = self.leaves + index as usize;
        let mut here = Least { at, index: index.into() };
        loop {
            let pair = &mut self.nodes[node / 2];
            pair[node % 2] = here;
            if node == 1 {
                return;
            }
            let beside = pair[1 - node % 2];
            let is_left = beside.index < here.index;
            let sooner = (beside.at < here.at) | ((beside.at == here.at) & is_left);
            here.at = select_unpredictable(sooner, beside.at, here.at);
            here.index = select_unpredictable(sooner, beside.index, here.index);
            node /= 2;
        }
    }

    /// Returns the completion time of `index`.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Nanos {
        self.node(self.leaves + index as usize).at
    }

    /// Marks `index` as having nothing in progress.
    #[inline]
    pub(super) fn clear(&mut self, index: u32) {
        self.set(index, NEVER);
    }

    /// Returns the earliest time and its index. Something must be in progress.
    #[inline]
    pub(super) fn first(&self) -> (Nanos, u32) {
        let Least { at, index } = self.node(1);
        assert!(at != NEVER, "the die is idle");
        (at, index as u32)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn agrees_with_a_scan() {
        for count in [1, 2, 5, 40] {
            let mut agenda = Agenda::new(count);
            let mut model = vec![NEVER; count as usize];
            let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
            for _ in 0..10_000 {
                let least = model.iter().copied().min().unwrap();
                assert_eq!(agenda.next_at(), (least != NEVER).then_some(least));
                if least != NEVER && dice.random_range(0..2) == 0 {
                    let first = model.iter().position(|&at| at == least).unwrap();
                    assert_eq!(agenda.first(), (least, first as u32));
                    agenda.clear(first as u32);
                    model[first] = NEVER;
                } else {
                    let (index, at) = (dice.random_range(0..count), dice.random_range(0..50));
                    agenda.set(index, at);
                    model[index as usize] = at;
                    assert_eq!(agenda.get(index), at);
                }
            }
        }
    }
}

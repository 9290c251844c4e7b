//! When each die and each bus is done: one moment each, and the earliest of all.
//!
//! A tree of minima: no allocation, no search, and as many steps for each change as it has levels.
//! Of equal moments the one with the lowest number comes first.

use std::hint::select_unpredictable;

use hostftl_core::Nanos;

/// Nothing is under way.
const NEVER: Nanos = Nanos::MAX;

/// A moment and whose it is, as one number, by which they are in order.
type Least = u128;

#[inline]
fn least(at: Nanos, index: u32) -> Least {
    Least::from(at) << u64::BITS | Least::from(index)
}

#[inline]
fn at(least: Least) -> Nanos {
    (least >> u64::BITS) as Nanos
}

/// See the module text.
#[derive(Debug)]
pub struct Agenda {
    /// The least of each pair below it; the root is at 1, the moments are the second half.
    nodes: Vec<Least>,
    leaves: usize,
}

impl Agenda {
    /// So many things that can be under way, none of which is.
    pub fn new(count: u32) -> Self {
        let leaves = (count as usize).next_power_of_two();
        let mut nodes = vec![least(NEVER, 0); 2 * leaves];
        for (node, index) in nodes[leaves..].iter_mut().zip(0..) {
            *node = least(NEVER, index);
        }
        Agenda { nodes, leaves }
    }

    /// The earliest moment.
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        Some(at(self.nodes[1])).filter(|&at| at != NEVER)
    }

    /// `index` is done at `at`.
    #[inline]
    pub fn set(&mut self, index: u32, at: Nanos) {
        let nodes = &mut self.nodes[..2 * self.leaves];
        let (mut node, mut here) = (self.leaves + index as usize, least(at, index));
        nodes[node] = here;
        while node > 1 {
            let beside = nodes[node ^ 1];
            here = select_unpredictable(beside < here, beside, here);
            node /= 2;
            nodes[node] = here;
        }
    }

    /// When `index` is done.
    #[inline]
    pub fn get(&self, index: u32) -> Nanos {
        at(self.nodes[self.leaves + index as usize])
    }

    /// `index` has nothing under way any more.
    #[inline]
    pub fn clear(&mut self, index: u32) {
        self.set(index, NEVER);
    }

    /// What is done first, and when; something must be under way.
    #[inline]
    pub fn first(&self) -> (Nanos, u32) {
        let first = self.nodes[1];
        assert!(at(first) != NEVER, "nothing is under way");
        (at(first), first as u32)
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

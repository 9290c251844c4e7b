//! When each die and each bus is done: one moment each, and the earliest of all.
//!
//! A tree of minima: no allocation, no branches, and a few steps for each change. Of equal moments
//! the one with the lowest number comes first.

use hostftl_core::Nanos;

/// Nothing is under way.
const NEVER: Nanos = Nanos::MAX;

/// See the module text.
#[derive(Debug)]
pub struct Agenda {
    /// The minimum of each pair below it; the root is at 1, the moments are the second half.
    least: Vec<Nanos>,
    leaves: usize,
}

impl Agenda {
    /// So many things that can be under way, none of which is.
    pub fn new(count: u32) -> Self {
        let leaves = (count as usize).next_power_of_two();
        Agenda { least: vec![NEVER; 2 * leaves], leaves }
    }

    /// The earliest moment.
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        (self.least[1] != NEVER).then_some(self.least[1])
    }

    /// `index` is done at `at`.
    #[inline]
    pub fn set(&mut self, index: u32, at: Nanos) {
        let mut node = self.leaves + index as usize;
        self.least[node] = at;
        while node > 1 {
            node /= 2;
            let least = self.least[2 * node].min(self.least[2 * node + 1]);
            if self.least[node] == least {
                break;
            }
            self.least[node] = least;
        }
    }

    /// When `index` is done.
    #[inline]
    pub fn get(&self, index: u32) -> Nanos {
        self.least[self.leaves + index as usize]
    }

    /// `index` has nothing under way any more.
    #[inline]
    pub fn clear(&mut self, index: u32) {
        self.set(index, NEVER);
    }

    /// Takes what is done first; something must be under way.
    #[inline]
    pub fn pop(&mut self) -> (Nanos, u32) {
        let at = self.least[1];
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.least[2 * node] != at);
        }
        let index = (node - self.leaves) as u32;
        self.clear(index);
        (at, index)
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
                    assert_eq!(agenda.pop(), (least, first as u32));
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

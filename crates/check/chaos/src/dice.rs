//! The only source of randomness: a seed determines a whole run.

use hostftl_layers::chaos::Chance;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Seeded random number generator.
#[derive(Clone, Debug)]
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// Creates the generator of a seed; `salt` separates streams of one seed.
    pub fn new(seed: u64, salt: u64) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.rotate_left(32);
        Dice(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a die has at least one side");
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability of `permille` in 1000.
    pub fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }

    /// Returns one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns one of `choices`; a single choice consumes no randomness.
    pub fn pick_of_several<T: Copy>(&mut self, choices: &[T]) -> T {
        if let [only] = choices { *only } else { self.pick(choices) }
    }

    /// Returns an index with a probability proportional to its weight; at least one weight is not
    /// zero.
    pub fn weigh(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let mut left = self.below(total);
        for (index, &weight) in weights.iter().enumerate() {
            match left.checked_sub(u64::from(weight)) {
                Some(rest) => left = rest,
                None => return index,
            }
        }
        unreachable!("the throw is below the total weight")
    }
}

impl Chance for Dice {
    fn below(&mut self, n: u64) -> u64 {
        Dice::below(self, n)
    }
}

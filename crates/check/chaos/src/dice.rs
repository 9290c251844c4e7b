//! The one source of chance: a seed fixes a whole run.

use hostftl_layers::chaos::Chance;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Seeded dice.
#[derive(Clone, Debug)]
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// Dice of a seed; `salt` keeps streams of one seed apart.
    pub fn new(seed: u64, salt: u64) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.rotate_left(32);
        Dice(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a die has at least one side");
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `permille` of 1000 throws.
    pub fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// The only one of `choices`, or one of them; the only one costs no draw.
    pub fn pick_of_several<T: Copy>(&mut self, choices: &[T]) -> T {
        if let [only] = choices { *only } else { self.pick(choices) }
    }

    /// The index of one of `weights`, in proportion; at least one is not zero.
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

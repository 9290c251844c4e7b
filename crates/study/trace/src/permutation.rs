//! Random order of the numbers below a bound, computed in place of a table.
//!
//! A Feistel network permutes the numbers of an even number of bits. A result that is not below the
//! bound is permuted again until it is, which is a permutation of the numbers below the bound. The
//! range of the network is less than four times the bound, or 4 for the smallest bounds. The memory
//! is therefore constant, also for a drive of many terabytes.

use rand::Rng;
use rand::RngExt;

/// Rounds of the network. Four rounds with random functions approach a random permutation.
const ROUNDS: usize = 4;

/// Permutation of the numbers below a bound.
#[derive(Debug)]
pub(crate) struct Permutation {
    bound: u64,
    /// Bits in a half of a number.
    half: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Makes a permutation of the numbers below `bound`, which must be above 0. Its order is fixed
    /// until [`Permutation::draw`].
    pub(crate) fn new(bound: u64) -> Self {
        assert!(bound > 0, "a permutation of no numbers");
        let bits = (u64::BITS - (bound - 1).leading_zeros()).max(2);
        Permutation { bound, half: bits.div_ceil(2), keys: [0; ROUNDS] }
    }

    /// Draws a new order.
    pub(crate) fn draw(&mut self, rng: &mut impl Rng) {
        self.keys = std::array::from_fn(|_| rng.random());
    }

    /// Returns the number at `index`, which must be below the bound.
    pub(crate) fn at(&self, index: u64) -> u64 {
        assert!(index < self.bound, "an index beyond the permutation");
        let mut number = index;
        loop {
            number = self.network(number);
            if number < self.bound {
                return number;
            }
        }
    }

    fn network(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let halves = (number >> self.half, number & mask);
        let (left, right) = self.keys.iter().fold(halves, |(left, right), key| {
            (right, left ^ mix(right.wrapping_add(*key)) & mask)
        });
        left << self.half | right
    }
}

/// Mixes all bits of a number: the finalizer of SplitMix64.
fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn each_number_occurs_once_in_a_new_order_each_time() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for bound in [1, 2, 3, 4, 5, 16, 17, 1000, 4096, 65_537] {
            let mut order = Permutation::new(bound);
            let mut draw = || {
                order.draw(&mut rng);
                (0..bound).map(|index| order.at(index)).collect::<Vec<_>>()
            };
            let (first, second) = (draw(), draw());
            for numbers in [&first, &second] {
                let mut sorted = numbers.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..bound), "{bound}");
            }
            assert!(bound < 1000 || first != second, "{bound}");
        }
    }

    /// In a random order, half of the numbers of the first half are below half of the bound, and
    /// the successors of neighbours are unrelated.
    #[test]
    fn the_order_is_random() {
        let bound = 100_000;
        let mut order = Permutation::new(bound);
        order.draw(&mut Xoshiro256PlusPlus::seed_from_u64(2));
        let low = (0..bound / 2).filter(|&index| order.at(index) < bound / 2).count() as f64;
        assert!((low / (bound / 2) as f64 - 0.5).abs() < 0.01, "{low}");
        let rises = (1..bound).filter(|&index| order.at(index) > order.at(index - 1)).count();
        assert!((rises as f64 / bound as f64 - 0.5).abs() < 0.01, "{rises}");
    }
}

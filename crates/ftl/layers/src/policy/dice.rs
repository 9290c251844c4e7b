//! Random draws for policies: SplitMix64, whose state is a single number that can be saved.

/// A random number generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from a seed, or from a saved [`Dice::state`].
    pub const fn new(state: u64) -> Self {
        Dice(state)
    }

    /// Returns the state, from which the draws can be continued.
    pub const fn state(self) -> u64 {
        self.0
    }

    /// Returns a number below `end`, which must be above 0. The bias is below `end / 2^64`.
    #[inline]
    pub fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        ((u128::from(word) * u128::from(end)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_are_uniform_and_saved_states_continue() {
        let (mut dice, mut faces) = (Dice::new(1), [0u32; 6]);
        (0..60_000).for_each(|_| faces[dice.below(6) as usize] += 1);
        // Within five standard deviations of 10,000.
        assert!(faces.iter().all(|&count| count.abs_diff(10_000) < 457), "{faces:?}");
        let mut again = Dice::new(dice.state());
        assert!((0..100).all(|_| again.below(1_000) == dice.below(1_000)));
    }
}

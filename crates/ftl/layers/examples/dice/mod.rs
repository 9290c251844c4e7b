//! Random numbers of the examples, by xorshift. All examples use the same ones, so that their
//! figures are comparable.

pub(crate) struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below<T: Into<u64> + TryFrom<u64>>(&mut self, end: T) -> T {
        let below = (u128::from(self.next()) * u128::from(end.into())) >> 64;
        T::try_from(below as u64).ok().expect("it is below the end")
    }

    /// Returns a number from 0 to less than 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

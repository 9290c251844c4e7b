//! Placement by write frequency ([`Frequency`]) with the exact age of each block.

use super::rate::{Frequency, Known, dither};
use super::rule::{NEVER, Placement};

/// Same number as SepBIT, for comparison.
const CLASSES: u8 = 6;

/// Placement by write frequency.
#[derive(Clone, Debug)]
pub struct ByFrequency {
    rule: Frequency,
    /// Class of each block, and whether its page was written by the host rather than copied.
    known: Vec<(u8, bool)>,
    written: u64,
}

impl ByFrequency {
    /// Creates the rule for `blocks` blocks without history.
    pub fn new(blocks: u32) -> Self {
        let known = vec![(u8::MAX, false); blocks as usize];
        ByFrequency { rule: Frequency::new(blocks.into(), CLASSES), known, written: 0 }
    }
}

impl Placement for ByFrequency {
    fn classes(&self) -> u8 {
        CLASSES
    }

    fn of_writes(&mut self, lbas: &[u32], ages: &[u64], classes: &mut [u8]) {
        for ((lba, age), to) in lbas.iter().zip(ages).zip(classes) {
            let (class, fresh) = self.known[*lba as usize];
            let old = (*age != NEVER).then(|| Known::new(class, *age as f64, fresh));
            *to = self.rule.of_write(old, dither(u64::from(*lba), self.written));
            self.rule.wrote(*to, old);
            self.known[*lba as usize] = (*to, true);
            self.written += 1;
        }
    }

    fn of_copies(&mut self, lbas: &[u32], ages: &[u64], from: u8, classes: &mut [u8]) {
        for ((lba, age), to) in lbas.iter().zip(ages).zip(classes) {
            *to = self.rule.of_copy(from, *age as f64, dither(u64::from(*lba), self.written));
            self.known[*lba as usize] = (*to, false);
        }
    }
}

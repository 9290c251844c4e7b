//! Blocks by how often they are written ([`Frequency`]), where the age of each is known exactly.

use super::rate::{Frequency, Known, dither};
use super::rule::{NEVER, Placement};

/// As many as SepBIT has.
const CLASSES: u8 = 6;

/// See the module text.
#[derive(Clone, Debug)]
pub struct ByFrequency {
    rule: Frequency,
    /// The class of each block, and whether it lies where the host wrote it.
    known: Vec<(u8, bool)>,
    written: u64,
}

impl ByFrequency {
    /// Nothing is known of so many blocks.
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

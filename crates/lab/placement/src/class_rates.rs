//! The policy `separation=rate` of `log`, run by the layer's own code.

use hostftl_layers::policy::{CLASSES, Separation, Separator};

use super::rule::{NEVER, Placement};

/// Placement by the rate that the class of a block's segment implies.
#[derive(Clone, Debug)]
pub struct ByRate {
    separator: Separator,
}

impl ByRate {
    /// Creates the rule for `blocks` blocks without history.
    pub fn new(blocks: u32) -> Self {
        let classes = CLASSES as u8;
        ByRate { separator: Separator::with_blocks(Separation::Rate, classes, blocks.into()) }
    }
}

impl Placement for ByRate {
    fn classes(&self) -> u8 {
        CLASSES as u8
    }

    fn of_writes(&mut self, lbas: &[u32], ages: &[u64], classes: &mut [u8]) {
        for ((lba, age), to) in lbas.iter().zip(ages).zip(classes) {
            let (block, age) = (u64::from(*lba), (*age != NEVER).then_some(*age as f64));
            *to = self.separator.for_write_to(block, age);
            self.separator.wrote(block, age);
        }
    }

    fn of_copies(&mut self, lbas: &[u32], ages: &[u64], from: u8, classes: &mut [u8]) {
        for ((lba, age), to) in lbas.iter().zip(ages).zip(classes) {
            *to = self.separator.for_copy_from((*lba).into(), from, *age as f64);
        }
    }
}

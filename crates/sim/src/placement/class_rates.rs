//! The rule `separation=rate` of `log`, by its own code: two classes of writes and four of copies.

use hostftl_layers::policy::Rates;

use super::{NEVER, Placement};

/// The first class of copies.
const COPIES: u8 = 2;

/// See the module text.
#[derive(Clone, Debug)]
pub struct ByRate {
    rates: Rates,
}

impl ByRate {
    /// Nothing is known of so many blocks.
    pub fn new(blocks: u32) -> Self {
        ByRate { rates: Rates::new(blocks.into()) }
    }
}

impl Placement for ByRate {
    fn classes(&self) -> u8 {
        COPIES + 4
    }

    fn of_writes(&mut self, lbas: &[u32], ages: &[u64], classes: &mut [u8]) {
        for ((lba, age), to) in lbas.iter().zip(ages).zip(classes) {
            let (block, age) = (u64::from(*lba), (*age != NEVER).then_some(*age as f64));
            *to = u8::from(!self.rates.is_hot(block, age));
            self.rates.wrote(block, age);
        }
    }

    fn of_copies(&mut self, lbas: &[u32], ages: &[u64], _from: u8, classes: &mut [u8]) {
        for ((lba, age), to) in lbas.iter().zip(ages).zip(classes) {
            *to = COPIES + self.rates.coldness((*lba).into(), *age as f64);
        }
    }
}

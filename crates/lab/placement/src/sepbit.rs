//! SepBIT (Wang et al., FAST 2022, algorithm 1). The expected lifetime of a host write is the
//! lifetime of the version that it replaces. That of a copy is its age.

use super::rule::{NEVER, Placement};

/// Number of segments of class 0 whose lifespans are averaged.
const SAMPLE: u32 = 16;

/// Placement by SepBIT.
#[derive(Clone, Copy, Debug)]
pub struct SepBit {
    /// Mean lifespan of the latest segments of class 0. Until it is known, all blocks count as
    /// short-lived.
    lifespan: f64,
    sum: f64,
    samples: u32,
}

impl Default for SepBit {
    fn default() -> Self {
        SepBit { lifespan: f64::INFINITY, sum: 0.0, samples: 0 }
    }
}

impl Placement for SepBit {
    fn classes(&self) -> u8 {
        6
    }

    fn of_writes(&mut self, _lbas: &[u32], ages: &[u64], classes: &mut [u8]) {
        for (age, class) in ages.iter().zip(classes) {
            *class = u8::from(*age == NEVER || *age as f64 >= self.lifespan);
        }
    }

    fn of_copies(&mut self, _lbas: &[u32], ages: &[u64], from: u8, classes: &mut [u8]) {
        let bounds = [4.0 * self.lifespan, 16.0 * self.lifespan];
        for (age, class) in ages.iter().zip(classes) {
            let older = bounds.iter().filter(|bound| *age as f64 >= **bound).count() as u8;
            *class = if from == 0 { 2 } else { 3 + older };
        }
    }

    fn collected(&mut self, class: u8, lifespan: u64) {
        if class != 0 {
            return;
        }
        self.sum += lifespan as f64;
        self.samples += 1;
        if self.samples == SAMPLE {
            self.lifespan = self.sum / f64::from(SAMPLE);
            (self.sum, self.samples) = (0.0, 0);
        }
    }
}

//! Placement with perfect knowledge: the write frequency of each block, or the time of its next
//! write. Studies compare these bounds with practical rules.

use super::rule::Placement;

/// Number of classes. Each has twice the interval of the previous one.
const CLASSES: u8 = 12;
/// Interval of the first class, relative to the number of blocks.
const FIRST: f64 = 1.0 / 128.0;

/// Returns the class of a block that is written again after `interval` writes, in a log of `blocks`
/// blocks.
fn class(interval: f64, blocks: usize) -> u8 {
    let level = (interval / (FIRST * blocks as f64)).log2();
    level.round().clamp(0.0, f64::from(CLASSES - 1)) as u8
}

/// An oracle that knows the frequency of each block's writes, but not their times.
#[derive(Clone, Debug)]
pub struct Rates {
    classes: Vec<u8>,
}

impl Rates {
    /// Computes the frequencies from all `writes` to a log of `blocks` blocks.
    pub fn of(writes: &[u32], blocks: u32) -> Self {
        let mut counts = vec![0_u32; blocks as usize];
        writes.iter().for_each(|lba| counts[*lba as usize] += 1);
        // A block without a write counts as half a write.
        let interval = |count: &u32| writes.len() as f64 / f64::from(*count).max(0.5);
        let classes = counts.iter().map(|count| class(interval(count), counts.len())).collect();
        Rates { classes }
    }

    fn tell(&self, lbas: &[u32], classes: &mut [u8]) {
        for (lba, class) in lbas.iter().zip(classes) {
            *class = self.classes[*lba as usize];
        }
    }
}

impl Placement for Rates {
    fn classes(&self) -> u8 {
        CLASSES
    }

    fn of_writes(&mut self, lbas: &[u32], _ages: &[u64], classes: &mut [u8]) {
        self.tell(lbas, classes);
    }

    fn of_copies(&mut self, lbas: &[u32], _ages: &[u64], _from: u8, classes: &mut [u8]) {
        self.tell(lbas, classes);
    }
}

/// An oracle that knows the time of each block's next write.
#[derive(Clone, Debug)]
pub struct Future {
    /// For each write, the index of the next write to the same block; and for each block, the index
    /// of its next write.
    next: Vec<u64>,
    of_block: Vec<u64>,
    written: u64,
}

impl Future {
    /// Computes the next writes from all `writes` to a log of `blocks` blocks.
    pub fn of(writes: &[u32], blocks: u32) -> Self {
        let mut of_block = vec![u64::MAX; blocks as usize];
        let mut next = vec![0; writes.len()];
        for (at, lba) in writes.iter().enumerate().rev() {
            next[at] = std::mem::replace(&mut of_block[*lba as usize], at as u64);
        }
        Future { next, of_block, written: 0 }
    }

    fn class(&self, next: u64) -> u8 {
        class(next.saturating_sub(self.written).max(1) as f64, self.of_block.len())
    }
}

impl Placement for Future {
    fn classes(&self) -> u8 {
        CLASSES
    }

    fn of_writes(&mut self, lbas: &[u32], _ages: &[u64], classes: &mut [u8]) {
        for (lba, class) in lbas.iter().zip(classes) {
            let next = self.next[self.written as usize];
            self.of_block[*lba as usize] = next;
            *class = self.class(next);
            self.written += 1;
        }
    }

    fn of_copies(&mut self, lbas: &[u32], _ages: &[u64], _from: u8, classes: &mut [u8]) {
        for (lba, class) in lbas.iter().zip(classes) {
            *class = self.class(self.of_block[*lba as usize]);
        }
    }
}

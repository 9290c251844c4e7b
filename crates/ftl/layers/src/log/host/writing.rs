//! The blocks that are being written.
//!
//! Invariants
//! - `counts[b % COUNTS]` is the number of listed blocks with the same remainder as `b`.

use alloc::vec::Vec;

use crate::log::layout::BLOCK_OPS;

/// Number of counters. A block whose counter is 0 is not listed, which is the usual case.
const COUNTS: usize = 256;
const _: () = assert!(BLOCK_OPS <= u8::MAX as usize, "a counter counts every operation");

/// The block of each operation that writes.
#[derive(Debug)]
pub(super) struct Writing {
    /// The blocks, in no order.
    blocks: Vec<u64>,
    counts: [u8; COUNTS],
}

impl Writing {
    /// Returns an empty list.
    pub(super) fn new() -> Self {
        Writing { blocks: Vec::with_capacity(BLOCK_OPS), counts: [0; COUNTS] }
    }

    fn count(&mut self, block: u64) -> &mut u8 {
        &mut self.counts[(block % COUNTS as u64) as usize]
    }

    /// Adds a block.
    pub(super) fn push(&mut self, block: u64) {
        self.blocks.push(block);
        *self.count(block) += 1;
    }

    /// Removes a block once.
    pub(super) fn remove(&mut self, block: u64) {
        let at = self.blocks.iter().position(|it| *it == block);
        self.blocks.swap_remove(at.expect("a write is in progress"));
        *self.count(block) -= 1;
    }

    /// Returns the number of operations that write.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns whether a block in `first..end` is being written.
    pub(super) fn any_in(&self, first: u64, end: u64) -> bool {
        let may_be = |block: u64| self.counts[(block % COUNTS as u64) as usize] > 0;
        let mut counted = first..end.min(first + COUNTS as u64);
        counted.any(may_be) && self.blocks.iter().any(|block| (first..end).contains(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_until_each_write_is_removed() {
        let mut writing = Writing::new();
        [7, 7 + COUNTS as u64, 7].into_iter().for_each(|block| writing.push(block));
        assert_eq!(writing.len(), 3);
        for (first, end, expected) in [(7, 8, true), (8, 263, false), (0, 1000, true)] {
            assert_eq!(writing.any_in(first, end), expected, "{first}..{end}");
        }
        writing.remove(7);
        assert!(writing.any_in(0, 8));
        writing.remove(7);
        assert!(!writing.any_in(0, 263) && writing.any_in(0, 264));
    }
}

//! Heads of the lists of leaves: links to nodes, each in the minimum number of bytes.

use alloc::vec;
use alloc::vec::Vec;

/// A packed array of links, all 0 at first.
#[derive(Debug)]
pub(super) struct Heads {
    count: usize,
    bytes: usize,
    /// All links, followed by a word so that each link can be read as a word.
    memory: Vec<u8>,
}

impl Heads {
    /// Creates `count` links of `bits` bits each.
    pub(super) fn new(count: u32, bits: u32) -> Self {
        let bytes = Self::bytes(bits);
        let count = count as usize;
        Heads { count, bytes, memory: vec![0; bytes * count + size_of::<u32>()] }
    }

    fn bytes(bits: u32) -> usize {
        assert!(bits <= u32::BITS, "a link is a number of 32 bits");
        bits.div_ceil(8) as usize
    }

    /// Returns the size of `count` links, in bytes.
    pub(super) fn memory(count: u32, bits: u32) -> u64 {
        Self::bytes(bits) as u64 * u64::from(count)
    }

    /// Returns the number of links.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn word(&self, at: usize) -> u32 {
        let from = at * self.bytes;
        let bytes = self.memory[from..from + 4].try_into().expect("a word has its length");
        u32::from_le_bytes(bytes)
    }

    fn mask(&self) -> u32 {
        u32::MAX >> (u32::BITS - 8 * self.bytes as u32)
    }

    /// Returns link `at`.
    pub(super) fn get(&self, at: usize) -> u32 {
        self.word(at) & self.mask()
    }

    /// Sets link `at` and returns its previous value.
    pub(super) fn set(&mut self, at: usize, link: u32) -> u32 {
        let word = self.word(at);
        assert!(link <= self.mask(), "a link has its bits");
        // The word also has bytes of the next links, which are written back unchanged.
        let (from, new) = (at * self.bytes, word & !self.mask() | link);
        self.memory[from..from + 4].copy_from_slice(&new.to_le_bytes());
        word & self.mask()
    }

    /// Iterates over all links.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_round_trip_without_touching_neighbours() {
        for (bits, bytes) in [(8, 1), (15, 2), (17, 3), (24, 3), (25, 4), (32, 4)] {
            let mut heads = Heads::new(1000, bits);
            assert_eq!((heads.len(), Heads::memory(1000, bits)), (1000, 1000 * bytes));
            assert!(heads.iter().all(|link| link == 0), "fresh memory holds nothing");
            let most = u32::MAX >> (u32::BITS - bits);
            let link = |at: u32| most - at % most.min(97);
            (0..1000).rev().for_each(|at| assert_eq!(heads.set(at as usize, link(at)), 0));
            assert!((0..).zip(heads.iter()).all(|(at, found)| found == link(at)));
            assert_eq!(heads.set(7, 1), link(7));
            assert_eq!((heads.get(6), heads.get(7), heads.get(8)), (link(6), 1, link(8)));
        }
    }
}

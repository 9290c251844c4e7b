//! Set of page numbers, iterated in order.

use alloc::vec;
use alloc::vec::Vec;

/// Words that are examined in one step; a large volume has many times more.
const SCAN_WORDS: usize = 4096;

/// Result of a search from a number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// First number found.
    At(u32),
    /// None before this number; the search continues there.
    Later(u32),
    /// None.
    Over,
}

#[derive(Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    count: u32,
}

impl Bits {
    /// Returns an empty set of numbers below `len`.
    pub(crate) fn new(len: u32) -> Self {
        Bits { words: vec![0; len.div_ceil(64) as usize], count: 0 }
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether `at` is an element.
    pub(crate) fn has(&self, at: u32) -> bool {
        self.words[at as usize / 64] >> (at % 64) & 1 == 1
    }

    /// Adds `at`.
    pub(crate) fn set(&mut self, at: u32) {
        let (word, bit) = (&mut self.words[at as usize / 64], 1 << (at % 64));
        self.count += u32::from(*word & bit == 0);
        *word |= bit;
    }

    /// Removes `at`.
    pub(crate) fn clear(&mut self, at: u32) {
        self.count -= u32::from(self.has(at));
        self.words[at as usize / 64] &= !(1 << (at % 64));
    }

    /// Searches the first number from `at` on, within one step. Returns it, and the number of words
    /// examined.
    pub(crate) fn next(&self, at: u32) -> (Next, usize) {
        if self.count == 0 {
            return (Next::Over, 0);
        }
        let first = at as usize / 64;
        for (looked, word) in self.words.iter().enumerate().skip(first).take(SCAN_WORDS) {
            let bits = if looked == first { word & !0 << (at % 64) } else { *word };
            if bits != 0 {
                let found = looked as u32 * 64 + bits.trailing_zeros();
                return (Next::At(found), looked - first + 1);
            }
        }
        let end = first + SCAN_WORDS;
        let next = if end < self.words.len() { Next::Later(end as u32 * 64) } else { Next::Over };
        (next, SCAN_WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_bits_are_found_in_order() {
        let mut bits = Bits::new(200);
        assert_eq!(bits.next(0).0, Next::Over);
        for at in [0, 63, 64, 199, 64] {
            bits.set(at);
        }
        let mut found = Vec::new();
        let mut from = 0;
        while let (Next::At(at), _) = bits.next(from) {
            found.push(at);
            from = at + 1;
        }
        assert_eq!((found, bits.count()), (vec![0, 63, 64, 199], 4));
        bits.clear(63);
        bits.clear(62);
        assert_eq!((bits.next(1).0, bits.count()), (Next::At(64), 3));
    }

    #[test]
    fn a_search_examines_a_bounded_number_of_words() {
        let mut bits = Bits::new(1 << 24);
        let far = (1 << 24) - 1;
        bits.set(far);
        let (mut from, mut goes) = (0, 0);
        while let (Next::Later(later), looked) = bits.next(from) {
            assert!(looked <= SCAN_WORDS && later > from);
            (from, goes) = (later, goes + 1);
        }
        assert_eq!((bits.next(from).0, goes), (Next::At(far), (1 << 24) / 64 / SCAN_WORDS - 1));
        bits.clear(far);
        assert_eq!(bits.next(0).0, Next::Over);
    }
}

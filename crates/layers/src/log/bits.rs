//! A set of page numbers, gone through in order.

use alloc::vec;
use alloc::vec::Vec;

/// See the module text.
#[derive(Debug)]
pub struct Bits {
    words: Vec<u64>,
    count: u32,
}

impl Bits {
    /// An empty set of numbers below `len`.
    pub fn new(len: u32) -> Self {
        Bits { words: vec![0; len.div_ceil(64) as usize], count: 0 }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether `at` is one of them.
    pub fn has(&self, at: u32) -> bool {
        self.words[at as usize / 64] >> (at % 64) & 1 == 1
    }

    /// Adds `at`.
    pub fn set(&mut self, at: u32) {
        self.count += u32::from(!self.has(at));
        self.words[at as usize / 64] |= 1 << (at % 64);
    }

    /// Takes `at` away.
    pub fn clear(&mut self, at: u32) {
        self.count -= u32::from(self.has(at));
        self.words[at as usize / 64] &= !(1 << (at % 64));
    }

    /// The first from `at` on, and how many words were looked at.
    pub fn next(&self, at: u32) -> (Option<u32>, usize) {
        if self.count == 0 {
            return (None, 0);
        }
        let first = at as usize / 64;
        for (looked, word) in self.words.iter().enumerate().skip(first) {
            let bits = if looked == first { word & !0 << (at % 64) } else { *word };
            if bits != 0 {
                let found = looked as u32 * 64 + bits.trailing_zeros();
                return (Some(found), looked - first + 1);
            }
        }
        (None, self.words.len().saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_found_in_order() {
        let mut bits = Bits::new(200);
        assert_eq!(bits.next(0).0, None);
        for at in [0, 63, 64, 199, 64] {
            bits.set(at);
        }
        let mut found = Vec::new();
        let mut from = 0;
        while let (Some(at), _) = bits.next(from) {
            found.push(at);
            from = at + 1;
        }
        assert_eq!((found, bits.count()), (vec![0, 63, 64, 199], 4));
        bits.clear(63);
        bits.clear(62);
        assert_eq!((bits.next(1).0, bits.count()), (Some(64), 3));
    }
}

//! The map of blocks, in pages, and the directory that says where the pages' images are.
//!
//! Invariants
//! - A block is nowhere, or at one place, whose record has the CRC that is kept beside it.
//! - A page that changed since its image was taken is dirty; so is a directory page of which an
//!   image moved since its own image was taken.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Page;
use hostftl_format::log::{Kind, PAIRS, Place, emit_page, pair};

/// Pairs of place and CRC, in pages, some of them dirty.
#[derive(Debug)]
pub struct Table {
    places: Vec<u64>,
    crcs: Vec<u32>,
    dirty: Vec<u64>,
    len: u64,
    mapped: u64,
}

impl Table {
    /// A table of `len` pairs that are nowhere.
    pub fn new(len: u64) -> Self {
        let pages = len.div_ceil(PAIRS as u64) as usize;
        Table {
            places: vec![0; len as usize],
            crcs: vec![0; len as usize],
            dirty: vec![0; pages.div_ceil(64)],
            len,
            mapped: 0,
        }
    }

    /// The place and CRC of pair `index`.
    pub fn get(&self, index: u64) -> (Place, u32) {
        (Place::from_bits(self.places[index as usize]), self.crcs[index as usize])
    }

    /// Where pair `index` is.
    pub fn place(&self, index: u64) -> Place {
        Place::from_bits(self.places[index as usize])
    }

    /// Changes a pair and marks its page; returns the old place.
    pub fn set(&mut self, index: u64, place: Place, crc: u32) -> Place {
        let old = self.put(index, place);
        self.crcs[index as usize] = crc;
        self.mark((index / PAIRS as u64) as u32);
        old
    }

    fn put(&mut self, index: u64, place: Place) -> Place {
        let old = core::mem::replace(&mut self.places[index as usize], place.bits());
        let old = Place::from_bits(old);
        self.mapped = self.mapped + u64::from(!place.is_nowhere()) - u64::from(!old.is_nowhere());
        old
    }

    /// Marks a page dirty.
    pub fn mark(&mut self, page: u32) {
        let (word, bit) = (page as usize / 64, 1 << (page % 64));
        self.dirty[word] |= bit;
    }

    /// The first dirty page from `page` on, and how many words of marks were looked at.
    pub fn next_dirty(&self, page: u32) -> (Option<u32>, usize) {
        let mut word = page as usize / 64;
        let Some(mut bits) = self.dirty.get(word).map(|bits| bits & !0 << (page % 64)) else {
            return (None, 0);
        };
        let mut looked = 1;
        loop {
            if bits != 0 {
                return (Some(word as u32 * 64 + bits.trailing_zeros()), looked);
            }
            word += 1;
            looked += 1;
            match self.dirty.get(word) {
                Some(next) => bits = *next,
                None => return (None, looked),
            }
        }
    }

    /// Takes an image of a page, which is clean then.
    pub fn emit(&mut self, kind: Kind, page: u32, into: &mut Page) {
        let (word, bit) = (page as usize / 64, 1 << (page % 64));
        self.dirty[word] &= !bit;
        let first = u64::from(page) * PAIRS as u64;
        let last = (first + PAIRS as u64).min(self.len);
        emit_page(into, kind, page, (first..last).map(|index| self.get(index)));
    }

    /// Fills a page from its image, without marking it.
    pub fn load(&mut self, page: u32, from: &Page) {
        let first = page as usize * PAIRS;
        let last = (first + PAIRS).min(self.len as usize);
        for index in first..last {
            let (place, crc) = pair(from, index - first);
            self.put(index as u64, place);
            self.crcs[index] = crc;
        }
    }

    /// How many pairs are somewhere.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// How many pairs there are.
    pub fn len(&self) -> u64 {
        self.len
    }
}

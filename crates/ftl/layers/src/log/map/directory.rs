//! Directory: the places of the images of the map's pages. The whole table is in memory, and its
//! pages have images as well.
//!
//! Invariant: a directory page is dirty if an image moved since the image of the directory page was
//! taken.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Page;
use hostftl_format::log::{Kind, PAIRS, Place, emit_page, pair};

use crate::log::map::bits::{Bits, Next};

#[derive(Debug)]
pub(crate) struct Directory {
    places: Vec<u64>,
    crcs: Vec<u32>,
    dirty: Bits,
}

impl Directory {
    /// Returns the directory of `pages` map pages without images.
    pub(crate) fn new(pages: u32) -> Self {
        let len = pages as usize;
        let dirty = Bits::new(pages.div_ceil(PAIRS as u32));
        Directory { places: vec![0; len], crcs: vec![0; len], dirty }
    }

    /// Returns the place of the image of a map page, and its CRC.
    pub(crate) fn get(&self, page: u32) -> (Place, u32) {
        (self.place(page), self.crcs[page as usize])
    }

    /// Returns the place of the image of a map page.
    pub(crate) fn place(&self, page: u32) -> Place {
        Place::from_bits(self.places[page as usize])
    }

    /// Records the new place of an image; returns the old one.
    pub(crate) fn set(&mut self, page: u32, place: Place, crc: u32) -> Place {
        let old = core::mem::replace(&mut self.places[page as usize], place.bits());
        self.crcs[page as usize] = crc;
        self.dirty.set(page / PAIRS as u32);
        Place::from_bits(old)
    }

    /// Marks page `number` of the directory itself as dirty.
    pub(crate) fn mark(&mut self, number: u32) {
        self.dirty.set(number);
    }

    /// Returns the first dirty page from `number` on, and the number of words examined.
    pub(crate) fn next_dirty(&self, number: u32) -> (Next, usize) {
        self.dirty.next(number)
    }

    /// Returns the map pages that directory page `number` covers.
    fn range(&self, number: u32) -> core::ops::Range<u32> {
        let first = number * PAIRS as u32;
        first..(first + PAIRS as u32).min(self.places.len() as u32)
    }

    /// Writes an image of page `number`, which is clean afterwards.
    pub(crate) fn emit(&mut self, number: u32, into: &mut Page) {
        self.dirty.clear(number);
        let pairs = self.range(number).map(|page| self.get(page));
        emit_page(into, Kind::Directory, number, pairs);
    }

    /// Loads page `number` from its image; returns the map pages that it covers.
    pub(crate) fn load(&mut self, number: u32, from: &Page) -> core::ops::Range<u32> {
        let range = self.range(number);
        for page in range.clone() {
            let (place, crc) = pair(from, (page - range.start) as usize);
            self.places[page as usize] = place.bits();
            self.crcs[page as usize] = crc;
        }
        range
    }
}

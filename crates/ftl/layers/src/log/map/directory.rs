//! Where the images of the map's pages are: a table of its own, all of it in memory, with images of
//! its pages.
//!
//! Invariant: a page of it is dirty when an image moved since its own image was taken.

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
    /// Of so many map pages, none of which has an image.
    pub(crate) fn new(pages: u32) -> Self {
        let len = pages as usize;
        let dirty = Bits::new(pages.div_ceil(PAIRS as u32));
        Directory { places: vec![0; len], crcs: vec![0; len], dirty }
    }

    /// Where the image of map page `page` is, and its CRC.
    pub(crate) fn get(&self, page: u32) -> (Place, u32) {
        (self.place(page), self.crcs[page as usize])
    }

    /// Where the image of map page `page` is.
    pub(crate) fn place(&self, page: u32) -> Place {
        Place::from_bits(self.places[page as usize])
    }

    /// Notes where an image is now; returns where it was.
    pub(crate) fn set(&mut self, page: u32, place: Place, crc: u32) -> Place {
        let old = core::mem::replace(&mut self.places[page as usize], place.bits());
        self.crcs[page as usize] = crc;
        self.dirty.set(page / PAIRS as u32);
        Place::from_bits(old)
    }

    /// Marks page `number` of the directory itself dirty.
    pub(crate) fn mark(&mut self, number: u32) {
        self.dirty.set(number);
    }

    /// The first dirty page from `number` on, and how many words of marks were looked at.
    pub(crate) fn next_dirty(&self, number: u32) -> (Next, usize) {
        self.dirty.next(number)
    }

    /// The map pages that page `number` tells of.
    fn range(&self, number: u32) -> core::ops::Range<u32> {
        let first = number * PAIRS as u32;
        first..(first + PAIRS as u32).min(self.places.len() as u32)
    }

    /// Takes an image of page `number`, which is clean then.
    pub(crate) fn emit(&mut self, number: u32, into: &mut Page) {
        self.dirty.clear(number);
        let pairs = self.range(number).map(|page| self.get(page));
        emit_page(into, Kind::Directory, number, pairs);
    }

    /// Fills page `number` from its image; returns the map pages that it tells of.
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

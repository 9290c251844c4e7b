//! State of the directory's pages: those that differ from their copies on the medium, and their
//! generations.
//!
//! Invariants
//! - Pages that must be written before the next flush is acknowledged are a subset of those that
//!   differ.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Page;
use hostftl_format::tier::seal_directory;

use super::super::layout::Layout;

/// Pages of the directory that have to be written.
#[derive(Debug)]
pub(crate) struct Directory {
    uuid: [u8; 16],
    /// Bits of the pages that flushes wait for, and of those that differ from the medium.
    must: Vec<u64>,
    differs: Vec<u64>,
    /// The generation of each page.
    generations: Vec<u32>,
    /// The first page that the commit in progress has not examined.
    cursor: u32,
}

impl Directory {
    /// Creates the state in which no page differs.
    pub(crate) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        let pages = layout.directory as usize;
        Directory {
            uuid,
            must: vec![0; pages.div_ceil(64)],
            differs: vec![0; pages.div_ceil(64)],
            generations: vec![0; pages],
            cursor: 0,
        }
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(layout: &Layout) -> u64 {
        u64::from(layout.directory) * 4 + u64::from(layout.directory.div_ceil(64)) * 16
    }

    /// Records the generation of a page on the medium.
    pub(crate) fn adopt(&mut self, page: u32, generation: u32) {
        assert_eq!(self.generations[page as usize], 0, "a directory page is listed once");
        self.generations[page as usize] = generation;
    }

    /// Marks the page of a slot as different from its state after a clean stop.
    pub(crate) fn note(&mut self, slot: u32) {
        let page = Layout::directory_page(slot);
        self.differs[page as usize / 64] |= 1 << (page % 64);
    }

    /// Marks the page of a slot as one to write before the next flush is acknowledged.
    pub(crate) fn must(&mut self, slot: u32) {
        self.note(slot);
        let page = Layout::directory_page(slot);
        self.must[page as usize / 64] |= 1 << (page % 64);
    }

    /// Restarts the examination at the first page, for the next commit.
    pub(crate) fn rewind(&mut self) {
        self.cursor = 0;
    }

    /// Returns whether the commit in progress has examined all pages.
    pub(crate) fn is_at_end(&self) -> bool {
        self.cursor as usize >= self.generations.len()
    }

    /// Returns the next page that the commit in progress has to write. With `all`, pages that only
    /// differ are included.
    pub(crate) fn next(&mut self, all: bool) -> Option<u32> {
        let list = if all { &self.differs } else { &self.must };
        while (self.cursor as usize) < self.generations.len() {
            let page = self.cursor;
            let word = list[page as usize / 64];
            if page.is_multiple_of(64) && word == 0 {
                self.cursor += 64;
                continue;
            }
            self.cursor += 1;
            if word & 1 << (page % 64) != 0 {
                return Some(page);
            }
        }
        None
    }

    /// Seals a page with its entries in the next generation. Returns its sector. With `left` the
    /// page must be written again later.
    pub(crate) fn seal(&mut self, page: u32, content: &mut Page, left: bool) -> u64 {
        let (word, bit) = (page as usize / 64, 1 << (page % 64));
        assert!(
            self.must[word] & !self.differs[word] == 0,
            "a change differs from the current state"
        );
        if !left {
            self.must[word] &= !bit;
            self.differs[word] &= !bit;
        }
        let generation = &mut self.generations[page as usize];
        *generation += 1;
        let generation = u64::from(*generation);
        let lba = Layout::directory_at(page, generation);
        seal_directory(content, page, generation, self.uuid, lba);
        lba
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::{DeviceInfo, MetaBuf};
    use hostftl_format::tier::ENTRIES;

    use super::*;

    #[test]
    fn a_commit_writes_required_changes_and_a_stop_all() {
        let devices = [DeviceInfo::block(1 << 24, 8), DeviceInfo::block(1 << 26, 8)];
        let layout = Layout::new(32, &devices).expect("both devices are large enough");
        let mut directory = Directory::new(&layout, [7; 16]);
        assert!(layout.directory > 70, "the second word has bits too");
        directory.note(3 * ENTRIES as u32);
        directory.must(66 * ENTRIES as u32);
        assert_eq!((directory.next(false), directory.next(false)), (Some(66), None));
        assert!(directory.is_at_end());
        directory.rewind();
        assert_eq!((directory.next(true), directory.next(true)), (Some(3), Some(66)));
        let mut buf = MetaBuf::new(1);
        let at = directory.seal(66, &mut buf.pages_mut()[0], false);
        assert_eq!(at, Layout::directory_at(66, 1));
        directory.seal(3, &mut buf.pages_mut()[0], true);
        directory.rewind();
        assert_eq!((directory.next(true), directory.next(true)), (Some(3), None));
    }
}

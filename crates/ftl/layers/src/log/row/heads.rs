//! The pages of a row's head, and copies of them for rows of one chunk, whose parities are the same
//! once more.

use alloc::vec::Vec;

use hostftl_core::MetaBuf;

#[derive(Debug)]
pub(crate) struct Heads {
    here: Vec<MetaBuf>,
    all: usize,
}

impl Heads {
    /// So many, each of so many pages.
    pub(crate) fn new(all: usize, pages: u32) -> Self {
        Heads { here: (0..all).map(|_| MetaBuf::new(pages as usize)).collect(), all }
    }

    /// How many are here.
    pub(crate) fn count(&self) -> usize {
        self.here.len()
    }

    /// How many are not.
    pub(crate) fn lacks(&self) -> usize {
        self.all - self.here.len()
    }

    /// Takes the one that was put back last.
    ///
    /// # Panics
    /// When none is here.
    pub(crate) fn take(&mut self) -> MetaBuf {
        self.here.pop().expect("a row has a head for each copy")
    }

    /// Takes one for another row, if one is here.
    pub(crate) fn give(&mut self) -> Option<MetaBuf> {
        self.here.pop()
    }

    /// One is back, or another in its place.
    pub(crate) fn put(&mut self, head: MetaBuf) {
        assert!(self.lacks() > 0, "no row has more heads than it began with");
        self.here.push(head);
    }

    /// All that are here become copies of so many pages of a head.
    pub(crate) fn copy(&mut self, head: &MetaBuf, pages: u32) {
        for copy in &mut self.here {
            let pages = ..pages as usize;
            copy.pages_mut()[pages].clone_from_slice(&head.pages()[pages]);
        }
    }
}

//! The pages of a row's head, and copies of them for rows of one chunk, whose parities are the same
//! once more.

use alloc::vec::Vec;

use hostftl_core::MetaBuf;

/// See the module text.
#[derive(Debug)]
pub struct Heads {
    here: Vec<MetaBuf>,
    all: usize,
}

impl Heads {
    /// So many, each of so many pages.
    pub fn new(all: usize, pages: u32) -> Self {
        Heads { here: (0..all).map(|_| MetaBuf::new(pages as usize)).collect(), all }
    }

    /// How many are here.
    pub fn count(&self) -> usize {
        self.here.len()
    }

    /// How many are not.
    pub fn lacks(&self) -> usize {
        self.all - self.here.len()
    }

    /// Takes the one that was put back last.
    ///
    /// # Panics
    /// When none is here.
    pub fn take(&mut self) -> MetaBuf {
        self.here.pop().expect("a row has a head for each copy")
    }

    /// Takes one for another row, if one is here.
    pub fn give(&mut self) -> Option<MetaBuf> {
        self.here.pop()
    }

    /// One is back, or another in its place.
    pub fn put(&mut self, head: MetaBuf) {
        assert!(self.lacks() > 0, "no row has more heads than it began with");
        self.here.push(head);
    }

    /// All that are here become copies of so many pages of a head.
    pub fn copy(&mut self, head: &MetaBuf, pages: u32) {
        for copy in &mut self.here {
            let pages = ..pages as usize;
            copy.pages_mut()[pages].clone_from_slice(&head.pages()[pages]);
        }
    }
}

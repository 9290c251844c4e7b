//! Head buffers of a stripe: the head, and copies of it for stripes of one chunk, whose parity
//! chunks are identical to the data.

use alloc::vec::Vec;

use hostftl_core::MetaBuf;

#[derive(Debug)]
pub(crate) struct Heads {
    here: Vec<MetaBuf>,
    all: usize,
}

impl Heads {
    /// Returns `all` buffers of `pages` pages each.
    pub(crate) fn new(all: usize, pages: u32) -> Self {
        Heads { here: (0..all).map(|_| MetaBuf::new(pages as usize)).collect(), all }
    }

    /// Returns the number of available buffers.
    pub(crate) fn count(&self) -> usize {
        self.here.len()
    }

    /// Returns the number of buffers in use.
    pub(crate) fn lacks(&self) -> usize {
        self.all - self.here.len()
    }

    /// Takes the buffer that was put back last.
    ///
    /// # Panics
    /// If none is available.
    pub(crate) fn take(&mut self) -> MetaBuf {
        self.here.pop().expect("a stripe has a head per copy")
    }

    /// Takes a buffer for another stripe, if one is available.
    pub(crate) fn give(&mut self) -> Option<MetaBuf> {
        self.here.pop()
    }

    /// Puts back a buffer, or a replacement for it.
    pub(crate) fn put(&mut self, head: MetaBuf) {
        assert!(self.lacks() > 0, "a stripe keeps its number of heads");
        self.here.push(head);
    }

    /// Copies `pages` pages of a head to all available buffers.
    pub(crate) fn copy(&mut self, head: &MetaBuf, pages: u32) {
        for copy in &mut self.here {
            let pages = ..pages as usize;
            copy.pages_mut()[pages].clone_from_slice(&head.pages()[pages]);
        }
    }
}

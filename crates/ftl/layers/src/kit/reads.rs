//! A batch of metadata reads, which recovery sends together and waits for.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Page, Target};

use super::metabuf::{MetaHome, into_meta};

/// Buffers and results of a batch of reads.
#[derive(Debug)]
pub(crate) struct Reads {
    bufs: Vec<MetaHome>,
    /// Whether each of the last reads failed.
    failed: Vec<bool>,
    pages: u32,
}

impl Reads {
    /// Creates a batch of up to `count` reads of `pages` pages each.
    pub(crate) fn new(count: usize, pages: u32) -> Self {
        let bufs = (0..count).map(|_| MetaHome::new(pages as usize)).collect();
        Reads { bufs, failed: alloc::vec![false; count], pages }
    }

    /// Returns read `index` of the batch, of the pages from sector `lba` on.
    ///
    /// # Panics
    /// If that read is in flight.
    pub(crate) fn begin(&mut self, index: usize, device: u8, lba: u64, cause: Cause) -> Command {
        let into = Target::Meta { buf: self.bufs[index].lend(), pages: self.pages };
        Command::Read { device, lba, into, cause }
    }

    /// Completes a read.
    pub(crate) fn end(&mut self, index: usize, command: Command, ok: bool) {
        self.bufs[index].take_back(into_meta(command));
        self.failed[index] = !ok;
    }

    /// Returns whether no read is in flight.
    pub(crate) fn are_back(&self) -> bool {
        self.bufs.iter().all(MetaHome::is_home)
    }

    /// Returns whether a read failed.
    pub(crate) fn failed(&self, index: usize) -> bool {
        self.failed[index]
    }

    /// Returns the pages of a read.
    ///
    /// # Panics
    /// If it is in flight.
    pub(crate) fn pages(&self, index: usize) -> &[Page] {
        self.bufs[index].pages()
    }
}

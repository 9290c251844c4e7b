//! A batch of reads of metadata: recovery sends some, and goes on when all are back.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Page, Target};

use super::metabuf::{MetaHome, meta_of};

#[derive(Debug)]
pub(crate) struct Reads {
    bufs: Vec<MetaHome>,
    /// Which of the last reads failed.
    failed: Vec<bool>,
    pages: u32,
}

impl Reads {
    /// Up to `count` reads at once, of `pages` pages each.
    pub(crate) fn new(count: usize, pages: u32) -> Self {
        let bufs = (0..count).map(|_| MetaHome::new(pages as usize)).collect();
        Reads { bufs, failed: alloc::vec![false; count], pages }
    }

    /// The read of the pages from sector `lba` on, as number `index` of the batch.
    ///
    /// # Panics
    /// When that read is under way.
    pub(crate) fn begin(&mut self, index: usize, device: u8, lba: u64, cause: Cause) -> Command {
        let into = Target::Meta { buf: self.bufs[index].lend(), pages: self.pages };
        Command::Read { device, lba, into, cause }
    }

    /// A read is over, well or not.
    pub(crate) fn end(&mut self, index: usize, command: Command, ok: bool) {
        self.bufs[index].take_back(meta_of(command));
        self.failed[index] = !ok;
    }

    /// Whether no read is under way.
    pub(crate) fn are_back(&self) -> bool {
        self.bufs.iter().all(MetaHome::is_home)
    }

    /// Whether a read failed.
    pub(crate) fn failed(&self, index: usize) -> bool {
        self.failed[index]
    }

    /// What a read brought.
    ///
    /// # Panics
    /// When it is under way.
    pub(crate) fn pages(&self, index: usize) -> &[Page] {
        self.bufs[index].pages()
    }
}

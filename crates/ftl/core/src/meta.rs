//! Metadata buffers. Unlike payload, they contain real bytes under every driver.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::words::BLOCK;

/// Metadata page of 4 KiB, aligned for direct transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(4096))]
pub struct Page(pub [u8; BLOCK]);

impl Default for Page {
    fn default() -> Self {
        Page([0; BLOCK])
    }
}

/// Run of metadata pages. It moves into a command and back with every use, so it is only one
/// pointer wide.
#[derive(Debug, Default)]
pub struct MetaBuf(Option<Box<Box<[Page]>>>);

impl MetaBuf {
    /// Creates a buffer of `pages` zeroed pages.
    pub fn new(pages: usize) -> Self {
        let mut list = Vec::with_capacity(pages);
        list.resize_with(pages, Page::default);
        MetaBuf(Some(Box::new(list.into_boxed_slice())))
    }

    /// Returns the pages.
    #[inline]
    pub fn pages(&self) -> &[Page] {
        self.0.as_ref().map_or(&[], |pages| pages)
    }

    /// Returns the pages for modification.
    #[inline]
    pub fn pages_mut(&mut self) -> &mut [Page] {
        self.0.as_mut().map_or(&mut [], |pages| pages)
    }
}

//! Metadata buffers: real bytes in every world, unlike payload.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::words::BLOCK;

/// One metadata page of 4 KiB, aligned so that a device can transfer it directly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(4096))]
pub struct Page(pub [u8; BLOCK]);

impl Default for Page {
    fn default() -> Self {
        Page([0; BLOCK])
    }
}

/// A run of metadata pages. It is moved into a command and comes back with it, often, and so it is
/// one pointer wide.
#[derive(Debug, Default)]
pub struct MetaBuf(Option<Box<Box<[Page]>>>);

impl MetaBuf {
    /// A buffer of `pages` zeroed pages.
    pub fn new(pages: usize) -> Self {
        let mut list = Vec::with_capacity(pages);
        list.resize_with(pages, Page::default);
        MetaBuf(Some(Box::new(list.into_boxed_slice())))
    }

    /// The pages.
    #[inline]
    pub fn pages(&self) -> &[Page] {
        self.0.as_ref().map_or(&[], |pages| pages)
    }

    /// The pages, to change.
    #[inline]
    pub fn pages_mut(&mut self) -> &mut [Page] {
        self.0.as_mut().map_or(&mut [], |pages| pages)
    }
}

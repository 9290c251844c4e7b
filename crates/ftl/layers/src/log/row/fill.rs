//! How far the chunks of a row are filled.
//!
//! Invariants
//! - No record lies in two chunks, and chunks are filled one after the other.
//! - Nothing is used of the chunks behind the one that is filled.

use hostftl_format::log::GRAIN;

/// See the module text. Lengths are in bytes.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    /// Of each chunk.
    size: u32,
    /// Chunks that there may be.
    most: u32,
    /// The chunk that is filled now.
    chunk: u8,
    used: [u32; 16],
    /// What is a copy, of what is used.
    copied: [u32; 16],
}

impl Fill {
    /// At most so many chunks of a size, with nothing in them but so much of the first.
    pub(crate) fn new(most: u32, size: u32, head: u32) -> Self {
        let mut fill = Fill { size, most, ..Fill::default() };
        fill.used[0] = head;
        fill
    }

    /// The size of each chunk.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Chunks that have anything.
    pub(crate) fn chunks(&self) -> u32 {
        u32::from(self.chunk) + 1
    }

    /// How much is used of a chunk.
    #[inline]
    pub(crate) fn used(&self, chunk: u32) -> u32 {
        self.used[chunk as usize]
    }

    /// How much of a chunk is copies.
    pub(crate) fn copied(&self, chunk: u32) -> u32 {
        self.copied[chunk as usize]
    }

    /// Whether a record of `len` bytes would be in the chunk that is filled now.
    #[inline]
    pub(crate) fn continues(&self, len: u32) -> bool {
        self.used[self.chunk as usize] + len.next_multiple_of(GRAIN) <= self.size
    }

    /// Takes room for a record of `len` bytes: the chunk and the byte in it. `None` when full.
    #[inline]
    pub(crate) fn take(&mut self, len: u32) -> Option<(u8, u32)> {
        while !self.continues(len) {
            if self.chunks() == self.most {
                return None;
            }
            self.chunk += 1;
        }
        let used = &mut self.used[self.chunk as usize];
        let byte = *used;
        *used += len.next_multiple_of(GRAIN);
        Some((self.chunk, byte))
    }

    /// The record of `len` bytes that took room in a chunk is a copy.
    pub(crate) fn mark_copy(&mut self, chunk: u8, len: u32) {
        let copied = &mut self.copied[usize::from(chunk)];
        *copied += len.next_multiple_of(GRAIN);
        assert!(*copied <= self.used[usize::from(chunk)], "what is a copy took room");
    }
}

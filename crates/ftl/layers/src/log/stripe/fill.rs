//! Fill level of the chunks of a stripe.
//!
//! Invariants
//! - No record spans two chunks, and chunks are filled one after the other.
//! - The chunks after the current one are empty.

use hostftl_format::log::GRAIN;

/// Fill level of a stripe. Lengths are in bytes.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    /// Size of each chunk.
    size: u32,
    /// Maximum number of chunks.
    most: u32,
    /// Chunk that is being filled.
    chunk: u8,
    used: [u32; 16],
    /// Copied bytes of each chunk.
    copied: [u32; 16],
}

impl Fill {
    /// Returns an empty stripe of at most `most` chunks of `size` bytes, with `head` bytes used in
    /// the first.
    pub(crate) fn new(most: u32, size: u32, head: u32) -> Self {
        let mut fill = Fill { size, most, ..Fill::default() };
        fill.used[0] = head;
        fill
    }

    /// Returns the size of each chunk.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Returns the number of chunks that are not empty.
    pub(crate) fn chunks(&self) -> u32 {
        u32::from(self.chunk) + 1
    }

    /// Returns the used bytes of a chunk.
    #[inline]
    pub(crate) fn used(&self, chunk: u32) -> u32 {
        self.used[chunk as usize]
    }

    /// Returns the copied bytes of a chunk.
    pub(crate) fn copied(&self, chunk: u32) -> u32 {
        self.copied[chunk as usize]
    }

    /// Returns whether a record of `len` bytes fits into the current chunk.
    #[inline]
    pub(crate) fn continues(&self, len: u32) -> bool {
        self.used[self.chunk as usize] + len.next_multiple_of(GRAIN) <= self.size
    }

    /// Reserves space for a record of `len` bytes. Returns the chunk and the byte in it, or `None`
    /// if the stripe is full.
    #[inline]
    pub(crate) fn take(&mut self, len: u32) -> Option<(u8, u32)> {
        while !self.continues(len) {
            // The rest of the current chunk stays unused, because no record spans two chunks.
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

    /// Counts a record of `len` bytes in a chunk as a copy.
    pub(crate) fn mark_copy(&mut self, chunk: u8, len: u32) {
        let copied = &mut self.copied[usize::from(chunk)];
        *copied += len.next_multiple_of(GRAIN);
        assert!(*copied <= self.used[usize::from(chunk)], "a copy took space");
    }
}

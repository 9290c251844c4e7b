//! Prefetch of table entries that later writes will change. It has no effect on the state.
//!
//! The second step starts from entries that the first one fetched, so there should be some time
//! between them.

use std::hint::black_box;

use prefetch_index::prefetch_index;

use super::collect::lowest;
use super::{BITS, Pool, bits};

/// Page numbers (`u32`) in a cache line of 64 bytes.
const IN_A_LINE: usize = 16;

impl Pool {
    /// Prefetches the map entry of a logical page that will be written soon.
    #[inline]
    pub(crate) fn ask_for_map(&self, logical: u32) {
        prefetch_index(&self.map, logical as usize);
    }

    /// Prefetches the entries that change when the write invalidates the old page: its bit, its
    /// segment, and the policy's entry of the segment.
    #[inline]
    pub(crate) fn ask_for_counts(&self, logical: u32) {
        if let Some(page) = self.find(logical) {
            let (word, segment, _) = self.bit(page);
            prefetch_index(&self.stale, word);
            prefetch_index(&self.segments, segment as usize);
            black_box(self.policy.beside(segment));
        }
    }

    /// Prefetches the logical numbers of a victim's first pages.
    pub(super) fn ask_for_back(&self, segment: u32) {
        prefetch_index(&self.back, (segment * self.spec.pages) as usize);
    }

    /// Prefetches the map entries of the first valid pages in a word of a victim, at most `most`,
    /// and the logical numbers of the pages after them.
    #[inline]
    pub(super) fn ask_for_moved(&self, segment: u32, word: u32, most: u32) {
        let words = self.spec.pages.div_ceil(BITS);
        if word < words {
            let from = segment * self.spec.pages + word * BITS;
            let live = lowest(!self.stale[(segment * words + word) as usize], most);
            bits(live).for_each(|bit| self.ask_for_map(self.back[(from + bit) as usize]));
            let end = from + (BITS - live.leading_zeros());
            prefetch_index(&self.back, end as usize + IN_A_LINE);
        }
    }
}

//! A look at what writes will change, before they do: what the caches lack of it is asked for, and
//! nobody waits until it comes. It changes nothing.
//!
//! The second look goes on from what the first asked for, so between the two there should be time.

use std::hint::black_box;

use prefetch_index::prefetch_index;

use super::collect::lowest;
use super::{BITS, Pool, bits};

/// Pages whose numbers are in a line of a cache.
const IN_A_LINE: usize = 16;

impl Pool {
    /// The first look: where the logical page lies that is written soon.
    #[inline]
    pub(crate) fn ask_for_map(&self, logical: u32) {
        prefetch_index(&self.map, logical as usize);
    }

    /// The second look: what counts the page that the write makes stale, and lists its segment.
    #[inline]
    pub(crate) fn ask_for_counts(&self, logical: u32) {
        if let Some(page) = self.find(logical) {
            let (word, segment, _) = self.bit(page);
            prefetch_index(&self.stale, word);
            prefetch_index(&self.segments, segment as usize);
            black_box(self.policy.beside(segment));
        }
    }

    /// What a victim's first pages hold.
    pub(super) fn ask_for_back(&self, segment: u32) {
        prefetch_index(&self.back, (segment * self.spec.pages) as usize);
    }

    /// Where the map has what the first live pages of a word of a victim hold, so many at most, and
    /// what those after them hold.
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

//! A look at what writes will change, before they do: what the caches lack of it is asked for, and
//! nobody waits until it comes. It changes nothing.
//!
//! The second look goes on from what the first asked for, so between the two there should be time.

use std::hint::black_box;

use prefetch_index::prefetch_index;

use super::{BITS, Pool, bits};

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

    /// The first look at the live pages of a word of a victim: what they hold.
    pub(super) fn ask_for_back(&self, segment: u32, word: u32) {
        if word < self.spec.pages.div_ceil(BITS) {
            let from = segment * self.spec.pages + word * BITS;
            (0..BITS).step_by(16).for_each(|bit| prefetch_index(&self.back, (from + bit) as usize));
        }
    }

    /// The second look: where the map has what they hold.
    pub(super) fn ask_for_moved(&self, segment: u32, word: u32) {
        let words = self.spec.pages.div_ceil(BITS);
        if word < words {
            let from = segment * self.spec.pages + word * BITS;
            let live = !self.stale[(segment * words + word) as usize];
            bits(live).for_each(|bit| self.ask_for_map(self.back[(from + bit) as usize]));
        }
    }
}

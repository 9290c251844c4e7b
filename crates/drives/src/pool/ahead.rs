//! A look at what writes will change, before they do: what the caches lack of it comes for many
//! writes at the same time. It changes nothing.
//!
//! Each pass looks at what the pass before has found, so all writes have one pass before any has
//! the next.

use std::hint::black_box;

use super::collect::GC;
use super::{BITS, NONE, Pool, bits};

/// How many of the next copies of a victim are looked at; most writes make one or two.
const COPIES: usize = 2;

impl Pool {
    /// The places of logical pages that are written soon, and what the next copies copy.
    #[inline]
    pub(crate) fn look_at_map(&self, logical: u32) {
        black_box(self.map[logical as usize]);
        black_box(self.next_copies().fold(0, |sum, page| sum ^ self.back[page as usize]));
    }

    /// What counts the page that a write makes stale, and the map of what is copied.
    #[inline]
    pub(crate) fn look_at_counts(&self, logical: u32) {
        let moved = self.next_copies().map(|page| self.back[page as usize]);
        black_box(moved.fold(0, |sum, logical| sum ^ self.map[logical as usize]));
        if let Some(page) = self.find(logical) {
            let (word, segment, _) = self.bit(page);
            black_box(self.stale[word]);
            black_box(self.segments[segment as usize].stale);
            black_box(self.policy.beside(segment));
        }
    }

    /// The neighbours in the policy's lists of the segment that a write changes.
    #[inline]
    pub(crate) fn look_at_lists(&self, logical: u32) {
        if let Some(page) = self.find(logical) {
            let [before, after] = self.policy.beside(self.bit(page).1);
            black_box((self.policy.beside(before), self.policy.beside(after)));
        }
    }

    /// The pages that the victim of collection loses next.
    #[inline]
    fn next_copies(&self) -> impl Iterator<Item = u32> {
        let victim = &self.victims_now[GC];
        let (word, words) = (victim.word, self.spec.pages.div_ceil(BITS));
        let (segment, live) = match victim.segment != NONE && word < words {
            true => (victim.segment, !self.stale[(victim.segment * words + word) as usize]),
            false => (0, 0),
        };
        let from = segment * self.spec.pages + word * BITS;
        bits(live).take(COPIES).map(move |bit| from + bit)
    }
}

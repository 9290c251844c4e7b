//! A look at what writes will change, before they do: what the caches lack of it comes for many
//! writes at the same time. It changes nothing.
//!
//! Each pass looks at what passes before have found, so all writes have one pass before any has the
//! next; and each is short, so that a processor has many of it under way. What a pass gives has no
//! meaning but that it was looked at.

use super::collect::GC;
use super::{BITS, NONE, Pool, bits};

/// How many of the next copies of a victim are looked at; most writes make one or two.
const COPIES: usize = 2;

impl Pool {
    /// The first pass: where the logical page lies that is written soon.
    #[inline]
    pub(crate) fn look_at_map(&self, logical: u32) -> u64 {
        self.map[logical as usize].into()
    }

    /// The second pass: what the next copies copy, whatever is written.
    #[inline]
    pub(crate) fn look_at_victim(&self, _logical: u32) -> u64 {
        self.next_copies().fold(0, |sum, page| sum ^ u64::from(self.back[page as usize]))
    }

    /// The third pass: what counts the page that the write makes stale.
    #[inline]
    pub(crate) fn look_at_counts(&self, logical: u32) -> u64 {
        self.find(logical).map_or(0, |page| {
            let (word, segment, _) = self.bit(page);
            let [before, after] = self.policy.beside(segment);
            let stale = self.segments[segment as usize].stale;
            self.stale[word] ^ u64::from(stale ^ before ^ after)
        })
    }

    /// The fourth pass: the map of what is copied.
    #[inline]
    pub(crate) fn look_at_copies(&self, _logical: u32) -> u64 {
        let copied = self.next_copies().map(|page| self.back[page as usize]);
        copied.fold(0, |sum, logical| sum ^ u64::from(self.map[logical as usize]))
    }

    /// The last pass: the neighbours in the policy's lists of the segment that the write changes.
    #[inline]
    pub(crate) fn look_at_lists(&self, logical: u32) -> u64 {
        self.find(logical).map_or(0, |page| {
            let [before, after] = self.policy.beside(self.bit(page).1);
            u64::from(self.policy.beside(before)[0] ^ self.policy.beside(after)[0])
        })
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

//! A look at what writes will change, before they do: what the caches lack of it comes for many
//! writes at the same time. It changes nothing.
//!
//! Each pass looks at what passes before have found, so all writes have one pass before any has the
//! next; and each is short, so that a processor has many of it under way. What a pass gives has no
//! meaning but that it was looked at.

use super::Pool;

impl Pool {
    /// The first pass: where the logical page lies that is written soon.
    #[inline]
    pub(crate) fn look_at_map(&self, logical: u32) -> u64 {
        self.map[logical as usize].into()
    }

    /// The second pass: what counts the page that the write makes stale.
    #[inline]
    pub(crate) fn look_at_counts(&self, logical: u32) -> u64 {
        self.find(logical).map_or(0, |page| {
            let (word, segment, _) = self.bit(page);
            let [before, after] = self.policy.beside(segment);
            let stale = self.segments[segment as usize].stale;
            self.stale[word] ^ u64::from(stale ^ before ^ after)
        })
    }

    /// The last pass: the neighbours in the policy's lists of the segment that the write changes.
    #[inline]
    pub(crate) fn look_at_lists(&self, logical: u32) -> u64 {
        self.find(logical).map_or(0, |page| {
            let [before, after] = self.policy.beside(self.bit(page).1);
            u64::from(self.policy.beside(before)[0] ^ self.policy.beside(after)[0])
        })
    }
}

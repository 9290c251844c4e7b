//! Collection hint: the next victim of a pool and its valid logical pages.

use super::collect::GC;
use super::{BITS, NONE, Pool};

impl Pool {
    /// Returns the present victim, or the segment that would be chosen now. The choice can change
    /// with every write.
    pub fn next_victim(&mut self) -> Option<u32> {
        if self.victims_now[GC].segment != NONE {
            return Some(self.victims_now[GC].segment);
        }
        self.victim_after()
    }

    /// Returns the segment that would be chosen now, excluding the present victim.
    pub fn victim_after(&mut self) -> Option<u32> {
        let (pages, segments) = (self.spec.pages, &self.segments);
        self.policy.peek(self.work.host, |index| pages - segments[index as usize].stale)
    }

    /// Returns the valid logical pages of a segment, in physical order.
    ///
    /// # Panics
    /// When there is no such segment.
    pub fn live_pages(&self, segment: u32) -> impl Iterator<Item = u32> {
        let pages = self.spec.pages;
        let words = pages.div_ceil(BITS);
        let begin = segment * pages;
        (begin..self.written(segment)).filter_map(move |page| {
            let within = page - begin;
            let word = self.stale[(segment * words + within / BITS) as usize];
            (word >> (within % BITS) & 1 == 0).then(|| self.back[page as usize])
        })
    }
}

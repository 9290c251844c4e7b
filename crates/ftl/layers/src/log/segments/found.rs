//! Use of segments as found by recovery.

use super::{Segments, State};

impl Segments {
    /// Marks a segment as in use.
    pub(crate) fn claim(&mut self, segment: u32, of_map: bool) {
        let it = self.at(segment);
        if it.state == State::Free {
            it.go(State::Open);
            it.of_map = of_map;
            it.left = true;
        }
    }

    /// Marks a segment with stripe `seq` as in use. Replay needs it until the next root.
    pub(crate) fn claim_stripe(&mut self, segment: u32, of_map: bool, seq: u64) {
        self.claim(segment, of_map);
        self.at(segment).last = seq;
    }

    /// Returns whether a segment is neither in use nor about to be erased.
    pub(crate) fn is_unused(&self, segment: u32) -> bool {
        matches!(self.list[segment as usize].state, State::Free | State::Retired)
    }

    /// Finds the free segments after recovery has claimed those in use. Free segments that are
    /// `dirty` must be erased first.
    pub(crate) fn rebuild(&mut self, dirty: impl Fn(u32) -> bool, width: impl Fn(u32) -> u32) {
        // Waiting parts evaluate the free segments again.
        self.reuse.change();
        self.free.clear();
        for index in 0..self.list.len() as u32 {
            self.at(index).widths.stripes = width(index) as u8;
            let it = self.list[index as usize];
            // Map images in such a segment were replaced by durable stripes.
            let unused = it.valid == 0 && it.last == 0;
            if unused && dirty(index) {
                self.at(index).found_unused(State::Empty);
                self.dirty.push_back(index);
            } else if unused {
                self.at(index).found_unused(State::Free);
                self.set_free(index);
            } else {
                assert_ne!(it.state, State::Free, "a valid block was claimed");
                self.settle(index);
            }
        }
    }
}

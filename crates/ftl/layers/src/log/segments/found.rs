//! What recovery finds of segments: which are in use, and which are free.

use super::{Segments, State};

impl Segments {
    /// Takes this one, as recovery found it in use.
    pub(crate) fn claim(&mut self, segment: u32, of_map: bool) {
        let it = self.at(segment);
        if it.state == State::Free {
            it.go(State::Open);
            it.of_map = of_map;
            it.left = true;
        }
    }

    /// As [`Segments::claim`], for one with row `seq`, which replay needs until the next root.
    pub(crate) fn claim_row(&mut self, segment: u32, of_map: bool, seq: u64) {
        self.claim(segment, of_map);
        self.at(segment).last = seq;
    }

    /// Whether nothing in a segment is needed, and nothing will be done with what is in it.
    pub(crate) fn is_unused(&self, segment: u32) -> bool {
        matches!(self.list[segment as usize].state, State::Free | State::Retired)
    }

    /// Finds out which are free, after recovery has claimed those in use; those that are `dirty`
    /// have to be erased first.
    pub(crate) fn rebuild(&mut self, dirty: impl Fn(u32) -> bool, width: impl Fn(u32) -> u32) {
        self.reuse.change();
        self.free.clear();
        for index in 0..self.list.len() as u32 {
            self.at(index).widths.rows = width(index) as u8;
            let it = self.list[index as usize];
            // What the images show there was replaced by rows that are durable.
            let unused = it.live == 0 && it.last == 0;
            if unused && dirty(index) {
                self.at(index).found_unused(State::Empty);
                self.dirty.push_back(index);
            } else if unused {
                self.at(index).found_unused(State::Free);
                self.set_free(index);
            } else {
                assert_ne!(it.state, State::Free, "what is live was claimed");
                self.settle(index);
            }
        }
    }
}

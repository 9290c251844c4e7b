//! Segments that are zones: what must be erased first, and what is left because a zone failed.

use super::{Segments, State};

impl Segments {
    /// Whether this one is full of images of the map.
    pub(crate) fn is_full_map(&self, segment: u32) -> bool {
        let it = &self.list[segment as usize];
        it.of_map && it.state == State::Full
    }

    /// Whether nothing is live in it, and nothing will be.
    pub(crate) fn is_empty_or_gone(&self, segment: u32) -> bool {
        matches!(self.list[segment as usize].state, State::Empty | State::Retired)
    }

    /// A segment out of use is never opened again.
    pub(crate) fn retire(&mut self, segment: u32) {
        let it = self.at(segment);
        it.go(State::Retired);
        self.reuse.change();
    }

    /// Whether no row will be written to a segment.
    pub(crate) fn is_left(&self, segment: u32) -> bool {
        self.list[segment as usize].state != State::Open
    }

    /// Whether nothing has to be erased before it can be used.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }
}

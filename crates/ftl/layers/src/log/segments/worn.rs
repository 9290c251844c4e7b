//! Segments of zoned devices: those that must be erased first, and those with a failed zone.

use super::{Segments, State};

impl Segments {
    /// Returns whether a segment is full of images of the map.
    pub(crate) fn is_full_map(&self, segment: u32) -> bool {
        let it = &self.list[segment as usize];
        it.of_map && it.state == State::Full
    }

    /// Returns whether a segment has no valid data and will not receive any.
    pub(crate) fn is_empty_or_retired(&self, segment: u32) -> bool {
        matches!(self.list[segment as usize].state, State::Empty | State::Retired)
    }

    /// Excludes a reclaimed segment from reuse.
    pub(crate) fn retire(&mut self, segment: u32) {
        let it = self.at(segment);
        it.go(State::Retired);
        self.reuse.change();
    }

    /// Returns whether no stripe will be written to a segment.
    pub(crate) fn is_left(&self, segment: u32) -> bool {
        self.list[segment as usize].state != State::Open
    }

    /// Returns whether no segment must be erased before its use.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }
}

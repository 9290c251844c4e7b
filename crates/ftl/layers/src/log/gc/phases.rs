//! Phases of a single stream: at each segment boundary, the layer decides whether the next segment
//! is filled by the host or by garbage collection.
//!
//! A device without placement ids fills its reclaim units in the order of arrival. Streams that
//! are written side by side mix data of different lifetimes in each unit, and the device copies
//! the part that stays valid. Phases separate lifetimes in time instead.
//!
//! Host writes do not wait for the end of a collection phase: they join it. They are limited only
//! if the host would fill more than half of the segment. The more of a segment the host fills, the
//! more garbage collection copies later.

use hostftl_core::Nanos;

use crate::log::segments::Segments;

/// Limit of the host bytes that join a collection phase, in percent of the moved bytes.
const JOIN: u64 = 25;

/// Current phase.
#[derive(Debug)]
pub(super) struct Phases {
    /// Whether garbage collection fills the current segment.
    collects: bool,
    /// Segments opened for data when the phase began, and the time then.
    opened: u64,
    since: Nanos,
    /// Durations of the last phase of the host and of the last collection phase.
    host_took: Nanos,
    collection_took: Nanos,
}

impl Phases {
    /// Begins with a phase of the host.
    pub(super) fn new() -> Self {
        Phases { collects: false, opened: 0, since: 0, host_took: 0, collection_took: 0 }
    }

    /// Returns whether garbage collection fills the current segment.
    pub(super) fn collects(&self) -> bool {
        self.collects
    }

    /// Decides the phase at a segment boundary: garbage collection, if free segments are `scarce`.
    /// A phase of the host ends early if no segment is left for it.
    pub(super) fn turn(&mut self, scarce: bool, segments: &Segments, now: Nanos) {
        let opened = segments.reuse().opened();
        if core::mem::replace(&mut self.opened, opened) != opened {
            let took = now - core::mem::replace(&mut self.since, now);
            *if self.collects { &mut self.collection_took } else { &mut self.host_took } = took;
            self.collects = scarce;
        }
        self.collects |= segments.free() <= segments.reserves().host;
    }

    /// Returns the maximum number of host bytes that may join `moved` moved bytes.
    pub(super) fn joining(&self, moved: u64) -> u64 {
        // A host that alone takes twice as long for a segment fills at most half of the next one.
        // Without a clock, no phase takes any time.
        let is_slow = self.host_took > 0 && self.host_took >= 2 * self.collection_took;
        if is_slow { u64::MAX } else { moved * JOIN / 100 }
    }
}

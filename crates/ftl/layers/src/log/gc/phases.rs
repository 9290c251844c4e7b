//! Phases of a single stream: at each segment boundary, the layer decides whether the next segment
//! is filled by the host or by garbage collection.
//!
//! A device without placement ids fills its reclaim units in the order of arrival. Streams that
//! are written side by side mix data of different lifetimes in each unit, and the device copies
//! the part that stays valid. Phases separate lifetimes in time instead.
//!
//! Host writes do not wait for the end of a collection phase: they join it. The more of a segment
//! the host fills, the more garbage collection copies later. Therefore a host that saturates the
//! devices is limited: with fewer copies, it writes more in total.

use crate::log::segments::Segments;
use crate::planted::{Bug, planted};

/// Limit of the host bytes that join a collection phase, in percent of the moved bytes.
const JOIN: u64 = 25;
/// A host that has on average this number of requests in flight during a phase of its own saturates
/// the devices.
const MANY: u64 = 16;
/// Number of further requests in flight at which the limit is lifted: the host does not wait for
/// answers, so the limit would only lengthen the queue.
const MORE: u64 = 8;

/// Current phase.
#[derive(Debug)]
pub(super) struct Phases {
    /// Whether garbage collection fills the current segment.
    collects: bool,
    /// Segments opened for data when the phase began.
    opened: u64,
    /// Samples of the requests in flight in the current phase of the host, and their sum.
    samples: u64,
    requests: u64,
    /// Mean number of requests in flight in the last phase of the host.
    usual: u64,
    /// Bytes that the host may add; the last record may overdraw them.
    room: i64,
    /// Upper limit of these bytes.
    most: i64,
}

impl Phases {
    /// Begins with a phase of the host, which may later add up to `most` bytes at once.
    pub(super) fn new(most: i64) -> Self {
        Phases { collects: false, opened: 0, samples: 0, requests: 0, usual: 0, room: most, most }
    }

    /// Returns whether garbage collection fills the current segment.
    pub(super) fn collects(&self) -> bool {
        self.collects
    }

    /// Decides the phase at a segment boundary: garbage collection, if free segments are `scarce`.
    /// A phase of the host ends early if no segment is left for it. `requests` are in flight.
    pub(super) fn turn(&mut self, scarce: bool, segments: &Segments, requests: u32) {
        let is_out = segments.free() <= segments.reserves().host;
        self.turn_at(segments.reuse().opened(), (scarce, is_out), requests);
    }

    /// Does the same after `opened` segments were opened. `is_out` is true if none is left for the
    /// host.
    fn turn_at(&mut self, opened: u64, (scarce, is_out): (bool, bool), requests: u32) {
        if !self.collects {
            (self.samples, self.requests) = (self.samples + 1, self.requests + u64::from(requests));
        }
        if core::mem::replace(&mut self.opened, opened) != opened {
            if !self.collects {
                self.usual = self.requests / self.samples.max(1);
                (self.samples, self.requests) = (0, 0);
            }
            self.collects = scarce;
        }
        self.collects = (self.collects || is_out) && !planted(Bug::HostPhaseOnly);
    }

    /// Grants the host its share of `moved` moved bytes.
    pub(super) fn pay(&mut self, moved: u64) {
        self.room = self.most.min(self.room + (moved * JOIN / 100) as i64);
    }

    /// Charges the host for `bytes` bytes.
    pub(super) fn take(&mut self, bytes: u32) {
        // A host that is not limited incurs no debt.
        self.room = (self.room - i64::from(bytes)).max(-self.most);
    }

    /// Returns whether host writes must wait until more bytes are moved; `requests` are in flight.
    pub(super) fn is_full(&self, requests: u32) -> bool {
        let saturates = self.usual >= MANY && u64::from(requests) <= self.usual + MORE;
        saturates && self.room <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_change_at_segment_boundaries() {
        let mut it = Phases::new(1000);
        it.turn_at(2, (false, false), 1);
        it.turn_at(2, (true, false), 1);
        assert!(!it.collects(), "within a segment nothing changes");
        it.turn_at(3, (true, false), 1);
        it.turn_at(3, (false, false), 1);
        assert!(it.collects());
        it.turn_at(4, (false, false), 1);
        assert!(!it.collects());
        it.turn_at(4, (true, true), 1);
        assert!(it.collects(), "no segment is left for the host");
    }

    /// Returns phases of a host that had a number of requests in flight and used up its share.
    fn used_up(requests: u32) -> Phases {
        let mut it = Phases::new(1000);
        it.turn_at(2, (false, false), requests);
        (0..10).for_each(|_| it.turn_at(2, (false, false), requests));
        it.turn_at(3, (true, false), requests);
        it.take(1001);
        it
    }

    #[test]
    fn a_host_that_saturates_the_devices_is_limited() {
        assert!(!used_up(15).is_full(15) && used_up(16).is_full(16));
        let mut it = used_up(32);
        assert!(it.is_full(40) && !it.is_full(41), "its queue grows");
        it.pay(4 * 1000 - 1);
        assert!(!it.is_full(32), "a quarter of the moved bytes");
        (0..10).for_each(|_| it.take(1000));
        it.pay(4 * 1001);
        assert!(!it.is_full(32), "debt is bounded");
    }
}

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
        if !self.collects {
            (self.samples, self.requests) = (self.samples + 1, self.requests + u64::from(requests));
        }
        let opened = segments.reuse().opened();
        if core::mem::replace(&mut self.opened, opened) != opened {
            if !self.collects {
                self.usual = self.requests / self.samples.max(1);
                (self.samples, self.requests) = (0, 0);
            }
            self.collects = scarce;
        }
        self.collects |= segments.free() <= segments.reserves().host;
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

//! Repairs by a scrub, until they are durable.
//!
//! A flawed segment is repaired by garbage collection, which moves its valid data to open stripes,
//! and by a checkpoint, which moves its images of the map. Both are volatile: after a power loss
//! the map points at the flawed segment again. A repair is durable once a root is durable that was
//! started after all flawed segments were moved, because such a root waits for all stripes that
//! were open then.
//!
//! Invariants
//! - The recorded position never passes a flawed segment whose repair is not durable.
//! - A repair is counted once, when it is durable.

use crate::log::segments::Segments;
use crate::planted::{Bug, planted};

/// Wrong stripes, and the first of their segments.
#[derive(Clone, Copy, Debug)]
struct Found {
    segment: u32,
    stripes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// Stripes in segments that are flawed, or were since the last time when none was.
    found: Option<Found>,
    /// Stripes that were moved, and the number of roots started before. Any later root makes the
    /// repair durable.
    moved: Option<(Found, u64)>,
    /// Stripes whose repair is durable.
    durable: u64,
    /// Stripes that could not be moved, as counted by [`Segments::unrepaired`] at the start.
    unrepaired_before: u64,
}

impl Repairs {
    /// Starts counting for a new scrub.
    pub(super) fn begin(&mut self, segments: &Segments) {
        *self = Repairs { unrepaired_before: segments.unrepaired(), ..Repairs::default() };
    }

    /// Counts a wrong stripe with valid data in a segment.
    pub(super) fn found(&mut self, segment: u32) {
        let first = self.found.map_or(segment, |found| found.segment.min(segment));
        let stripes = self.found.map_or(0, |found| found.stripes) + 1;
        self.found = Some(Found { segment: first, stripes });
    }

    /// Records moved data and repairs that became durable.
    pub(super) fn observe(&mut self, segments: &Segments) {
        let reuse = segments.reuse();
        if let Some((found, roots)) = self.moved
            && (reuse.is_behind_root(roots) || planted(Bug::RepairReportedEarly))
        {
            self.durable += found.stripes;
            self.moved = None;
        }
        if segments.flawed() == 0 && self.moved.is_none() {
            self.moved = self.found.take().map(|found| (found, reuse.roots()));
        }
    }

    /// Returns the first segment with a repair that is not durable.
    pub(super) fn first(&self) -> Option<u32> {
        let moved = self.moved.map(|(found, _)| found);
        moved.into_iter().chain(self.found).map(|found| found.segment).min()
    }

    /// Returns whether all repairs are durable.
    pub(super) fn are_durable(&self) -> bool {
        self.found.is_none() && self.moved.is_none()
    }

    /// Returns whether repairs only wait for a root to become durable.
    pub(super) fn wait_for_root(&self) -> bool {
        self.moved.is_some()
    }

    /// Returns the number of stripes whose repair is durable, and of stripes that are still wrong
    /// or may be after a power loss.
    pub(super) fn outcome(&self, segments: &Segments) -> (u64, u64) {
        let moved = self.moved.map(|(found, _)| found);
        let volatile: u64 = moved.into_iter().chain(self.found).map(|found| found.stripes).sum();
        let unrepaired = segments.unrepaired() - self.unrepaired_before;
        // Stripes that were given up count as moved once no segment is flawed any more.
        (self.durable.saturating_sub(unrepaired), volatile + unrepaired)
    }
}

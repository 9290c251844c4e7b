//! Repairs that a scrub has caused, until they are durable.
//!
//! A flawed segment is repaired by garbage collection, which moves its valid data to open rows, and
//! by a checkpoint, which moves its images of the map. Both are volatile: after a power cut the map
//! points at the flawed segment again. A repair is durable once a root is durable that was begun
//! after nothing flawed was left, because such a root waits for all rows that were open then.
//!
//! Invariants
//! - The recorded position passes no flawed segment whose repair is not durable.
//! - A repair is counted when it is durable, and once.

use crate::log::segments::Segments;
use crate::planted::{Bug, planted};

/// Rows that were found wrong, and the first segment of them.
#[derive(Clone, Copy, Debug)]
struct Found {
    segment: u32,
    rows: u64,
}

#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// In segments that are flawed, or were since nothing was.
    found: Option<Found>,
    /// Moved, and durable with a root that is begun after this many.
    moved: Option<(Found, u64)>,
    /// Rows that are repaired durably.
    durable: u64,
    /// Rows that could not be moved, as [`Segments::unrepaired`] counted them at the beginning.
    given_up: u64,
}

impl Repairs {
    /// A scrub begins.
    pub(super) fn begin(&mut self, segments: &Segments) {
        *self = Repairs { given_up: segments.unrepaired(), ..Repairs::default() };
    }

    /// A row of a segment is wrong and has valid data.
    pub(super) fn found(&mut self, segment: u32) {
        let first = self.found.map_or(segment, |found| found.segment.min(segment));
        let rows = self.found.map_or(0, |found| found.rows) + 1;
        self.found = Some(Found { segment: first, rows });
    }

    /// Records moved data and repairs that became durable.
    pub(super) fn observe(&mut self, segments: &Segments) {
        let reuse = segments.reuse();
        if let Some((found, roots)) = self.moved
            && (reuse.is_behind_root(roots) || planted(Bug::RepairReportedEarly))
        {
            self.durable += found.rows;
            self.moved = None;
        }
        if segments.flawed() == 0 && self.moved.is_none() {
            self.moved = self.found.take().map(|found| (found, reuse.roots()));
        }
    }

    /// The first segment with a repair that is not durable.
    pub(super) fn first(&self) -> Option<u32> {
        let moved = self.moved.map(|(found, _)| found);
        moved.into_iter().chain(self.found).map(|found| found.segment).min()
    }

    /// Whether all repairs are durable.
    pub(super) fn are_durable(&self) -> bool {
        self.found.is_none() && self.moved.is_none()
    }

    /// Whether a root is all that is missing to make repairs durable.
    pub(super) fn wait_for_root(&self) -> bool {
        self.moved.is_some()
    }

    /// Rows that are repaired durably, and rows that are wrong still, or may be after a power cut.
    pub(super) fn outcome(&self, segments: &Segments) -> (u64, u64) {
        let moved = self.moved.map(|(found, _)| found);
        let volatile: u64 = moved.into_iter().chain(self.found).map(|found| found.rows).sum();
        let given_up = segments.unrepaired() - self.given_up;
        // They count as moved once nothing is flawed any more.
        (self.durable.saturating_sub(given_up), volatile + given_up)
    }
}

//! Parameters of a pool, and the check that such a pool is possible.

use hostftl_layers::policy::{Frontiers, GcPolicy, Victims};
use thiserror::Error;

use super::{BITS, Frontier, NONE, Segment};

/// Garbage collection at a limited rate that starts before free space runs out. Without a limit it
/// would only reduce the spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyGc {
    /// Free segments, besides those kept out of circulation, below which it starts.
    pub segments: u32,
    /// Maximum number of copies per 100 host writes while more than the segments kept out of
    /// circulation are free.
    pub percent: u32,
}

/// Parameters of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Segments, the unit of erasing.
    pub segments: u32,
    /// Pages of a segment.
    pub pages: u32,
    /// Pages that the host can map.
    pub logical: u32,
    /// Victim policy of garbage collection.
    pub gc: GcPolicy,
    /// Write points of garbage collection copies. Copies of wear levelling have their own.
    pub frontiers: Frontiers,
    /// Number of placement ids of host writes; each has its own write point.
    pub placements: u8,
    /// Static wear levelling: a segment is moved when it has more than this number of erases less
    /// than the most worn one. 0 turns wear levelling off.
    pub level: u32,
    /// Copies made together, as many as the flash executes in parallel. 1 spreads copies most
    /// evenly. Higher values simulate faster if the tables exceed the processor's caches.
    pub burst: u32,
    /// Early garbage collection; `None` if collection starts when free space has run out.
    pub early: Option<EarlyGc>,
    /// Seed of the policy's random choices.
    pub seed: u64,
}

/// Reason why a pool is impossible.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "error texts describe the fields")]
pub enum PoolError {
    #[error("a segment of {0} pages is too small; use at least 2")]
    FewPages(u32),
    #[error("{0} pages exceed the 32-bit map (at most 4,294,967,294)")]
    ManyPages(u64),
    #[error("the pool exports no page; export at least 1")]
    NothingExported,
    #[error("no placement; host writes need at least 1")]
    NoPlacement,
    #[error("a burst of 0 copies; use at least 1")]
    NoBurst,
    #[error("early collection of 0 copies per 100 writes; use at least 1")]
    NoEarlyCopies,
    #[error(
        "{segments} segments of {pages} pages can't export {logical} pages: {aside} segments are \
         reserved for open segments and garbage collection; export at most {most} pages"
    )]
    FewSpare { segments: u32, pages: u32, logical: u32, aside: u64, most: u64 },
}

impl PoolSpec {
    /// Makes a spec with greedy victims, one shared write point, one placement, no wear levelling,
    /// single copies, no early collection, and seed 1.
    pub fn new(segments: u32, pages: u32, logical: u32) -> Self {
        PoolSpec {
            segments,
            pages,
            logical,
            gc: GcPolicy::Greedy,
            frontiers: Frontiers::Shared,
            placements: 1,
            level: 0,
            burst: 1,
            early: None,
            seed: 1,
        }
    }

    /// Returns the number of physical pages.
    pub fn physical(&self) -> u64 {
        u64::from(self.segments) * u64::from(self.pages)
    }

    /// Returns the first write point of garbage collection copies. Those of host writes come before
    /// it, unless they are shared.
    pub(super) fn first_copy(&self) -> usize {
        match self.frontiers {
            Frontiers::Shared => 0,
            Frontiers::Separate | Frontiers::Isolated => usize::from(self.placements),
        }
    }

    /// Returns the first write point of wear levelling copies.
    pub(super) fn first_cold(&self) -> usize {
        self.first_copy() + self.streams()
    }

    /// Returns the number of write points that copies have.
    fn streams(&self) -> usize {
        match self.frontiers {
            Frontiers::Separate => 1,
            Frontiers::Shared | Frontiers::Isolated => usize::from(self.placements),
        }
    }

    /// Returns the number of segments that can be open at once.
    pub fn open(&self) -> u32 {
        let cold = if self.level > 0 { self.streams() } else { 0 };
        (self.first_cold() + cold) as u32
    }

    /// Returns the number of segments kept out of circulation: one for each open segment, and one
    /// for the segment that wear levelling moves.
    pub fn aside(&self) -> u32 {
        self.open() + u32::from(self.level > 0)
    }

    /// Returns the number of free pages at which garbage collection starts.
    pub(super) fn starts_at(&self) -> u32 {
        let early = self.early.map_or(0, |early| early.segments.min(self.segments));
        (self.aside() + early).saturating_mul(self.pages)
    }

    /// Checks that such a pool is possible.
    ///
    /// # Errors
    /// The impossible parameter and its limit.
    pub fn check(&self) -> Result<(), PoolError> {
        let (segments, pages, logical) = (self.segments, self.pages, self.logical);
        if pages < 2 {
            return Err(PoolError::FewPages(pages));
        }
        if self.physical() >= NONE.into() {
            return Err(PoolError::ManyPages(self.physical()));
        }
        if logical == 0 {
            return Err(PoolError::NothingExported);
        }
        if self.placements == 0 {
            return Err(PoolError::NoPlacement);
        }
        if self.burst == 0 {
            return Err(PoolError::NoBurst);
        }
        if self.early.is_some_and(|early| early.percent == 0) {
            return Err(PoolError::NoEarlyCopies);
        }
        // When a victim is chosen, as many segments may be free as are open. Beyond these there
        // must be invalid pages to gain.
        let aside = 2 * u64::from(self.aside());
        let most = u64::from(segments).saturating_sub(aside) * u64::from(pages);
        if u64::from(logical) > most {
            return Err(PoolError::FewSpare { segments, pages, logical, aside, most });
        }
        Ok(())
    }

    /// Returns the bytes of all tables of such a pool, before any is allocated.
    pub fn memory(&self) -> u64 {
        let segments = u64::from(self.segments);
        let word = size_of::<u32>() as u64;
        (u64::from(self.logical) + self.physical() + segments) * word
            + segments * u64::from(self.pages.div_ceil(BITS)) * size_of::<u64>() as u64
            + segments * size_of::<Segment>() as u64
            + u64::from(self.open()) * size_of::<Frontier>() as u64
            + Victims::memory(self.gc, self.segments, self.pages)
            + if self.placements > 1 { u64::from(self.logical) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_refused_with_a_reason() {
        let spec = PoolSpec::new(16, 64, 14 * 64);
        assert_eq!(spec.check(), Ok(()));
        let refused = |spec: PoolSpec| spec.check().unwrap_err().to_string();
        for (spec, part) in [
            (PoolSpec { pages: 1, ..spec }, "at least 2"),
            (PoolSpec { segments: 1 << 26, ..spec }, "4294967296 pages exceed"),
            (PoolSpec { logical: 0, ..spec }, "exports no page"),
            (PoolSpec { placements: 0, ..spec }, "no placement"),
            (PoolSpec { burst: 0, ..spec }, "a burst of 0 copies"),
            (PoolSpec { logical: 14 * 64 + 1, ..spec }, "export at most 896 pages"),
            (PoolSpec { level: 4, ..spec }, "export at most 640 pages"),
            (PoolSpec { placements: 2, ..spec }, "export at most 768 pages"),
            (PoolSpec { frontiers: Frontiers::Separate, ..spec }, "export at most 768 pages"),
            (PoolSpec { segments: 1, ..spec }, "export at most 0 pages"),
            (
                PoolSpec { early: Some(EarlyGc { segments: 1, percent: 0 }), ..spec },
                "use at least 1",
            ),
        ] {
            let error = refused(spec);
            assert!(error.contains(part), "{spec:?}: {error}");
        }
    }
}

//! What a pool is made of, and whether there can be such a pool.

use hostftl_layers::policy::{Frontiers, GcPolicy, Victims};
use thiserror::Error;

use super::{BITS, Frontier, NONE, Segment};

/// What a pool is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Segments, the unit of erasing.
    pub segments: u32,
    /// Pages of a segment.
    pub pages: u32,
    /// Pages that the host can map.
    pub logical: u32,
    /// Which segment is collected.
    pub gc: GcPolicy,
    /// Where copies of collection go; those of levelling have frontiers of their own.
    pub frontiers: Frontiers,
    /// How many placement ids host writes may carry; each has a frontier of its own.
    pub placements: u8,
    /// Static wear levelling: a segment that was erased more than so many times less often than the
    /// most worn one is moved. 0 = never.
    pub level: u32,
    /// How many copies are made together: as many as the flash does side by side. 1 spreads them
    /// most evenly; more are faster to simulate where the tables exceed the processor's caches.
    pub burst: u32,
    /// From this follows every draw of the policy.
    pub seed: u64,
}

/// Why there can't be such a pool.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the text of each names its fields")]
pub enum PoolError {
    #[error("a segment of {0} pages: it needs at least 2")]
    FewPages(u32),
    #[error("{0} pages are more than a map of 32 bits can name (4,294,967,294)")]
    ManyPages(u64),
    #[error("a pool that exports no page: export at least 1")]
    NothingExported,
    #[error("no placement: host writes need at least 1")]
    NoPlacement,
    #[error("bursts of no copy: at least 1 must be made together")]
    NoBurst,
    #[error(
        "{segments} segments of {pages} pages can't export {logical}: {aside} segments are set \
         aside for open ones and collection, so export at most {most} pages"
    )]
    FewSpare { segments: u32, pages: u32, logical: u32, aside: u64, most: u64 },
}

impl PoolSpec {
    /// A pool with greedy victims, one shared frontier, one placement, no levelling,
    /// copies one by one, and seed 1.
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
            seed: 1,
        }
    }

    /// All pages.
    pub fn physical(&self) -> u64 {
        u64::from(self.segments) * u64::from(self.pages)
    }

    /// The first frontier of copies by collection; those of host writes are before it, unless
    /// shared.
    pub(super) fn first_copy(&self) -> usize {
        match self.frontiers {
            Frontiers::Shared => 0,
            Frontiers::Separate | Frontiers::Isolated => usize::from(self.placements),
        }
    }

    /// The first frontier of copies by levelling.
    pub(super) fn first_cold(&self) -> usize {
        self.first_copy() + self.streams()
    }

    /// How many frontiers copies have.
    fn streams(&self) -> usize {
        match self.frontiers {
            Frontiers::Separate => 1,
            Frontiers::Shared | Frontiers::Isolated => usize::from(self.placements),
        }
    }

    /// How many segments may be open at once.
    pub fn open(&self) -> u32 {
        let cold = if self.level > 0 { self.streams() } else { 0 };
        (self.first_cold() + cold) as u32
    }

    /// Segments' worth of pages that are kept out of circulation: those of open segments, and one
    /// more for the segment that is being moved.
    pub fn aside(&self) -> u32 {
        self.open() + u32::from(self.level > 0)
    }

    /// Whether there can be such a pool.
    ///
    /// # Errors
    /// What is impossible, and what would be possible.
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
        // While a victim is chosen as many may be free as are open; the rest must have stale pages.
        let aside = 2 * u64::from(self.aside());
        let most = u64::from(segments).saturating_sub(aside) * u64::from(pages);
        if u64::from(logical) > most {
            return Err(PoolError::FewSpare { segments, pages, logical, aside, most });
        }
        Ok(())
    }

    /// Bytes of all tables of such a pool, known before any is allocated.
    pub fn memory(&self) -> u64 {
        let segments = u64::from(self.segments);
        let word = size_of::<u32>() as u64;
        (u64::from(self.logical) + self.physical() + segments) * word
            + segments * u64::from(self.pages.div_ceil(BITS)) * size_of::<u64>() as u64
            + segments * size_of::<Segment>() as u64
            + u64::from(self.open()) * size_of::<Frontier>() as u64
            + Victims::memory(self.gc, self.segments, self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_impossible_is_said_in_words() {
        let spec = PoolSpec::new(16, 64, 14 * 64);
        assert_eq!(spec.check(), Ok(()));
        let refused = |spec: PoolSpec| spec.check().unwrap_err().to_string();
        for (spec, part) in [
            (PoolSpec { pages: 1, ..spec }, "at least 2"),
            (PoolSpec { segments: 1 << 26, ..spec }, "4294967296 pages are more"),
            (PoolSpec { logical: 0, ..spec }, "exports no page"),
            (PoolSpec { placements: 0, ..spec }, "no placement"),
            (PoolSpec { burst: 0, ..spec }, "bursts of no copy"),
            (PoolSpec { logical: 14 * 64 + 1, ..spec }, "export at most 896 pages"),
            (PoolSpec { level: 4, ..spec }, "export at most 640 pages"),
            (PoolSpec { placements: 2, ..spec }, "export at most 768 pages"),
            (PoolSpec { frontiers: Frontiers::Separate, ..spec }, "export at most 768 pages"),
            (PoolSpec { segments: 1, ..spec }, "export at most 0 pages"),
        ] {
            let error = refused(spec);
            assert!(error.contains(part), "{spec:?}: {error}");
        }
    }
}

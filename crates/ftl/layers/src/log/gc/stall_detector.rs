//! Detects whether garbage collection gains space. Data on unreadable media stays in place and may
//! leave too little space for the rest. Garbage collection would then copy without end and wear out
//! the devices.
//!
//! A victim gains at least 1/64 of its capacity, but copies may pack less densely than the
//! originals. Garbage collection therefore gives up after it has copied all valid data twice and
//! gained less than 1/64 of that. It resumes when data becomes invalid or the devices change; until
//! then writes are refused. If all media are readable it never gives up: valid data is bounded, so
//! it gains space eventually.

use crate::log::segments::LEVELS;

/// Number of times that all valid data is copied before the gain is evaluated.
const TURNS: u64 = 2;

/// Bytes copied and gained since the last evaluation. All fields are in bytes.
#[derive(Debug, Default)]
pub(super) struct StallDetector {
    /// Bytes copied by garbage collection, and free space consumed by the host.
    copied: u64,
    taken: u64,
    /// Free space at the start of the period, or less.
    free: u64,
    /// Valid data when garbage collection gave up.
    stalled_at: Option<u64>,
}

impl StallDetector {
    /// Adds bytes copied by garbage collection.
    pub(super) fn copied(&mut self, bytes: u64) {
        self.copied += bytes;
    }

    /// Adds bytes written by the host.
    pub(super) fn taken(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// Evaluates the gain after a victim, from the free and valid bytes and the segment size in
    /// bytes. `is_unreadable` is evaluated only if nothing was gained.
    pub(super) fn judge(
        &mut self,
        (free, valid): (u64, u64),
        segment: u64,
        is_unreadable: impl FnOnce() -> bool,
    ) {
        let enough = TURNS * valid.max(u64::from(LEVELS) * segment);
        if self.copied < enough {
            return;
        }
        let gained = self.taken + free.saturating_sub(self.free);
        let futile = gained < enough / u64::from(LEVELS) && is_unreadable();
        let stalled_at = futile.then_some(valid);
        // The next period starts with the present free space.
        *self = StallDetector { free, stalled_at, ..StallDetector::default() };
    }

    /// Returns whether garbage collection has given up. It resumes when at least one segment's
    /// worth of valid data has become invalid.
    pub(super) fn is_stalled(&mut self, valid: u64, segment: u64) -> bool {
        if self.stalled_at.is_some_and(|was| valid + segment <= was) {
            self.reset();
        }
        self.stalled_at.is_some()
    }

    /// Resumes garbage collection, because space may have become reclaimable.
    pub(super) fn reset(&mut self) {
        *self = StallDetector { free: self.free, ..StallDetector::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: u64 = 1 << 30;
    const SEGMENT: u64 = 1 << 20;

    #[test]
    fn two_fruitless_passes_are_a_stall() {
        let mut it = StallDetector::default();
        it.copied(2 * LIVE - 1);
        it.judge((0, LIVE), SEGMENT, || true);
        assert!(!it.is_stalled(LIVE, SEGMENT));
        it.copied(1);
        it.judge((LIVE / 100, LIVE), SEGMENT, || true);
        assert!(it.is_stalled(LIVE, SEGMENT) && it.is_stalled(LIVE - SEGMENT + 1, SEGMENT));
        assert!(!it.is_stalled(LIVE - SEGMENT, SEGMENT), "a segment's worth died");
    }

    #[test]
    fn host_writes_and_free_space_count_as_gain() {
        let judged = |taken, free| {
            let mut it = StallDetector::default();
            it.copied(2 * LIVE);
            it.taken(taken);
            it.judge((free, LIVE), SEGMENT, || true);
            it.is_stalled(LIVE, SEGMENT)
        };
        assert!(!judged(LIVE / 32, 0) && !judged(LIVE / 64, LIVE / 64));
        assert!(judged(LIVE / 32 - 1, 0));
    }

    #[test]
    fn readable_data_prevents_a_stall() {
        let mut it = StallDetector::default();
        it.copied(2 * LIVE);
        it.judge((0, LIVE), SEGMENT, || false);
        assert!(!it.is_stalled(LIVE, SEGMENT));
    }

    #[test]
    fn a_reset_clears_the_stall() {
        let mut it = StallDetector::default();
        it.copied(2 * LIVE);
        it.judge((0, LIVE), SEGMENT, || true);
        it.reset();
        assert!(!it.is_stalled(LIVE, SEGMENT));
    }
}

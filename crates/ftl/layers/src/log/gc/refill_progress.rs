//! Progress of resilvering: the segment in progress, and the previous one.
//!
//! Invariants
//! - One segment is in progress, and the last stripes of the previous segment may be; the two
//!   differ.
//! - A suspended segment continues only if the segment and the device's contents are unchanged.

use crate::log::devices::Devices;
use crate::log::layout::At;

/// Number of roots that record the progress of resilvering a volume. Chunks resilvered after the
/// last root are rebuilt again after a power cut.
const PARTS: u64 = 256;

/// A segment whose chunks a device receives, and its state. If any field differs, the segment was
/// reused or the device holds other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    segment: u32,
    device: u8,
    newest: u64,
    /// Number of times that devices started empty.
    anew: u32,
}

impl Target {
    /// Captures the current state of the segment and the device.
    pub(super) fn new((segment, device): (u32, u8), devices: &Devices) -> Self {
        let (newest, anew) = (devices.membership().newest(segment), devices.membership().anew());
        Target { segment, device, newest, anew }
    }

    /// Returns the segment and the device.
    pub(super) fn place(&self) -> (u32, u8) {
        (self.segment, self.device)
    }
}

/// A segment that has been processed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refill {
    target: Target,
    well: bool,
    last: u64,
}

impl Refill {
    /// Returns the target, whether all stripes were found, and whether all succeeded.
    pub(super) fn outcome(self) -> (Target, bool, bool) {
        (self.target, self.target.newest == self.last, self.well)
    }
}

#[derive(Debug, Default)]
pub(super) struct RefillProgress {
    /// The segment in progress, and whether all its stripes succeeded so far.
    now: Option<(Target, bool)>,
    /// The previous segment, whose last stripes are in progress.
    ending: Option<Refill>,
    /// Number of the stripe before the first one processed in this pass.
    begun: u64,
    /// For a suspended segment, the start of its next stripe and the number of the stripe before.
    rest: Option<(At, u64)>,
    /// The segment that was suspended last.
    paused: Option<(Target, At, u64)>,
    /// Valid bytes in the segments resilvered since the last requested root.
    uncommitted: u64,
}

impl RefillProgress {
    /// Begins a segment. Returns the start of its first unprocessed stripe and the number of the
    /// stripe before.
    pub(super) fn begin(&mut self, target: Target) -> (At, u64) {
        let (at, seq) = match self.paused.take() {
            // Any change of the segment or the device makes earlier chunks worthless.
            Some((paused, at, seq)) if paused == target => (at, seq),
            _ => (At { segment: target.segment, slot: 0, sector: 0 }, 0),
        };
        (self.now, self.begun, self.rest) = (Some((target, true)), seq, None);
        (at, seq)
    }

    /// Returns the segment in progress, and whether all its stripes succeeded so far.
    pub(super) fn now(&self) -> Option<(Target, bool)> {
        self.now
    }

    /// Returns the previous segment if its last stripes are in progress.
    pub(super) fn ending(&self) -> Option<u32> {
        self.ending.map(|refill| refill.target.segment)
    }

    /// Records the outcome of a stripe of the current or previous segment.
    pub(super) fn note(&mut self, segment: u32, well: bool) {
        let now = self.now.as_mut().map(|(target, all)| (target.segment, all));
        let before = self.ending.as_mut().map(|refill| (refill.target.segment, &mut refill.well));
        let mut both = before.into_iter().chain(now);
        let (_, all) =
            both.find(|(it, _)| *it == segment).expect("a stripe of one of the segments");
        *all &= well;
    }

    /// Returns whether stripes were processed in this pass; the last one found has number `last`.
    pub(super) fn has_moved(&self, last: u64) -> bool {
        last > self.begun
    }

    /// Makes the current segment the previous one, once all its stripes are found; `last` is the
    /// number of the newest. Returns false if another segment cannot be begun yet.
    pub(super) fn end(&mut self, last: u64) -> bool {
        // A segment with a failed stripe is evaluated before another is begun.
        let Some((target, true)) = self.now.filter(|_| self.ending.is_none()) else { return false };
        let ends = self.rest.is_none();
        self.ending = ends.then_some(Refill { target, well: true, last });
        ends
    }

    /// Reverts [`RefillProgress::end`]: no other segment was begun.
    pub(super) fn end_later(&mut self) {
        self.ending = None;
    }

    /// Takes the previous segment, none of whose stripes is in progress any more.
    pub(super) fn take_ending(&mut self) -> Option<Refill> {
        self.ending.take()
    }

    /// Suspends the current segment; its remaining stripes are processed later.
    pub(super) fn leave(&mut self, rest: Option<(At, u64)>) {
        self.rest = rest;
    }

    /// Takes the current segment, none of whose stripes is in progress, and its unprocessed rest.
    /// `last` is the number of the last stripe found.
    pub(super) fn take(&mut self, last: u64) -> Option<(Refill, Option<(At, u64)>)> {
        let (target, well) = self.now.take()?;
        assert!(self.ending.is_none(), "the previous pass ends first");
        Some((Refill { target, well, last }, self.rest.take()))
    }

    /// Stores where a suspended segment continues, and the number of the stripe before.
    pub(super) fn pause(&mut self, target: Target, (at, seq): (At, u64)) {
        self.paused = Some((target, at, seq));
    }

    /// Adds the valid bytes of a resilvered segment, out of `all`. Returns whether a root must
    /// record the progress now.
    pub(super) fn is_root_due(&mut self, bytes: u64, all: u64) -> bool {
        self.uncommitted += bytes;
        let enough = self.uncommitted > all / PARTS;
        self.uncommitted = if enough { 0 } else { self.uncommitted };
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(segment: u32) -> Target {
        Target { segment, device: 1, newest: 9, anew: 0 }
    }

    #[test]
    fn a_pass_resumes_unless_the_segments_changed() {
        let (mut it, at) = (RefillProgress::default(), At { segment: 3, slot: 7, sector: 0 });
        for (later, begin) in [(target(3), (at, 5)), (Target { anew: 1, ..target(3) }, (at, 0))] {
            assert_eq!(it.begin(target(3)).1, 0);
            it.leave(Some((at, 5)));
            assert!(!it.end(5), "it is not at its end");
            let (pass, rest) = it.take(5).expect("it is gone through");
            it.pause(pass.target, rest.expect("it was left"));
            let (found, seq) = it.begin(later);
            assert_eq!(seq, begin.1);
            assert!(seq == 0 || found == begin.0);
            it.take(0);
        }
    }

    #[test]
    fn errors_of_a_stripe_belong_to_its_segment() {
        let mut it = RefillProgress::default();
        it.begin(target(3));
        assert!(it.end(9) && !it.end(9));
        it.begin(target(4));
        it.note(3, false);
        assert_eq!((it.ending(), it.now()), (Some(3), Some((target(4), true))));
        let ended = it.take_ending().expect("it was begun before");
        assert_eq!(ended.outcome(), (target(3), true, false));
        it.note(4, false);
        assert!(!it.end(9), "it is looked at first");
    }

    #[test]
    fn a_root_records_each_part_of_the_progress() {
        let mut it = RefillProgress::default();
        assert!(!it.is_root_due(10, 2560) && it.is_root_due(1, 2560) && !it.is_root_due(10, 2560));
    }
}

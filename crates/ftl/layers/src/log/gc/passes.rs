//! Which segments devices get their chunks of, and how far that is.
//!
//! Invariants
//! - One segment is gone through, and of one before the last rows are under way; both are others.
//! - What was left is gone on with only when the segment and what the device has are the same.

use crate::log::devices::Devices;
use crate::log::layout::At;

/// So many roots tell of what was made; what the last one does not tell of is made again after a
/// cut.
const PARTS: u64 = 256;

/// A segment of which a device gets its chunks, as it is now: when one of these differs it is
/// another one, or the device holds something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    segment: u32,
    device: u8,
    newest: u64,
    /// How often devices began anew.
    anew: u32,
}

impl Target {
    /// As the segment and the device are now.
    pub(super) fn new((segment, device): (u32, u8), devices: &Devices) -> Self {
        let (newest, anew) = (devices.membership().newest(segment), devices.membership().anew());
        Target { segment, device, newest, anew }
    }

    /// The segment, and the device.
    pub(super) fn place(&self) -> (u32, u8) {
        (self.segment, self.device)
    }
}

/// A segment that was gone through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    target: Target,
    well: bool,
    last: u64,
}

impl Pass {
    /// Which and for whom, and whether all rows were found and all was well.
    pub(super) fn outcome(self) -> (Target, bool, bool) {
        (self.target, self.target.newest == self.last, self.well)
    }
}

#[derive(Debug, Default)]
pub(super) struct Passes {
    /// The segment that is gone through, and whether all was well so far.
    now: Option<(Target, bool)>,
    /// The one before.
    ending: Option<Pass>,
    /// The number of the row before the first that was gone through.
    begun: u64,
    /// It was left early: where its next row begins, and the number of the row before.
    rest: Option<(At, u64)>,
    /// The last one that was left so.
    paused: Option<(Target, At, u64)>,
    /// Bytes that were live in what devices got since a root was asked for that tells of it.
    untold: u64,
}

impl Passes {
    /// Begins with a segment: where its first row begins that was not gone through yet, and the
    /// number of the row before.
    pub(super) fn begin(&mut self, target: Target) -> (At, u64) {
        let (at, seq) = match self.paused.take() {
            Some((paused, at, seq)) if paused == target => (at, seq),
            _ => (At { segment: target.segment, slot: 0, sector: 0 }, 0),
        };
        (self.now, self.begun, self.rest) = (Some((target, true)), seq, None);
        (at, seq)
    }

    /// What is gone through, and whether all was well so far.
    pub(super) fn now(&self) -> Option<(Target, bool)> {
        self.now
    }

    /// The segment before, of which the last rows are under way.
    pub(super) fn ending(&self) -> Option<u32> {
        self.ending.map(|pass| pass.target.segment)
    }

    /// A row of a segment is over.
    pub(super) fn note(&mut self, segment: u32, well: bool) {
        let now = self.now.as_mut().map(|(target, all)| (target.segment, all));
        let before = self.ending.as_mut().map(|pass| (pass.target.segment, &mut pass.well));
        let mut both = before.into_iter().chain(now);
        let (_, all) = both.find(|(it, _)| *it == segment).expect("a row of one of these");
        *all &= well;
    }

    /// Whether rows were gone through, the last of which has this number.
    pub(super) fn has_moved(&self, last: u64) -> bool {
        last > self.begun
    }

    /// All rows were found, the last with this number, and another segment may be begun. False when
    /// that has to wait.
    pub(super) fn end(&mut self, last: u64) -> bool {
        let Some((target, true)) = self.now.filter(|_| self.ending.is_none()) else { return false };
        let ends = self.rest.is_none();
        self.ending = ends.then_some(Pass { target, well: true, last });
        ends
    }

    /// No other is begun after all.
    pub(super) fn end_later(&mut self) {
        self.ending = None;
    }

    /// Nothing of the segment before is under way any more.
    pub(super) fn take_ending(&mut self) -> Option<Pass> {
        self.ending.take()
    }

    /// What is left of the segment is gone through later.
    pub(super) fn leave(&mut self, rest: Option<(At, u64)>) {
        self.rest = rest;
    }

    /// Nothing of the segment is under way any more, and the last row found has this number. With
    /// what is left of it.
    pub(super) fn take(&mut self, last: u64) -> Option<(Pass, Option<(At, u64)>)> {
        let (target, well) = self.now.take()?;
        assert!(self.ending.is_none(), "the one before ends first");
        Some((Pass { target, well, last }, self.rest.take()))
    }

    /// A segment is gone on with from here on, after the row with this number.
    pub(super) fn pause(&mut self, target: Target, (at, seq): (At, u64)) {
        self.paused = Some((target, at, seq));
    }

    /// A device got what it lacked beside so many live bytes, of so many in `all`. Whether a root
    /// is to tell of it.
    pub(super) fn tells(&mut self, bytes: u64, all: u64) -> bool {
        self.untold += bytes;
        let enough = self.untold > all / PARTS;
        self.untold = if enough { 0 } else { self.untold };
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
    fn what_was_left_is_gone_on_with_unless_it_has_changed() {
        let (mut it, at) = (Passes::default(), At { segment: 3, slot: 7, sector: 0 });
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
    fn what_is_wrong_in_a_row_is_of_its_own_segment() {
        let mut it = Passes::default();
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
    fn a_root_tells_of_each_part_of_the_whole() {
        let mut it = Passes::default();
        assert!(!it.tells(10, 2560) && it.tells(1, 2560) && !it.tells(10, 2560));
    }
}

//! What a device lacks of segments, because it came later, is made where it belongs: nothing else
//! is written, and no free segment is needed. Segments are gone through like victims, row by row.
//!
//! A segment in which anything is wrong, or can't be read, is *flawed*: collection moves what is
//! valid in it, rebuilt in all ways that there are. One that misses a chunk on a lost device moves
//! too, to where it has all of its parity.
//!
//! Invariants
//! - A device has its chunks of a segment when all rows up to its newest have been gone through,
//!   and each chunk was written without an error. Before that nobody reads them.
//! - What was left when collection had to come first is gone on with only when the segment and what
//!   the device has are the same.
//! - The next segment is begun while the last rows of one before are under way, and no other.

use hostftl_format::log::{GRAIN, Head, page_seed};

use crate::kit::Life;
use crate::log::devices::Devices;
use crate::log::gc::victim::Victim;
use crate::log::gc::{Collection, Needs};
use crate::log::layout::At;
use crate::log::ops::{Cx, works};
use crate::planted::{Bug, planted};

/// So many roots tell of what was made; what the last one does not tell of is made again after a
/// cut.
const PARTS: u64 = 256;
/// With less room for outputs, nothing is begun.
const ROOM: usize = 16;

/// A segment of which a device gets its chunks, as it is now: when one of these differs it is
/// another one, or the device holds something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    segment: u32,
    device: u8,
    newest: u64,
    /// How often devices began anew.
    anew: u32,
}

impl Target {
    fn new(segment: u32, device: u8, devices: &Devices) -> Self {
        let (newest, anew) = (devices.membership().newest(segment), devices.membership().anew());
        Target { segment, device, newest, anew }
    }
}

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct Fills {
    /// What is gone through, and whether all was well so far.
    now: Option<(Target, bool)>,
    /// All rows of this one were found, up to this number, and some are under way still.
    ending: Option<(Target, bool, u64)>,
    /// The number of the row before the first that was gone through.
    begun: u64,
    /// It was left early: where its next row begins, and the number of the row before.
    rest: Option<(At, u64)>,
    /// The last one that was left so.
    paused: Option<(Target, At, u64)>,
    /// Bytes that were live in what devices got since a root was asked for that tells of it.
    untold: u64,
}

impl Collection {
    /// Begins with a segment of which a device that is there lacks its chunks. Whether there is
    /// one.
    pub(super) fn begin_fill(&mut self, with: &mut Needs, cx: &Cx) -> bool {
        let durable = with.durability.durable();
        let segments = &*with.segments;
        let ending = self.fills.ending.map(|(target, ..)| target.segment);
        let fits = |segment, newest| {
            newest <= durable && segments.can_be_filled(segment) && ending != Some(segment)
        };
        if cx.room() < ROOM || !works(cx) {
            return false;
        }
        let Some((segment, device)) = with.devices.next_to_fill(fits) else { return false };
        let target = Target::new(segment, device, with.devices);
        let (begin, seq) = match self.fills.paused.take() {
            Some((paused, at, seq)) if paused == target => (at, seq),
            _ => (At { segment, slot: 0, sector: 0 }, 0),
        };
        with.segments.pin(segment);
        self.fills.now = Some((target, true));
        (self.fills.begun, self.fills.rest) = (seq, None);
        self.pace_nothing();
        self.victim = Some(Victim::from(begin, self.layout.slots, seq));
        true
    }

    /// All rows of a segment were found: the next one is begun while the last of them are under
    /// way. Whether it is.
    pub(super) fn go_on_filling(&mut self, with: &mut Needs, cx: &Cx) -> bool {
        let Some(victim) = self.victim.as_ref().filter(|it| it.is_read()) else { return false };
        let may = self.fills.ending.is_none() && self.fills.rest.is_none();
        let may = may && cx.is_running() && !self.wants_collection(with.segments);
        let Some((target, true)) = self.fills.now.filter(|_| may) else { return false };
        self.fills.ending = Some((target, true, victim.last()));
        let goes_on = self.begin_fill(with, cx);
        if !goes_on {
            self.fills.ending = None;
        }
        goes_on
    }

    /// The segment before is over when none of its rows is under way.
    pub(super) fn end_before(&mut self, with: &mut Needs) -> bool {
        let lanes = &self.lanes;
        let over = self.fills.ending.filter(|(target, ..)| !lanes.have(target.segment));
        if let Some((target, well, last)) = over {
            self.fills.ending = None;
            self.judge_fill((target, well, last), None, with);
        }
        over.is_some()
    }

    /// A row counts: the device gets its chunk of it. False when the victim is none of these.
    pub(super) fn fill_row(&mut self, lane: u8, head: &Head, with: &Needs) -> bool {
        let Some((Target { device, .. }, _)) = self.fills.now else { return false };
        self.lanes.fill_from(lane, head, device, page_seed(&self.uuid), with);
        true
    }

    /// A row of a lane is over.
    pub(super) fn end_filled(&mut self, with: &mut Needs, cx: &Cx) -> bool {
        let Some((lane, well)) = self.lanes.filled() else { return false };
        let segment = self.at(lane).segment;
        match &mut self.fills {
            Fills { ending: Some((target, all_well, _)), .. } if target.segment == segment => {
                *all_well &= well;
            }
            Fills { now: Some((_, all_well)), .. } => *all_well &= well,
            other => unreachable!("a row of none of these was filled: {other:?}"),
        }
        self.row_over(lane, with, cx);
        true
    }

    /// Leaves it when collection has to come first, or the volume stops, or something is wrong. A
    /// row is gone through each time at least, so that it never starves.
    pub(super) fn perhaps_pause(&mut self, with: &mut Needs, cx: &Cx) {
        let Some((Target { segment, .. }, well)) = self.fills.now else { return };
        let stops = cx.life() == Life::Stopping || !works(cx);
        let is_read = self.victim.as_ref().is_none_or(Victim::is_read);
        let has_moved = self.victim.as_ref().is_some_and(|it| it.last() > self.fills.begun);
        let waits = has_moved && self.wants_collection(with.segments);
        if is_read || well && !stops && !waits {
            return;
        }
        let victim = self.victim.as_mut().expect("it is the victim");
        assert_eq!(victim.segment(), segment, "it is the victim");
        self.fills.rest = victim.rest();
        victim.give_up();
        self.drop_heads(with, cx);
    }

    /// A device got its chunks of a segment: a root tells of it when that is enough of the whole.
    fn tell_filled(&mut self, segment: u32, with: &mut Needs) {
        self.fills.untold += u64::from(with.segments.live(segment)) * u64::from(GRAIN);
        if self.fills.untold > self.protection.all() / PARTS {
            self.fills.untold = 0;
            with.checkpoint.hurry();
        }
    }

    /// It was gone through to its end, or left. False when the victim is none of these.
    pub(super) fn leave_fill(&mut self, last: u64, with: &mut Needs) -> bool {
        let Some((target, well)) = self.fills.now.take() else { return false };
        assert!(self.fills.ending.is_none(), "the one before ends first");
        let rest = self.fills.rest.take();
        self.judge_fill((target, well, last), rest, with);
        true
    }

    /// Whether a device has its chunks of a segment now, all rows of which were gone through up to
    /// number `last`, or all but a `rest`.
    fn judge_fill(
        &mut self,
        (target, well, last): (Target, bool, u64),
        rest: Option<(At, u64)>,
        with: &mut Needs,
    ) {
        let Target { segment, device, newest, .. } = target;
        with.segments.unpin(segment);
        let same = target == Target::new(segment, device, with.devices);
        match rest {
            _ if !same => {}
            Some((at, seq)) if well => self.fills.paused = Some((target, at, seq)),
            None if well && last == newest || planted(Bug::FilledInPart) => {
                with.devices.membership_mut().filled(segment, device);
                self.tell_filled(segment, with);
            }
            _ if with.devices.is_to_fill(segment) => {
                with.segments.flaw(segment);
            }
            _ => {}
        }
    }
}

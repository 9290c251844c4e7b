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
        let fits = |segment, newest| newest <= durable && segments.can_be_filled(segment);
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

    /// A row counts: the device gets its chunk of it. False when the victim is none of these.
    pub(super) fn fill_row(&mut self, lane: u8, head: &Head, with: &Needs) -> bool {
        let Some((Target { device, .. }, _)) = self.fills.now else { return false };
        self.lanes.fill_from(lane, head, device, page_seed(&self.uuid), with);
        true
    }

    /// A row of a lane is over.
    pub(super) fn end_filled(&mut self, with: &mut Needs, cx: &Cx) -> bool {
        let Some((lane, well)) = self.lanes.filled() else { return false };
        let now = self.fills.now.as_mut().expect("a row of it was filled");
        now.1 &= well;
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
        let Target { segment, device, newest, .. } = target;
        with.segments.unpin(segment);
        let same = target == Target::new(segment, device, with.devices);
        match self.fills.rest.take() {
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
        true
    }
}

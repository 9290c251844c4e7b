//! What a device lacks of segments, because it came later, is made where it belongs: nothing else
//! is written, and no free segment is needed. Segments are gone through like victims, row by row.
//!
//! A segment in which anything is wrong, or can't be read, is *flawed*: collection moves what is
//! valid in it, rebuilt in all ways that there are. One that misses a chunk on a lost device moves
//! too, to where it has all of its parity.
//!
//! Invariant: a device has its chunks of a segment when all rows up to its newest have been gone
//! through, and each chunk was written without an error. Before that nobody reads them.

use hostftl_format::log::{GRAIN, Head};

use crate::kit::Life;
use crate::log::gc::Collection;
use crate::log::gc::passes::{Pass, Target};
use crate::log::gc::victim::Victim;
use crate::log::layout::At;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, works};
use crate::log::output::Output;
use crate::planted::{Bug, planted};

/// With less room for outputs, nothing is begun.
const ROOM: usize = 16;

impl Collection {
    /// Begins with a segment of which a device that is there lacks its chunks. Whether there is
    /// one.
    pub(super) fn begin_fill(&mut self, media: &mut Media, output: &mut Output, cx: &Cx) -> bool {
        let durable = output.durability.durable();
        let (segments, ending) = (&media.segments, self.passes.ending());
        let fits = |segment, newest| {
            newest <= durable && segments.can_be_filled(segment) && ending != Some(segment)
        };
        if cx.room() < ROOM || !works(cx) {
            return false;
        }
        let Some((segment, device)) = media.devices.next_to_fill(fits) else { return false };
        let (at, seq) = self.passes.begin(Target::new((segment, device), &media.devices));
        media.segments.pin(segment);
        self.pace_nothing();
        self.victim = Some(Victim::from(at, self.layout.slots, seq));
        true
    }

    /// All rows of a segment were found: the next one is begun while the last of them are under
    /// way. Whether it is.
    pub(super) fn go_on_filling(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        cx: &Cx,
    ) -> bool {
        let Some(victim) = self.victim.as_ref().filter(|it| it.is_read()) else { return false };
        let last = victim.last();
        let may = cx.is_running() && !self.wants_collection(&media.segments);
        if !may || !self.passes.end(last) {
            return false;
        }
        let goes_on = self.begin_fill(media, output, cx);
        if !goes_on {
            self.passes.end_later();
        }
        goes_on
    }

    /// The segment before is over when none of its rows is under way.
    pub(super) fn end_before(&mut self, media: &mut Media, mapping: &mut Mapping) -> bool {
        let over = self.passes.ending().filter(|segment| !self.lanes.have(*segment));
        let Some(pass) = over.and_then(|_| self.passes.take_ending()) else { return false };
        self.judge_fill(pass, None, media, mapping);
        true
    }

    /// A row counts: the device gets its chunk of it. False when the victim is none of these.
    pub(super) fn fill_row(&mut self, lane: u8, head: &Head, media: &Media) -> bool {
        let Some((target, _)) = self.passes.now() else { return false };
        self.lanes.fill_from(lane, head, target.place().1, media);
        true
    }

    /// A row of a lane is over.
    pub(super) fn end_filled(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &Cx) -> bool {
        let Some((lane, well)) = self.lanes.filled() else { return false };
        self.passes.note(self.at(lane).segment, well);
        self.row_over(lane, media, mapping, cx);
        true
    }

    /// Leaves it when collection has to come first, or the volume stops, or something is wrong. A
    /// row is gone through each time at least, so that it never starves.
    pub(super) fn perhaps_pause(&mut self, media: &mut Media, cx: &Cx) {
        let Some((target, well)) = self.passes.now() else { return };
        let stops = cx.life() == Life::Stopping || !works(cx);
        let wanted = self.wants_collection(&media.segments);
        let victim = self.victim.as_mut().expect("it is the victim");
        assert_eq!(victim.segment(), target.place().0, "it is the victim");
        let waits = wanted && self.passes.has_moved(victim.last());
        if victim.is_read() || well && !stops && !waits {
            return;
        }
        self.passes.leave(victim.rest());
        victim.give_up();
    }

    /// It was gone through to its end, or left. False when the victim is none of these.
    pub(super) fn leave_fill(
        &mut self,
        last: u64,
        media: &mut Media,
        mapping: &mut Mapping,
    ) -> bool {
        let Some((pass, rest)) = self.passes.take(last) else { return false };
        self.judge_fill(pass, rest, media, mapping);
        true
    }

    /// Whether a device has its chunks of a segment now, all rows of which were gone through, or
    /// all but a `rest`.
    fn judge_fill(
        &mut self,
        pass: Pass,
        rest: Option<(At, u64)>,
        media: &mut Media,
        mapping: &mut Mapping,
    ) {
        let (target, found_all, well) = pass.outcome();
        let (segment, device) = target.place();
        media.segments.unpin(segment);
        let same = target == Target::new((segment, device), &media.devices);
        match rest {
            _ if !same => {}
            Some(rest) if well => self.passes.pause(target, rest),
            None if well && found_all || planted(Bug::FilledInPart) => {
                media.devices.membership_mut().filled(segment, device);
                self.tell_filled(segment, media, mapping);
            }
            _ if media.devices.is_to_fill(segment) => {
                media.segments.flaw(segment);
            }
            _ => {}
        }
    }

    /// A device got its chunks of a segment: a root tells of it when that is enough of the whole.
    fn tell_filled(&mut self, segment: u32, media: &mut Media, mapping: &mut Mapping) {
        let bytes = u64::from(media.segments.live(segment)) * u64::from(GRAIN);
        if self.passes.tells(bytes, self.protection.all()) {
            mapping.checkpoint.hurry();
        }
    }
}

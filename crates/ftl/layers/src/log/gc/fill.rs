//! Resilvering in place: writes the missing chunks of a device that joined later to their own
//! segments. Nothing else is written, and no free segment is needed. Segments are processed like
//! victims, stripe by stripe.
//!
//! A segment with damaged or unreadable contents is *flawed*: garbage collection moves its valid
//! data, rebuilt by every available combination of chunks. A segment that also misses a chunk on a
//! lost device moves as well, to segments with full parity.
//!
//! Invariant: a device has its chunks of a segment once all stripes up to the newest have been
//! processed and each chunk was written without an error. Until then these chunks are not read.

use hostftl_format::log::{GRAIN, Head};

use crate::kit::Life;
use crate::log::gc::Collection;
use crate::log::gc::refill_progress::{Refill, Target};
use crate::log::gc::victim::Victim;
use crate::log::layout::At;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, works};
use crate::log::output::Output;
use crate::planted::{Bug, planted};

/// Output slots without which no segment is begun.
const ROOM: usize = 16;

impl Collection {
    /// Begins a segment that misses the chunks of a present device. Returns whether there is one.
    pub(super) fn begin_fill(&mut self, media: &mut Media, output: &mut Output, cx: &Cx) -> bool {
        let durable = output.durability.durable();
        let (segments, ending) = (&media.segments, self.refill_progress.ending());
        let fits = |segment, newest| {
            newest <= durable && segments.can_be_filled(segment) && ending != Some(segment)
        };
        if cx.outputs_left() < ROOM || !works(cx) {
            return false;
        }
        let Some((segment, device)) = media.devices.next_to_fill(fits) else { return false };
        let (at, seq) = self.refill_progress.begin(Target::new((segment, device), &media.devices));
        media.segments.pin(segment);
        self.pace_nothing();
        self.victim = Some(Victim::from(at, self.layout.slots, seq));
        true
    }

    /// Begins the next segment once all stripes of the current one have been found, while its last
    /// stripes are in progress. Returns whether another was begun.
    pub(super) fn begin_next_fill(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        cx: &Cx,
    ) -> bool {
        let Some(victim) = self.victim.as_ref().filter(|it| it.is_read()) else { return false };
        let last = victim.last();
        let may = cx.is_running() && !self.wants_collection(&media.segments);
        if !may || !self.refill_progress.end(last) {
            return false;
        }
        let has_begun = self.begin_fill(media, output, cx);
        if !has_begun {
            self.refill_progress.end_later();
        }
        has_begun
    }

    /// Ends the previous segment when none of its stripes is in progress.
    pub(super) fn end_before(&mut self, media: &mut Media, mapping: &mut Mapping) -> bool {
        let over = self.refill_progress.ending().filter(|segment| !self.lanes.have(*segment));
        let Some(pass) = over.and_then(|_| self.refill_progress.take_ending()) else {
            return false;
        };
        self.judge_fill(pass, None, media, mapping);
        true
    }

    /// Starts to write the device's chunk of a stripe. Returns false if the victim is not being
    /// resilvered.
    pub(super) fn fill_stripe(&mut self, lane: u8, head: &Head, media: &Media) -> bool {
        let Some((target, _)) = self.refill_progress.now() else { return false };
        self.lanes.fill_from(lane, head, target.place().1, media);
        true
    }

    /// Ends the stripe of a lane that has written its chunk.
    pub(super) fn end_filled(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &Cx) -> bool {
        let Some((lane, well)) = self.lanes.filled() else { return false };
        self.refill_progress.note(self.at(lane).segment, well);
        self.stripe_over(lane, media, mapping, cx);
        true
    }

    /// Suspends the segment if garbage collection is needed, the volume stops, or a stripe failed.
    /// At least one stripe is processed each time, so that resilvering makes progress.
    pub(super) fn perhaps_pause(&mut self, media: &mut Media, cx: &Cx) {
        let Some((target, well)) = self.refill_progress.now() else { return };
        let stops = cx.life() == Life::Stopping || !works(cx);
        let wanted = self.wants_collection(&media.segments);
        let victim = self.victim.as_mut().expect("the segment is the victim");
        assert_eq!(victim.segment(), target.place().0, "the segment is the victim");
        let waits = wanted && self.refill_progress.has_moved(victim.last());
        if victim.is_read() || well && !stops && !waits {
            return;
        }
        self.refill_progress.leave(victim.rest());
        victim.end_search();
    }

    /// Ends a segment that was processed completely or suspended. Returns false if the victim is
    /// not being resilvered.
    pub(super) fn leave_fill(
        &mut self,
        last: u64,
        media: &mut Media,
        mapping: &mut Mapping,
    ) -> bool {
        let Some((pass, rest)) = self.refill_progress.take(last) else { return false };
        self.judge_fill(pass, rest, media, mapping);
        true
    }

    /// Records the outcome of a segment: the device has all its chunks, the segment continues at
    /// `rest` later, or it is flawed.
    fn judge_fill(
        &mut self,
        pass: Refill,
        rest: Option<(At, u64)>,
        media: &mut Media,
        mapping: &mut Mapping,
    ) {
        let (target, found_all, well) = pass.outcome();
        let (segment, device) = target.place();
        media.segments.unpin(segment);
        // The segment may have been reused, or the device replaced, in the meantime.
        let same = target == Target::new((segment, device), &media.devices);
        match rest {
            _ if !same => {}
            Some(rest) if well => self.refill_progress.pause(target, rest),
            None if well && found_all || planted(Bug::FilledInPart) => {
                media.devices.membership_mut().filled(segment, device);
                self.account_filled(segment, media, mapping);
            }
            _ if media.devices.is_to_fill(segment) => {
                media.segments.flaw(segment);
            }
            _ => {}
        }
    }

    /// Accounts for a resilvered segment, and requests a checkpoint when enough has been
    /// resilvered.
    fn account_filled(&mut self, segment: u32, media: &mut Media, mapping: &mut Mapping) {
        let bytes = u64::from(media.segments.valid(segment)) * u64::from(GRAIN);
        if self.refill_progress.is_root_due(bytes, self.protection.all()) {
            mapping.checkpoint.hurry();
        }
    }
}

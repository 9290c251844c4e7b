//! Garbage collection: moves the valid records of a victim to a stream of copies, stripe by stripe.
//!
//! Each stripe is processed by a [`lane`], from its head on. Several lanes work at once and may
//! finish in any order, because the map decides for each record whether it is still valid. A head
//! contains the start of the next stripe. Most heads are read ahead, and [`victim`] decides which
//! are used.
//!
//! Invariants
//! - Heads are accepted in order. A victim ends only when no lane has a stripe of it.
//! - One lane stays free for the head of the next stripe, wherever that begins.
//! - A record is moved only if its checksum is right, and published only if the map still points at
//!   its old place.
//! - A waiting lane holds at most one map page and no space in a stripe. It releases the page when
//!   the lane that moves records cannot continue, so lanes cannot deadlock.

mod fill;
pub(in crate::log) mod lane;
mod phases;
pub(in crate::log) mod protect;
mod refill_progress;
mod stall_detector;
mod throttle;
mod victim;

use hostftl_core::{Cause, Command, Event, MetaBuf, Target};
use hostftl_format::log::{self, Head};

use crate::kit::Life;
use crate::kit::shell::Ended;
use crate::log::devices::Devices;
use crate::log::gc::lane::Lane;
use crate::log::gc::lane::lanes::{Lanes, Set};
use crate::log::gc::phases::Phases;
use crate::log::gc::protect::Protection;
use crate::log::gc::refill_progress::RefillProgress;
use crate::log::gc::stall_detector::StallDetector;
use crate::log::gc::throttle::Pace;
use crate::log::gc::victim::Victim;
use crate::log::layout::{At, Layout};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::output::Output;
use crate::log::redundancy::metadata::Wanted;
use crate::policy::Separation;

#[derive(Debug)]
pub(super) struct Collection {
    layout: Layout,
    uuid: [u8; 16],
    victim: Option<Victim>,
    lanes: Lanes,
    pace: Pace,
    /// Phases, if the host and garbage collection take turns in one stream.
    phases: Option<Phases>,
    stall_detector: StallDetector,
    refill_progress: RefillProgress,
    /// Whether the victim was chosen although no free space is needed.
    paced: bool,
    /// Whether the segments reserved for an interrupted checkpoint are lent to the victim.
    lent: bool,
    protection: Protection,
    /// Progress of the repair of segments that a scrub marked as flawed.
    flawed_repair: Protection,
}

impl Collection {
    /// Creates garbage collection without a victim.
    pub(super) fn new(layout: &Layout, separation: Separation, uuid: [u8; 16]) -> Self {
        Collection {
            layout: *layout,
            uuid,
            victim: None,
            lanes: Lanes::new(layout),
            phases: (separation == Separation::Phases).then(|| Phases::new(Pace::most(layout))),
            pace: Pace::new(layout),
            stall_detector: StallDetector::default(),
            refill_progress: RefillProgress::default(),
            paced: false,
            lent: false,
            protection: Protection::default(),
            flawed_repair: Protection::default(),
        }
    }

    /// Returns the head in `buf` if it is a plausible head of the stripe of a lane.
    pub(super) fn parse_head(&self, lane: u8, buf: &MetaBuf, devices: &Devices) -> Option<Head> {
        let victim = self.victim.as_ref().expect("a head belongs to a victim");
        let at = self.at(lane);
        let head = log::open(buf, &self.uuid, self.layout.lba(at))?;
        // A valid checksum is not enough: the head may be forged, or belong to an earlier use of
        // the segment.
        let sane = self.layout.admits_head(&head, at, devices.placement(at.segment));
        (sane && victim.may_follow(head.seq)).then_some(head)
    }

    /// Returns the start of the stripe of a lane.
    pub(super) fn at(&self, lane: u8) -> At {
        self.lanes.at(lane)
    }

    /// Returns whether there is no victim.
    pub(super) fn is_idle(&self) -> bool {
        self.victim.is_none()
    }

    /// Returns the lane whose records are moved.
    #[inline]
    pub(super) fn lane(&mut self, lane: u8) -> &mut Lane {
        self.lanes.lane(lane)
    }

    /// Returns all lanes, for the end of a command of one of them.
    #[inline]
    pub(super) fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Returns the lane whose records are moved next. If free space is needed, stripes are moved in
    /// order. Interleaved records of several stripes would waste more of each chunk, and a full
    /// volume would gain nothing.
    #[inline]
    pub(super) fn mover(&self) -> Option<u8> {
        self.lanes.mover(!self.paced)
    }
}

impl Collection {
    /// Performs the next step, except the moves of records.
    pub(super) fn pump(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        self.turn(media, cx);
        if self.victim.is_none() {
            return self.choose_victim(media, output, mapping, cx);
        }
        // First, because it may end the search for stripes, which decides everything below.
        self.perhaps_pause(media, cx);
        self.drop_heads(media, mapping, cx);
        if self.end_before(media, mapping) {
            return true;
        }
        let is_read = self.victim.as_ref().is_some_and(Victim::is_read);
        // Lanes must be empty: their records still refer to the victim's segment.
        if is_read && self.lanes.are_idle() {
            self.leave_victim(media, mapping, cx);
            return true;
        }
        // Accepting a head comes before reading the next one, because it determines the place of
        // that.
        self.next_stripe(media, mapping, cx)
            || self.read_head(media, cx)
            || self.sift(media, mapping, cx)
            || self.end_filled(media, mapping, cx)
            || self.begin_next_fill(media, output, cx)
            || self.lanes.pump(media, mapping, cx)
    }

    #[inline(never)]
    fn choose_victim(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        // A stop begins no new work; the victim in progress is finished or dropped.
        if cx.life() == Life::Stopping {
            return false;
        }
        if !media.devices.is_as_made() {
            // Members are chosen before a victim, because they determine the space that it gains.
            media.devices.take_spare();
            self.choose_members(media, cx);
            self.measure_protection(media);
        }
        let victim = match self.wants_collection(&media.segments) {
            true if self.is_stalled(&media.segments) => None,
            // The emptiest victim is finished first, before free segments run out.
            true if self.is_short(&media.segments) => media.segments.pick_emptiest(),
            true => media.segments.pick(),
            false if self.layout.zoned => self.hurt_victim(media),
            false => None,
        };
        // Work that gains no space is throttled during host I/O.
        self.paced = victim.is_none();
        if victim.is_none() && self.begin_fill(media, output, cx) {
            return true;
        }
        // Gaining space has priority over restoring redundancy.
        let victim = victim.or_else(|| self.protect(media, output, mapping, cx));
        let victim = victim.or_else(|| self.repair_flawed(media, output, mapping, cx));
        let Some(victim) = victim else { return false };
        // Lanes refer to stripes of one victim at a time.
        assert!(self.lanes.are_idle(), "no other victim is in progress");
        self.pace_victim(victim, &media.segments);
        cx.counters().gc_runs += 1;
        cx.report(Event::GcStarted);
        self.victim = Some(Victim::new(victim, self.layout.slots));
        true
    }

    /// Picks as victim a segment with a failed zone and with data to be moved, if there is one.
    fn hurt_victim(&mut self, media: &mut Media) -> Option<u32> {
        let segments = &mut media.segments;
        let mut hurt = media.devices.zones_mut().hurt(|it| segments.is_empty_or_retired(it));
        hurt.find(|it| segments.pick_this(*it))
    }

    /// Reads into a lane the head of the next stripe, or of one after it.
    fn read_head(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        let victim = self.victim.as_ref().expect("a stripe belongs to a victim");
        let Some((lane, more)) = self.lanes.idle() else { return false };
        let Some(at) = victim.to_ask(more) else { return false };
        if cx.commands_left() == 0 || self.waits_for_host(media, cx) {
            return false;
        }
        self.victim.as_mut().expect("a stripe belongs to a victim").ask(at, lane);
        self.stripe_begun(media, cx);
        // A resilvered stripe starts with the rebuild of its chunk, which usually yields the head
        // too.
        let ahead = self.refill_progress.now().map(|(target, _)| target.place().1);
        if ahead.is_some_and(|device| self.lanes.begin_ahead(lane, at, device, media)) {
            return true;
        }
        let buf = self.lanes.begin(lane, at);
        let (device, lba, pages) = self.head_place(at, &media.devices);
        let into = Target::Meta { buf, pages };
        let command = Command::Read { device, lba, into, cause: Cause::Gc };
        media.devices.submit(Op::GcHead { lane }, command, cx);
        true
    }

    /// Returns the place of a stripe's head: the device, the first sector and the number of pages.
    fn head_place(&self, at: At, devices: &Devices) -> (u8, u64, u32) {
        let device = devices.placement(at.segment).device(at.segment, at.slot, 0);
        (device, self.layout.lba(at), self.layout.head_pages(at.sector == 0))
    }

    /// Processes the completed read of a head. If its device is missing the chunk, the head is
    /// rebuilt from the other chunks at once.
    pub(super) fn head_done(
        &mut self,
        lane: u8,
        command: Command,
        result: Ended,
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let (buf, place, lacks) = match command {
            Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } => {
                let segment = self.at(lane).segment;
                // Other errors wait until the stripe is the next one, because a head that is read
                // ahead may not exist.
                let lacks = result.is_err() && media.devices.is_missing_on(segment, device);
                (buf, (device, lba, pages), lacks)
            }
            Command::Peek { from, into, .. } => {
                self.lane(lane).peeked(from, media);
                let made = self.lane(lane).has_made_head();
                // A rebuild without the length of the stripe may be wrong, and the head with it.
                let lacks = made && self.parse_head(lane, &into, &media.devices).is_none();
                (into, self.head_place(self.at(lane), &media.devices), lacks)
            }
            other => unreachable!("{other:?} returns no head"),
        };
        let victim = self.victim.as_ref().expect("a head belongs to a victim");
        if victim.is_asked(lane) && lacks && self.layout.parity > 0 {
            return media.metadata_repair.ask(Wanted::Victim(lane), place, buf, &media.devices, cx);
        }
        self.head_came(lane, buf, result.is_ok(), cx);
    }

    /// Gives a lane the head of its stripe, read from its device or rebuilt; `well` is false if
    /// that failed.
    pub(super) fn head_came(&mut self, lane: u8, buf: MetaBuf, well: bool, cx: &mut Cx) {
        self.lane(lane).has_head(buf, well);
        cx.wake();
    }

    /// Drops heads that were read ahead and are not used, once all their reads are complete. There
    /// are none until the last stripe of a victim has been found.
    fn drop_heads(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &Cx) {
        let victim = self.victim.as_ref().expect("a head belongs to a victim");
        if !victim.is_read() && self.refill_progress.ending().is_none() {
            return;
        }
        let stale = self.lanes.heads().filter(|lane| !victim.is_asked(*lane));
        let stale = stale.fold(Set::default(), Set::with);
        for lane in stale {
            self.stripe_over(lane, media, mapping, cx);
        }
    }

    /// Starts to process the next stripe when its head has been read, or ends the victim when there
    /// is none. An invalid head, or one of an earlier use of the segment, is first rebuilt from the
    /// other chunks.
    fn next_stripe(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let victim = self.victim.as_mut().expect("a stripe belongs to a victim");
        let Some(lane) = victim.next_lane() else { return false };
        let Some((buf, well)) = self.lanes.head(lane) else { return false };
        let at = self.at(lane);
        let head = self.parse_head(lane, buf, &media.devices).filter(|_| well);
        // The end of the stripes looks like a damaged head, so the rebuild decides once.
        if head.is_none() && self.layout.parity > 0 && !self.lane(lane).was_head_rebuilt() {
            let buf = self.lane(lane).take_head();
            let place = self.head_place(at, &media.devices);
            media.metadata_repair.ask(Wanted::Victim(lane), place, buf, &media.devices, cx);
            return true;
        }
        let next = head.and_then(|head| self.layout.after(at, head.first_sectors));
        let victim = self.victim.as_mut().expect("a stripe belongs to a victim");
        // Heads that were read behind the last stripe are now unused, and `drop_heads` frees their
        // lanes.
        victim.found(head.map(|head| head.seq), next);
        match head {
            Some(head) if self.fill_stripe(lane, &head, media) => {}
            Some(head) => self.lanes.sift_from(lane, &head, media.devices.placement(at.segment)),
            None => self.stripe_over(lane, media, mapping, cx),
        }
        true
    }

    /// Finds the valid records of a stripe. One stripe is processed at a time, because each
    /// prefetches map pages.
    fn sift(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let Some(lane) = self.lanes.sifting() else { return false };
        let moved = self.lanes.sift(lane, media, mapping, cx);
        if self.lane(lane).has_nothing() {
            self.stripe_over(lane, media, mapping, cx);
        }
        moved
    }

    /// Ends a stripe that has no more records to move. Returns false if one of its chunks must be
    /// rebuilt first.
    pub(super) fn end_stripe(
        &mut self,
        lane: u8,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let it = self.lane(lane);
        let over = !it.has_bad_chunk();
        // Faults are reported one by one, because each needs outputs.
        if over && !it.report_fault(media, mapping, cx) {
            self.stripe_over(lane, media, mapping, cx);
        }
        over
    }

    /// Frees a lane and accounts for the bytes that it moved.
    fn stripe_over(&mut self, lane: u8, media: &mut Media, mapping: &mut Mapping, cx: &Cx) {
        let moved = self.lanes.end(lane, mapping);
        self.pace_on(moved, media, cx);
    }

    /// Ends a victim that has been processed completely.
    #[inline(never)]
    fn leave_victim(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) {
        let victim = self.victim.take().expect("an abandoned victim was chosen");
        self.lent = false;
        // A resilvered segment keeps its data, so it was not collected.
        if !self.leave_fill(victim.last(), media, mapping) {
            media.segments.collected(victim.segment());
            self.judge(&media.segments);
        }
        cx.wake();
    }

    /// Drops the rest of the victim when the volume stops and no command is in flight. Its records
    /// may find no space, and a stop does not wait for that. Returns whether any lane was waiting.
    pub(super) fn end(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let mut waits = false;
        for lane in self.lanes.moving() {
            self.stripe_over(lane, media, mapping, cx);
            waits = true;
        }
        if let Some(victim) = self.victim.as_mut().filter(|_| waits) {
            victim.end_search();
            self.drop_heads(media, mapping, cx);
        }
        waits
    }
}

//! Collection: what is live in a victim moves to the stream of collection, row by row.
//!
//! A row goes on in a [`lane`] from its head on, several at once; which row is done first does not
//! matter, because of each record the map says whether it is still there. A head says where the
//! next row begins: most are read ahead, and [`victim`] says which of them count.
//!
//! Invariants
//! - Heads count in order. A victim is left when no row of it is under way any more.
//! - One lane is left for the head of the next row, wherever that begins.
//! - A record is moved only when its checksum is right, and published only where the map still
//!   points at the place that it came from.
//! - A lane that waits holds at most one map page, and no room in a row. The page is let go when
//!   the lane that moves records can't go on: no lane keeps another from that.

mod effort;
mod fill;
pub(in crate::log) mod lane;
mod passes;
pub(in crate::log) mod protect;
mod throttle;
mod victim;

use hostftl_core::{Cause, Command, Event, MetaBuf, Target};
use hostftl_format::log::{self, Head};

use crate::kit::Life;
use crate::kit::shell::Ended;
use crate::log::devices::Devices;
use crate::log::gc::effort::Effort;
use crate::log::gc::lane::Lane;
use crate::log::gc::lane::lanes::{Lanes, Set};
use crate::log::gc::passes::Passes;
use crate::log::gc::protect::Protection;
use crate::log::gc::throttle::Pace;
use crate::log::gc::victim::Victim;
use crate::log::layout::{At, Layout};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::output::Output;
use crate::log::redundancy::metadata::Wanted;

#[derive(Debug)]
pub(super) struct Collection {
    layout: Layout,
    uuid: [u8; 16],
    victim: Option<Victim>,
    lanes: Lanes,
    pace: Pace,
    effort: Effort,
    passes: Passes,
    /// Whether the victim was chosen although no room is wanted.
    paced: bool,
    /// Whether what is kept for a checkpoint that is cut off is lent to it.
    lent: bool,
    protection: Protection,
    /// The same for what a scrub found.
    mending: Protection,
}

impl Collection {
    /// There is no victim.
    pub(super) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        Collection {
            layout: *layout,
            uuid,
            victim: None,
            lanes: Lanes::new(layout),
            pace: Pace::new(layout),
            effort: Effort::default(),
            passes: Passes::default(),
            paced: false,
            lent: false,
            protection: Protection::default(),
            mending: Protection::default(),
        }
    }

    /// The head of the row of a lane, if that is what `buf` has.
    pub(super) fn head_of(&self, lane: u8, buf: &MetaBuf, devices: &Devices) -> Option<Head> {
        let victim = self.victim.as_ref().expect("a head is one of a victim");
        let at = self.at(lane);
        let head = log::open(buf, &self.uuid, self.layout.lba(at))?;
        let sane = self.layout.admits_head(&head, at, devices.stripe(at.segment));
        (sane && victim.may_follow(head.seq)).then_some(head)
    }

    /// Where the row of a lane begins, or would.
    pub(super) fn at(&self, lane: u8) -> At {
        self.lanes.at(lane)
    }

    /// Whether no victim is gone through.
    pub(super) fn is_idle(&self) -> bool {
        self.victim.is_none()
    }

    /// A lane, of which records are moved.
    #[inline]
    pub(super) fn lane(&mut self, lane: u8) -> &mut Lane {
        self.lanes.lane(lane)
    }

    /// All lanes, of one of which a command is over.
    #[inline]
    pub(super) fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// The lane whose records are moved next. Where room is wanted rows are packed in their order,
    /// for records of rows side by side leave more of each chunk unused, and a full volume would
    /// gain nothing.
    #[inline]
    pub(super) fn mover(&self) -> Option<u8> {
        self.lanes.mover(!self.paced)
    }
}

impl Collection {
    /// The next step, unless records are moved.
    pub(super) fn pump(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        if self.victim.is_none() {
            return self.choose_victim(media, output, mapping, cx);
        }
        self.perhaps_pause(media, cx);
        self.drop_heads(media, mapping, cx);
        if self.end_before(media, mapping) {
            return true;
        }
        let is_read = self.victim.as_ref().is_some_and(Victim::is_read);
        if is_read && self.lanes.are_idle() {
            self.leave_victim(media, mapping, cx);
            return true;
        }
        self.next_row(media, mapping, cx)
            || self.read_head(media, cx)
            || self.sift(media, mapping, cx)
            || self.end_filled(media, mapping, cx)
            || self.go_on_filling(media, output, cx)
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
        if cx.life() == Life::Stopping {
            return false;
        }
        if !media.devices.is_as_made() {
            media.devices.take_spare();
            self.choose_members(media, cx);
            self.measure_protection(media);
        }
        let victim = match self.wants_collection(&media.segments) {
            true if self.gave_up(&media.segments) => None,
            true if self.is_short(&media.segments) => media.segments.pick_emptiest(),
            true => media.segments.pick(),
            false if self.layout.zoned => self.hurt_victim(media),
            false => None,
        };
        self.paced = victim.is_none();
        if victim.is_none() && self.begin_fill(media, output, cx) {
            return true;
        }
        let victim = victim.or_else(|| self.protect(media, output, mapping, cx));
        let victim = victim.or_else(|| self.mend_flawed(media, output, mapping, cx));
        let Some(victim) = victim else { return false };
        assert!(self.lanes.are_idle(), "nothing of another victim is under way");
        self.pace_victim(victim, &media.segments);
        cx.counters().gc_runs += 1;
        cx.tell(Event::GcStarted);
        self.victim = Some(Victim::new(victim, self.layout.slots));
        true
    }

    /// A segment with a zone that failed and with data to be moved elsewhere, if there is one.
    fn hurt_victim(&mut self, media: &mut Media) -> Option<u32> {
        let segments = &mut media.segments;
        let mut hurt = media.devices.zones_mut().hurt(|it| segments.is_empty_or_gone(it));
        hurt.find(|it| segments.pick_this(*it))
    }

    /// Reads the head of the next row into a lane, or one ahead of it.
    fn read_head(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        let victim = self.victim.as_ref().expect("a row is one of a victim");
        let Some((lane, more)) = self.lanes.idle() else { return false };
        let Some(at) = victim.to_ask(more) else { return false };
        if cx.command_room() == 0 || self.waits_for_host(media, cx) {
            return false;
        }
        self.victim.as_mut().expect("a row is one of a victim").ask(at, lane);
        self.row_begun(media, cx);
        let ahead = self.passes.now().map(|(target, _)| target.place().1);
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

    /// Where the head of a row lies: the device, the first sector, and the pages.
    fn head_place(&self, at: At, devices: &Devices) -> (u8, u64, u32) {
        let device = devices.stripe(at.segment).device(at.segment, at.slot, 0);
        (device, self.layout.lba(at), self.layout.head_pages(at.sector == 0))
    }

    /// The device has answered. What it lacks for sure is made from the other chunks at once.
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
                let lacks = result.is_err() && media.devices.is_missing_on(segment, device);
                (buf, (device, lba, pages), lacks)
            }
            Command::Peek { from, into, .. } => {
                self.lane(lane).peeked(from, media);
                let made = self.lane(lane).has_made_head();
                let lacks = made && self.head_of(lane, &into, &media.devices).is_none();
                (into, self.head_place(self.at(lane), &media.devices), lacks)
            }
            other => unreachable!("{other:?} gives no head"),
        };
        let victim = self.victim.as_ref().expect("a head is one of a victim");
        if victim.is_asked(lane) && lacks && self.layout.parity > 0 {
            return media.salvage.ask(Wanted::Victim(lane), place, buf, &media.devices, cx);
        }
        self.head_came(lane, buf, result.is_ok(), cx);
    }

    /// The head of a lane's row is here, well or not, from its device or made from the others.
    pub(super) fn head_came(&mut self, lane: u8, buf: MetaBuf, well: bool, cx: &mut Cx) {
        self.lane(lane).has_head(buf, well);
        cx.wake();
    }

    /// What was read ahead and does not count any more is let go, when all of it is here. There is
    /// nothing of that kind before the last row of a victim was found.
    fn drop_heads(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &Cx) {
        let victim = self.victim.as_ref().expect("a head is one of a victim");
        if !victim.is_read() && self.passes.ending().is_none() {
            return;
        }
        let stale = self.lanes.heads().filter(|lane| !victim.is_asked(*lane));
        let stale = stale.fold(Set::default(), Set::with);
        for lane in stale {
            self.row_over(lane, media, mapping, cx);
        }
    }

    /// Goes on with the next row when its head is here, or there is none any more: what of it is
    /// live? A head that is wrong, or not of this use of the segment, is made from the other chunks
    /// first.
    fn next_row(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let victim = self.victim.as_mut().expect("a row is one of a victim");
        let Some(lane) = victim.next_lane() else { return false };
        let Some((buf, well)) = self.lanes.head(lane) else { return false };
        let at = self.at(lane);
        let head = self.head_of(lane, buf, &media.devices).filter(|_| well);
        if head.is_none() && self.layout.parity > 0 && !self.lane(lane).was_salvaged() {
            let buf = self.lane(lane).salvage_head();
            let place = self.head_place(at, &media.devices);
            media.salvage.ask(Wanted::Victim(lane), place, buf, &media.devices, cx);
            return true;
        }
        let next = head.and_then(|head| self.layout.after(at, head.first_sectors));
        let victim = self.victim.as_mut().expect("a row is one of a victim");
        victim.found(head.map(|head| head.seq), next);
        match head {
            Some(head) if self.fill_row(lane, &head, media) => {}
            Some(head) => self.lanes.sift_from(lane, &head, media.devices.stripe(at.segment)),
            None => self.row_over(lane, media, mapping, cx),
        }
        true
    }

    /// Finds out what of a row is live. Rows are gone through one after the other, for each asks
    /// for map pages ahead.
    fn sift(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let Some(lane) = self.lanes.sifting() else { return false };
        let moved = self.lanes.sift(lane, media, mapping, cx);
        if self.lane(lane).has_nothing() {
            self.row_over(lane, media, mapping, cx);
        }
        moved
    }

    /// No record of a row is left to be moved. Whether none has to be made from the others first.
    pub(super) fn end_row(
        &mut self,
        lane: u8,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let it = self.lane(lane);
        let over = !it.has_bad_chunk();
        if over && !it.tell_row(media, mapping, cx) {
            self.row_over(lane, media, mapping, cx);
        }
        over
    }

    /// A row was gone through.
    fn row_over(&mut self, lane: u8, media: &mut Media, mapping: &mut Mapping, cx: &Cx) {
        let moved = self.lanes.end(lane, mapping);
        self.pace_on(moved, media, cx);
    }

    /// The victim was gone through to its end.
    #[inline(never)]
    fn leave_victim(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) {
        let victim = self.victim.take().expect("a victim that is left had been chosen");
        self.lent = false;
        if !self.leave_fill(victim.last(), media, mapping) {
            media.segments.collected(victim.segment());
            self.judge(&media.segments);
        }
        cx.wake();
    }

    /// Nothing is under way any more: a stop does not wait for room that what was read of the
    /// victim can't get.
    pub(super) fn end(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let mut waits = false;
        for lane in self.lanes.moving() {
            self.row_over(lane, media, mapping, cx);
            waits = true;
        }
        if let Some(victim) = self.victim.as_mut().filter(|_| waits) {
            victim.give_up();
            self.drop_heads(media, mapping, cx);
        }
        waits
    }
}

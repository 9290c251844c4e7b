//! Collection: what is live in a victim moves to the stream of collection, row by row.
//!
//! Heads are read one after the other, for a head says where the next row begins. What comes after
//! that goes on in a [`lane`] for each row, several at once; which row is done first does not
//! matter, because of each record the map says whether it is still there.
//!
//! Invariants
//! - A victim's heads are read in order. It is left when no row of it is under way any more.
//! - A record is moved only when its checksum is right, and published only where the map still
//!   points at the place that it came from.
//! - A lane that waits holds at most one map page, and no room in a row: it keeps no other lane
//!   from going on.

pub(in crate::log) mod lane;
pub(in crate::log) mod protect;
mod throttle;
mod victim;

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Event, Gauges, MetaBuf, Target};
use hostftl_format::log::{self, Head};

use crate::kit::Life;
use crate::kit::shell::Ended;
use crate::log::buffers::Buffers;
use crate::log::checkpoint::Checkpoint;
use crate::log::devices::Devices;
use crate::log::durability::Durability;
use crate::log::gc::lane::Lane;
use crate::log::gc::protect::Protection;
use crate::log::gc::throttle::Pace;
use crate::log::gc::victim::Victim;
use crate::log::layout::{At, LANES, Layout};
use crate::log::map::Where;
use crate::log::map::pages::{Pages, With};
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::metadata::{Salvage, Wanted};
use crate::log::row::rows::Rows;
use crate::log::segments::Segments;
use crate::log::share::Share;

/// The parts that collection needs.
#[derive(Debug)]
pub struct Needs<'a> {
    /// It knows the victims.
    pub segments: &'a mut Segments,
    /// They are read.
    pub devices: &'a mut Devices,
    /// What is read lies in them.
    pub buffers: &'a mut Buffers,
    /// They say what is valid.
    pub pages: &'a mut Pages,
    /// Pages may need it.
    pub checkpoint: &'a mut Checkpoint,
    /// Records go into them.
    pub rows: &'a mut Rows,
    /// Rows that list nothing are written too.
    pub durability: &'a mut Durability,
    /// It rebuilds heads.
    pub salvage: &'a mut Salvage,
    /// What was rebuilt is counted.
    pub gauges: &'a mut Gauges,
    /// What need not be done at once is paced.
    pub share: &'a mut Share,
}

impl Needs<'_> {
    /// As [`Pages::fetch`].
    pub fn fetch(&mut self, page: u32, cx: &mut Cx) -> Where {
        let Needs { checkpoint, segments, devices, .. } = self;
        self.pages.fetch(page, &mut With { checkpoint, segments, devices }, cx)
    }

    /// As [`Pages::hold`].
    pub fn hold(&mut self, page: u32, spare: u32, cx: &mut Cx) -> Where {
        let Needs { checkpoint, segments, devices, .. } = self;
        self.pages.hold(page, spare, &mut With { checkpoint, segments, devices }, cx)
    }
}

/// See the module text.
#[derive(Debug)]
pub struct Collection {
    layout: Layout,
    uuid: [u8; 16],
    victim: Option<Victim>,
    lanes: Vec<Lane>,
    pace: Pace,
    /// Whether the victim was chosen although no room is wanted.
    paced: bool,
    protection: Protection,
    /// The same for what a scrub found.
    mending: Protection,
}

impl Collection {
    /// There is no victim.
    pub fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        Collection {
            layout: *layout,
            uuid,
            victim: None,
            lanes: (0..LANES as u8).map(|number| Lane::new(number, layout)).collect(),
            pace: Pace::new(layout),
            paced: false,
            protection: Protection::default(),
            mending: Protection::default(),
        }
    }

    /// The head of the victim's row at `lba`, if that is what `buf` has.
    pub fn head_of(&self, buf: &MetaBuf, lba: u64, devices: &Devices) -> Option<Head> {
        let head = log::open(buf, &self.uuid, lba)?;
        let victim = self.victim.as_ref().expect("a head is one of a victim");
        let at = victim.at();
        let sane = self.layout.admits_head(&head, at, devices.stripe(at.segment));
        (sane && victim.may_follow(head.seq)).then_some(head)
    }

    /// Where the row lies whose head is being read.
    pub fn at(&self) -> At {
        self.victim.as_ref().expect("a head is one of a victim").at()
    }

    /// Whether no victim is gone through.
    pub fn is_idle(&self) -> bool {
        self.victim.is_none()
    }

    /// A lane.
    #[inline]
    pub fn lane(&mut self, lane: u8) -> &mut Lane {
        &mut self.lanes[usize::from(lane)]
    }

    /// The lanes whose records are moved, or wait for that.
    pub fn moving(&self) -> impl Iterator<Item = u8> + use<> {
        let moving = self.lanes.iter().zip(0..).filter(|(lane, _)| lane.is_moving());
        let all = moving.fold(0_u32, |all, (_, lane)| all | 1 << lane);
        let all = if self.is_idle() { 0 } else { all };
        (0..LANES as u8).filter(move |lane| all >> lane & 1 == 1)
    }
}

impl Collection {
    /// The next step, unless records are moved.
    pub fn pump(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        let Some(victim) = &self.victim else { return self.choose_victim(with, cx) };
        if victim.is_read() && self.lanes.iter().all(Lane::is_idle) {
            self.leave_victim(with, cx);
            return true;
        }
        self.read_head(with, cx) || self.sift(with, cx) || self.pump_chunks(with, cx)
    }

    fn choose_victim(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        if cx.life() == Life::Stopping {
            return false;
        }
        let victim = match self.wants_collection(with.segments) {
            true if self.is_short(with.segments) => with.segments.pick_emptiest(),
            true => with.segments.pick(),
            false if self.layout.zoned => self.hurt_victim(with),
            false => None,
        };
        self.paced = victim.is_none();
        let victim = victim.or_else(|| self.protect(with, cx));
        let victim = victim.or_else(|| self.mend_flawed(with, cx));
        let Some(victim) = victim else { return false };
        assert!(self.lanes.iter().all(Lane::is_idle), "nothing of another victim is under way");
        self.pace_victim(victim, with.segments);
        cx.counters().gc_runs += 1;
        cx.tell(Event::GcStarted);
        self.victim = Some(Victim::new(victim));
        true
    }

    /// A segment with a zone that failed and with data to be moved elsewhere, if there is one.
    fn hurt_victim(&mut self, with: &mut Needs) -> Option<u32> {
        let segments = &mut with.segments;
        let mut hurt = with.devices.zones_mut().hurt(|it| segments.is_empty_or_gone(it));
        hurt.find(|it| segments.pick_this(*it))
    }

    /// Begins the next row of the victim in a lane, if it is known where it lies.
    fn read_head(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        let victim = self.victim.as_mut().expect("a row is one of a victim");
        let Some(lane) = self.lanes.iter().position(Lane::is_idle) else { return false };
        if !victim.has_next() || cx.command_room() == 0 || self.waits_for_host(with, cx) {
            return false;
        }
        let victim = self.victim.as_mut().expect("a row is one of a victim");
        let at = victim.ask(lane as u8);
        let buf = self.lanes[lane].begin(at);
        self.row_begun(with, cx);
        let command = Command::Read {
            device: with.devices.stripe(at.segment).device(at.segment, at.slot, 0),
            lba: self.layout.lba(at),
            into: Target::Meta { buf, pages: self.layout.head_pages(at.sector == 0) },
            cause: Cause::Gc,
        };
        with.devices.submit(Op::GcHead, command, cx);
        true
    }

    /// The device has answered: is that the head, or what it should have been?
    pub fn head_done(&mut self, command: Command, result: Ended, with: &mut Needs, cx: &mut Cx) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("a head comes back")
        };
        let head = result.ok().and_then(|_| self.head_of(&buf, lba, with.devices));
        match head.is_none() && self.layout.parity {
            true => with.salvage.ask(Wanted::Victim, (device, lba, pages), buf, cx),
            false => self.head_read(buf, head, with, cx),
        }
    }

    /// The head of a row was made from the other chunks, or can't be.
    pub fn head_salvaged(&mut self, buf: MetaBuf, well: bool, with: &mut Needs, cx: &mut Cx) {
        let head = self.head_of(&buf, self.layout.lba(self.at()), with.devices);
        self.head_read(buf, head.filter(|_| well), with, cx);
    }

    /// The head of a row is here, or there is none any more: what of it is live?
    fn head_read(&mut self, buf: MetaBuf, head: Option<Head>, with: &mut Needs, cx: &mut Cx) {
        let victim = self.victim.as_mut().expect("a head is one of a victim");
        let at = victim.at();
        let next = head.and_then(|head| self.layout.after(at, head.first_sectors));
        let lane = victim.found(head.map(|head| head.seq), next);
        match head {
            Some(head) => self.lane(lane).sift_from(buf, &head, with.devices.stripe(at.segment)),
            None => {
                self.lane(lane).has_no_row(buf);
                self.row_over(lane, with, cx);
            }
        }
        cx.wake();
    }

    /// Finds out what of a row is live. Rows are gone through one after the other, for each asks
    /// for map pages ahead.
    fn sift(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        let sifting = self.lanes.iter_mut().filter(|lane| lane.is_sifting());
        let Some(lane) = sifting.min_by_key(|lane| lane.seq()) else { return false };
        let moved = lane.sift(with, cx);
        if lane.has_nothing() {
            let lane = lane.number();
            self.row_over(lane, with, cx);
        }
        moved
    }

    /// Reads the chunks of a row that have anything live, or makes one from the others.
    fn pump_chunks(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        self.lanes.iter_mut().any(|lane| lane.pump(with, cx))
    }

    /// No record of a row is left to be moved. Whether none has to be made from the others first.
    pub fn end_row(&mut self, lane: u8, with: &mut Needs, cx: &mut Cx) -> bool {
        let it = self.lane(lane);
        let over = !it.has_bad_chunk();
        if over && !it.tell_row(with, cx) {
            self.row_over(lane, with, cx);
        }
        over
    }

    /// A row was gone through.
    fn row_over(&mut self, lane: u8, with: &mut Needs, cx: &Cx) {
        let moved = self.lane(lane).end(with);
        self.pace_on(moved, with, cx);
    }

    /// The victim was gone through to its end.
    fn leave_victim(&mut self, with: &mut Needs, cx: &mut Cx) {
        let victim = self.victim.take().expect("a victim that is left had been chosen");
        with.segments.collected(victim.segment());
        cx.wake();
    }

    /// Nothing is under way any more: a stop does not wait for room that what was read of the
    /// victim can't get.
    pub fn end(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        let mut waits = false;
        for lane in self.moving() {
            self.row_over(lane, with, cx);
            waits = true;
        }
        if let Some(victim) = self.victim.as_mut().filter(|_| waits) {
            victim.give_up();
        }
        waits
    }
}

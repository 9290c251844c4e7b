//! Checkpoints: images (see [`snapshot`]), and a root that points at them.
//!
//! Images are records of a stream of their own. They show the map as it was at one moment; the root
//! says which row was next then, and replay begins there. What rows that were open at that moment
//! list is in the images already, and replaying it changes nothing. A root may count only when
//! every row to which its images point is durable.
//!
//! Invariants
//! - One checkpoint at a time; images go to the devices a row at a time.
//! - What an older root points at stays untouched until the next one is durable.

pub(in crate::log) mod images;
mod root;
pub(in crate::log) mod roots;
pub(in crate::log) mod snapshot;

use alloc::vec::Vec;

use hostftl_core::{BLOCK, Command, Event, MetaBuf};
use hostftl_format::log::{Place, Root};

use crate::planted::{Bug, planted};

use crate::kit::Life;
use crate::log::Engine;
use crate::log::checkpoint::images::Images;
use crate::log::checkpoint::root::Written;
use crate::log::checkpoint::roots::Roots;
use crate::log::layout::Layout;
use crate::log::ops::Cx;
use crate::log::segments::Safe;

/// Bytes of heads and of map pages that recovery would have to read, at which a root is made. Until
/// it is durable as much again may come.
const DELTA: u64 = 96 << 20;

/// How far the checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Idle,
    /// Marks what has images in this segment, from this page on, to be written elsewhere.
    Moving(u32, u32),
    /// Images of the counts, from this page on.
    Counts(u32),
    /// Images of map pages, from this page on.
    Pages(u32),
    /// The old image of a map page is read, to be written elsewhere.
    Carrying,
    /// Images of directory pages, from this page on.
    Directory(u32),
    /// All rows up to this stamp, and row `seq`, must be durable.
    Settle(u64, u64),
    /// Zones for the root are made ready, with so many more commands.
    Turn(u32),
    /// This copy of the root is written, to so many more devices.
    Root(u32, u8),
    /// This copy becomes durable, on so many more devices.
    Flush(u32, u8),
}

/// What must change before segments become free or a root is wanted: the segments, the last durable
/// row, the next row, and the row that was opened last.
type Stir = (u64, u64, u64, u64);

/// See the module text.
#[derive(Debug)]
pub struct Checkpoint {
    pub phase: Phase,
    pub images: Images,
    /// Where the images of the directory's pages are, and of the counts.
    top: Vec<(Place, u32)>,
    /// The last root that is durable, and the one that is being made.
    pub root: Root,
    pub next: Root,
    /// The last root that is on all devices.
    pub everywhere: u64,
    /// When no empty segment was out of use, and when no root was wanted: while nothing has
    /// changed since, that is so.
    seen: Stir,
    weighed: Stir,
    bufs: Vec<MetaBuf>,
    uuid: [u8; 16],
    roots: Roots,
    wanted: bool,
    /// Changes since the images were taken, so that a root can be known to be the last.
    begun_at: u64,
}

impl Checkpoint {
    pub fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        Checkpoint {
            uuid,
            roots: Roots::new(layout),
            phase: Phase::Idle,
            images: Images::new(layout),
            top: alloc::vec![(Place::NOWHERE, 0); layout.tops() as usize],
            root: Root::default(),
            next: Root::default(),
            everywhere: 0,
            seen: Stir::default(),
            weighed: Stir::default(),
            bufs: (0..layout.devices).map(|_| MetaBuf::new(layout.root_pages() as usize)).collect(),
            wanted: false,
            begun_at: 0,
        }
    }

    /// Where the image of page `at` is of those that the root points at, and its CRC.
    pub fn top(&self, at: u32) -> (Place, u32) {
        self.top[at as usize]
    }

    /// Sets where that image is.
    pub fn set_top(&mut self, at: u32, place: Place, crc: u32) {
        self.top[at as usize] = (place, crc);
    }

    /// A checkpoint begins.
    pub fn begin(&mut self) {
        assert_eq!(self.phase, Phase::Idle, "one checkpoint at a time");
        self.wanted = false;
    }

    /// The buffer of a root comes back late.
    pub fn take_back(&mut self, buf: MetaBuf) {
        self.bufs.push(buf);
    }

    /// The zones of the roots of zoned devices.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The same, to be changed.
    pub fn roots_mut(&mut self) -> &mut Roots {
        &mut self.roots
    }

    /// Whether no root is on its way.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether nothing but images was written since the last root, if `next` is the next row.
    pub fn is_current(&self, next: u64) -> bool {
        self.phase == Phase::Idle && !self.wanted && self.begun_at == next && self.root.number > 0
    }

    /// A root is needed soon. False when one is already on its way.
    pub fn hurry(&mut self) -> bool {
        let new = !self.wanted && self.phase == Phase::Idle;
        self.wanted |= new;
        new
    }
}

impl Engine {
    /// Whether the host or collection can't go on, and could with `more` free segments.
    fn is_starved(&self, more: u32) -> bool {
        let (free, floor) = (self.segments.free(), self.layout.gc_floor());
        let most = self.layout.reserve + 1;
        let soon = self.layout.lead / 4;
        // A root takes time, in which the host goes on.
        free < most + soon && more > soon
            || free < most && free + more >= most
            || free <= floor + 1 && more > 0
    }

    /// A root frees segments, but seals rows early and costs images: it is made when somebody can't
    /// go on, or when replay would become long.
    fn wants_checkpoint(&self) -> bool {
        self.is_starved(self.segments.empty()) && self.awaited(self.safe()).is_none()
            || self.delta() > DELTA
    }

    /// Bytes of heads and map pages that recovery would read.
    pub(in crate::log) fn delta(&self) -> u64 {
        let rows = self.durability.next().saturating_sub(self.checkpoint.root.replay_from);
        let heads = rows * u64::from(self.layout.head_pages(true));
        (heads + u64::from(self.pages.map().dirty())) * BLOCK as u64
    }

    /// What is known of rows and the root.
    fn safe(&self) -> Safe {
        let stamp = self.durability.all_up_to(self.rows.unsealed());
        Safe { stamp, replay_from: self.checkpoint.root.replay_from }
    }

    fn stir(&self) -> Stir {
        let it = &self.durability;
        (self.segments.changes, it.durable(), it.next(), it.opened())
    }

    fn awaited(&self, safe: Safe) -> Option<u64> {
        let zones = self.devices.zones();
        self.segments.awaited(safe, |it| zones.is_filled(it))
    }

    /// Makes rows durable that say of segments that they are empty, when somebody can't go on.
    fn hasten(&mut self) -> bool {
        let safe = self.safe();
        let Some(stamp) = self.awaited(safe) else { return false };
        let hurry = stamp > safe.stamp && self.is_starved(self.segments.empty());
        hurry && self.durability.want_all(stamp)
    }

    pub(in crate::log) fn pump_checkpoint(&mut self, cx: &mut Cx) -> bool {
        if cx.room() < if self.layout.zoned { 36 } else { 20 } {
            return false;
        }
        match self.checkpoint.phase {
            Phase::Idle => {
                let stir = self.stir();
                let stirred = core::mem::replace(&mut self.checkpoint.weighed, stir) != stir;
                let begin = self.checkpoint.wanted
                    || self.pages.map().is_crowded()
                    || stirred && self.wants_checkpoint();
                if begin {
                    self.begin_checkpoint();
                }
                begin
            }
            Phase::Moving(segment, page) => self.mark_images_in(segment, page, cx),
            Phase::Counts(number) => self.take_counts(number, cx),
            Phase::Pages(page) => self.take_image(page, cx),
            Phase::Directory(page) => self.take_directory(page, cx),
            Phase::Settle(stamp, seq) => {
                let ready = self.durability.durable() >= seq && self.all_durable(stamp)
                    || planted(Bug::RootBeforeRows);
                if ready {
                    self.write_root(cx);
                }
                ready
            }
            Phase::Carrying | Phase::Turn(_) | Phase::Root(..) | Phase::Flush(..) => false,
        }
    }

    /// All images are taken: now everything that they show must become durable.
    pub(in crate::log) fn settle(&mut self) {
        let (opened, next) = (self.durability.opened(), self.durability.next());
        self.durability.want_all(opened);
        self.checkpoint.begun_at = next;
        self.checkpoint.phase = Phase::Settle(opened, next - 1);
    }

    /// Everything that the images show is durable: the root may say so.
    fn write_root(&mut self, cx: &mut Cx) {
        let root = Root { durable: self.durability.durable(), ..self.checkpoint.next };
        self.send_root(root, cx);
    }

    /// Writes a root to all devices.
    pub(in crate::log) fn send_root(&mut self, root: Root, cx: &mut Cx) {
        let lost = self.devices.lost() | root.lost & self.journal.bit();
        let of_this_life = root.epoch == self.life_number;
        let journal = if of_this_life { self.journal.newest() } else { root.journal };
        self.checkpoint.send_root(Root { lost, journal, ..root }, &mut self.devices, cx);
    }

    /// A root was written to a device, or the device flushed after it.
    pub(in crate::log) fn root_done(&mut self, command: Command, cx: &mut Cx) {
        match self.checkpoint.root_done(command, &mut self.devices, cx) {
            Written::On => {}
            Written::Again(root) => self.send_root(root, cx),
            Written::Durable => self.root_durable(cx),
        }
    }

    /// What the root before this one needed may be written again.
    fn root_durable(&mut self, cx: &mut Cx) {
        self.checkpoint.root = self.checkpoint.next;
        self.segments.root_durable();
        self.checkpoint.roots_mut().made_durable();
        self.pages.map_mut().root_durable();
        if cx.life() != Life::Starting || !planted(Bug::ClaimUntold) {
            self.checkpoint.everywhere = self.checkpoint.root.number;
        }
        self.journal.told(self.checkpoint.root.lost);
        self.devices.told(self.checkpoint.root.lost & !self.journal.bit());
        if cx.life() != Life::Starting {
            cx.tell(Event::CheckpointDone);
        }
        cx.wake();
    }

    /// Frees segments that no root needs any more.
    pub(in crate::log) fn pump_reclaim(&mut self, cx: &mut Cx) -> bool {
        let seen = self.stir();
        if self.checkpoint.seen == seen
            || !self.reclaim.has_room(&self.layout)
            || cx.room() < 20
            || cx.command_room() < 16
        {
            return false;
        }
        let empty = self.segments.empty() > 0 || !self.segments.is_clean();
        let (safe, zones) = (self.safe(), self.devices.zones());
        let segment = empty.then(|| self.segments.reclaim(safe, |it| zones.is_filled(it)));
        let Some(segment) = segment.flatten() else {
            self.checkpoint.seen = seen;
            return empty && self.hasten();
        };
        self.reclaim.begin(segment, &mut self.segments, &mut self.devices, cx);
        true
    }
}

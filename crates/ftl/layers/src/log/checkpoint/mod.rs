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

use hostftl_core::{BLOCK, Command, DeviceSet, Event, MetaBuf};
use hostftl_format::log::{Place, Root, page_seed};

use crate::planted::{Bug, planted};

use crate::kit::Life;
use crate::log::checkpoint::images::Images;
use crate::log::checkpoint::root::Written;
use crate::log::checkpoint::roots::Roots;
use crate::log::durability::Durability;
use crate::log::layout::Layout;
use crate::log::map::pages::Pages;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::output::Output;
use crate::log::segments::Safe;

/// Bytes of heads and of map pages that recovery would have to read, at which a root is made. Until
/// it is durable as much again may come.
const DELTA: u64 = 96 << 20;

/// How far the checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
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

#[derive(Debug)]
pub(super) struct Checkpoint {
    layout: Layout,
    phase: Phase,
    images: Images,
    /// Where the images of the directory's pages are, and of the counts.
    top: Vec<(Place, u32)>,
    /// The last root that is durable, and the one that is being made.
    root: Root,
    next: Root,
    /// The last root that is on all devices.
    everywhere: u64,
    /// When no empty segment was out of use, and when no root was wanted: while nothing has
    /// changed since, that is so.
    seen: Stir,
    weighed: Stir,
    bufs: Vec<MetaBuf>,
    uuid: [u8; 16],
    roots: Roots,
    wanted: bool,
    /// Devices that lack chunks by what the images say that are taken.
    lacking: Option<DeviceSet>,
    /// Changes since the images were taken, so that a root can be known to be the last.
    begun_at: u64,
}

impl Checkpoint {
    /// No root was made.
    pub(super) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        Checkpoint {
            layout: *layout,
            uuid,
            roots: Roots::new(layout),
            phase: Phase::Idle,
            images: Images::new(layout),
            top: alloc::vec![(Place::NOWHERE, 0); layout.tree.tops() as usize],
            root: Root::default(),
            next: Root::default(),
            everywhere: 0,
            seen: Stir::default(),
            weighed: Stir::default(),
            bufs: (0..layout.devices).map(|_| MetaBuf::new(layout.root_pages() as usize)).collect(),
            wanted: false,
            lacking: None,
            begun_at: 0,
        }
    }

    /// Where the image of page `at` is of those that the root points at, and its CRC.
    pub(super) fn top(&self, at: u32) -> (Place, u32) {
        self.top[at as usize]
    }

    /// Whether an image to which the root points is at a place.
    pub(super) fn has_top(&self, place: Place) -> bool {
        self.top.iter().any(|(top, _)| *top == place)
    }

    /// Sets where that image is.
    pub(super) fn set_top(&mut self, at: u32, place: Place, crc: u32) {
        self.top[at as usize] = (place, crc);
    }

    /// Goes on.
    ///
    /// # Panics
    /// When that is not what comes next.
    fn go(&mut self, next: Phase) {
        use Phase::{Carrying, Counts, Directory, Flush, Idle, Moving, Pages, Root, Settle, Turn};
        let fits = match (self.phase, next) {
            (Idle, Moving(_, 0) | Counts(0)) | (Moving(..), Counts(0)) => true,
            (Moving(one, from), Moving(other, to)) => (one == other && from <= to) || to == 0,
            (Counts(from), Counts(to)) => from < to,
            (Counts(_), Pages(0)) | (Pages(_), Carrying | Directory(0)) => true,
            (Pages(from), Pages(to)) | (Directory(from), Directory(to)) => from <= to,
            (Carrying, Pages(_)) | (Directory(_), Settle(..)) => true,
            // What is lost is told by a root without images.
            (Idle | Settle(..) | Turn(_), Turn(_) | Root(0, _)) => true,
            (Root(one, from), Root(other, to)) if one == other && to < from => true,
            // A copy was lost with its zone.
            (Root(..), Turn(_) | Root(0, _)) => true,
            (Root(one, 1), Flush(other, _)) => one == other,
            (Flush(one, from), Flush(other, to)) => one == other && to < from,
            (Flush(0, 1), Root(1, _)) | (Flush(1, 1), Idle) => true,
            _ => false,
        };
        assert!(fits, "a checkpoint in {:?} can't be in {next:?} next", self.phase);
        self.phase = next;
    }

    /// A checkpoint begins.
    pub(super) fn begin(&mut self) {
        assert_eq!(self.phase, Phase::Idle, "one checkpoint at a time");
        self.wanted = false;
    }

    /// The buffer of a root comes back late.
    pub(super) fn take_back(&mut self, buf: MetaBuf) {
        self.bufs.push(buf);
    }

    /// The zones of the roots of zoned devices.
    pub(super) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The same, to be changed.
    pub(super) fn roots_mut(&mut self) -> &mut Roots {
        &mut self.roots
    }

    /// The images that are taken.
    pub(super) fn images(&self) -> &Images {
        &self.images
    }

    /// The last root that is durable.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Recovery found that this root is on all devices.
    pub(super) fn is_everywhere(&mut self, number: u64) {
        self.everywhere = number;
    }

    /// Whether no root is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether a root is on its way, or will be.
    pub(super) fn is_due(&self) -> bool {
        self.wanted || self.phase != Phase::Idle
    }

    /// Whether nothing but images was written since the last root, if `next` is the next row.
    pub(super) fn is_current(&self, next: u64) -> bool {
        self.phase == Phase::Idle && !self.wanted && self.begun_at == next && self.root.number > 0
    }

    /// What the checksums of images begin with.
    pub(super) fn page_seed(&self) -> u64 {
        page_seed(&self.uuid)
    }

    /// A root is needed soon. False when one is already on its way.
    pub(super) fn hurry(&mut self) -> bool {
        let new = !self.wanted && self.phase == Phase::Idle;
        self.wanted |= new;
        new
    }
}

impl Checkpoint {
    /// Whether the host or collection can't go on with what is free, or will be when the devices
    /// have answered, and could with what is empty.
    fn is_starved(&self, media: &Media) -> bool {
        let (more, coming) = (media.segments.empty(), media.devices.reclaiming());
        let (free, kept) = (media.segments.free() + coming, media.segments.reserves());
        let (floor, most, soon) = (kept.gc_floor(), kept.host + 1, kept.lead / 4);
        // A root takes time, in which the host goes on.
        free < most + soon && more > soon
            || free < most && free + more >= most
            || free <= floor + 1 && more > 0
    }

    /// A root frees segments, but seals rows early and costs images: it is made when somebody can't
    /// go on, or when replay would become long.
    fn wants_checkpoint(&self, media: &Media, output: &Output, pages: &Pages) -> bool {
        self.is_starved(media) && Self::awaited(self.safe(output), media).is_none()
            || self.delta(&output.durability, pages) > DELTA
    }

    /// Bytes of heads and map pages that recovery would read.
    pub(super) fn delta(&self, durability: &Durability, pages: &Pages) -> u64 {
        let rows = durability.next().saturating_sub(self.root.replay_from);
        let heads = rows * u64::from(self.layout.head_pages(true));
        (heads + u64::from(pages.map().dirty())) * BLOCK as u64
    }

    /// What is known of rows and the root.
    fn safe(&self, output: &Output) -> Safe {
        let stamp = output.durability.all_up_to(output.rows.unsealed());
        Safe { stamp, replay_from: self.root.replay_from }
    }

    fn stir(media: &Media, output: &Output) -> Stir {
        let it = &output.durability;
        (media.segments.reuse().changes(), it.durable(), it.next(), it.opened())
    }

    fn awaited(safe: Safe, media: &Media) -> Option<u64> {
        let zones = media.devices.zones();
        media.segments.awaited(safe, |it| zones.is_filled(it))
    }

    /// Makes rows durable that say of segments that they are empty, when somebody can't go on.
    fn hasten(&mut self, safe: Safe, media: &mut Media, output: &mut Output) -> bool {
        if !self.is_starved(media) {
            return false;
        }
        let stamp = Self::awaited(safe, media).filter(|stamp| *stamp > safe.stamp);
        stamp.is_some_and(|stamp| output.durability.want_all(stamp))
    }

    /// The next step, or the first of a checkpoint that is due.
    pub(super) fn pump(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
        cx: &mut Cx,
    ) -> bool {
        if cx.room() < if self.layout.zoned { 36 } else { 20 } {
            return false;
        }
        match self.phase {
            Phase::Idle => {
                let stir = Self::stir(media, output);
                let stirred = core::mem::replace(&mut self.weighed, stir) != stir;
                let begin = self.wanted
                    || pages.map().is_crowded()
                    || stirred && self.wants_checkpoint(media, output, pages);
                if begin {
                    self.begin_images(media, output, pages);
                }
                begin
            }
            Phase::Moving(segment, page) => {
                self.mark_images_in(segment, page, media, output, pages, cx)
            }
            Phase::Counts(number) => self.take_counts(number, media, output, cx),
            Phase::Pages(page) => self.take_image(page, media, output, pages, cx),
            Phase::Directory(page) => self.take_directory(page, media, output, pages, cx),
            Phase::Settle(stamp, seq) => {
                let ready = output.durability.durable() >= seq
                    && output.durability.has_all(stamp, output.rows.unsealed())
                    || planted(Bug::RootBeforeRows);
                if ready {
                    self.write_root(media, output, cx);
                }
                ready
            }
            Phase::Carrying | Phase::Turn(_) | Phase::Root(..) | Phase::Flush(..) => false,
        }
    }

    /// All images are taken: now everything that they show must become durable.
    pub(super) fn settle(&mut self, output: &mut Output) {
        let (opened, next) = (output.durability.opened(), output.durability.next());
        output.durability.want_all(opened);
        self.begun_at = next;
        self.go(Phase::Settle(opened, next - 1));
    }

    /// Everything that the images show is durable: the root may say so.
    fn write_root(&mut self, media: &mut Media, output: &mut Output, cx: &mut Cx) {
        let root = Root { durable: output.durability.durable(), ..self.next };
        self.send(root, media, output, cx);
    }

    /// Writes a root to all devices that says something else than the last one, with its images.
    pub(super) fn tell(&mut self, root: Root, media: &mut Media, output: &mut Output, cx: &mut Cx) {
        media.devices.list_joining(false);
        self.send(root, media, output, cx);
    }

    /// Writes a root to all devices.
    fn send(&mut self, root: Root, media: &mut Media, output: &mut Output, cx: &mut Cx) {
        // A root whose images were taken before a device joined does not say what that lacks.
        let joined = media.devices.listed();
        let journal = output.journal.device_set();
        let as_it_was = DeviceSet::from_bits(root.lost) & journal;
        let lost = ((media.devices.inactive() - (joined | journal)) | as_it_was).to_bits();
        let of_this_life = root.epoch == output.volume.life;
        let journal = if of_this_life { output.journal.newest() } else { root.journal };
        let out = media.devices.begin_to_tell(&root).to_bits();
        let sets = media.devices.membership().sets().map(DeviceSet::to_bits);
        let (known, directories) = (media.devices.known().to_bits(), self.layout.tree.directories);
        let root = Root { lost, out, sets, journal, known, directories, ..root };
        self.send_root(root, &mut media.devices, cx);
    }

    /// A root was written to a device, or the device flushed after it.
    pub(super) fn root_over(
        &mut self,
        command: Command,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
        cx: &mut Cx,
    ) {
        match self.root_done(command, &mut media.devices, cx) {
            Written::On => {}
            Written::Again => self.send(self.next, media, output, cx),
            Written::Durable => self.root_durable(media, output, pages, cx),
        }
    }

    /// What the root before this one needed may be written again.
    fn root_durable(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
        cx: &mut Cx,
    ) {
        self.root = self.next;
        media.segments.reuse_mut().root_durable();
        self.roots_mut().made_durable();
        pages.map_mut().root_durable();
        if cx.life() != Life::Starting || !planted(Bug::ClaimUntold) {
            self.everywhere = self.root.number;
        }
        if let Some(lacking) = self.lacking.take() {
            media.devices.told_lacking(lacking);
        }
        output.journal.told(DeviceSet::from_bits(self.root.lost));
        let lost = media.devices.inactive();
        media.devices.told(&self.root, output.journal.device_set());
        if !lost.is_within(media.devices.inactive()) {
            media.segments.try_again();
        }
        if cx.life() != Life::Starting {
            cx.tell(Event::CheckpointDone);
        }
        cx.wake();
    }

    /// Frees segments that no root needs any more.
    pub(super) fn reclaim_some(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) -> bool {
        let seen = Self::stir(media, output);
        if self.seen == seen
            || !media.devices.may_reclaim()
            || cx.room() < 20
            || cx.command_room() < 16
        {
            return false;
        }
        let empty = media.segments.empty() > 0 || !media.segments.is_clean();
        if !empty {
            self.seen = seen;
            return false;
        }
        let (safe, zones) = (self.safe(output), media.devices.zones());
        let Some(segment) = media.segments.reclaim(safe, |it| zones.is_filled(it)) else {
            self.seen = seen;
            return self.hasten(safe, media, output);
        };
        media.devices.reclaim(segment, &mut media.segments, cx);
        true
    }
}

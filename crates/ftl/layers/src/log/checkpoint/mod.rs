//! Checkpoints: images (see [`snapshot`]), and a root that locates them.
//!
//! Images are records of a stream of their own. They contain the map as it was at one moment. The
//! root contains the number of the next stripe at that moment, and replay starts there. The entries
//! of stripes that were open then are already part of the images, so replaying them changes
//! nothing. A root is valid only if every stripe with its images is durable.
//!
//! Invariants
//! - There is one checkpoint at a time, and its images are written one stripe at a time.
//! - Data that an older root refers to stays unchanged until the next root is durable.

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

/// Bytes of heads and map pages that recovery would read at which a checkpoint begins. As much
/// again may follow before its root is durable.
const DELTA: u64 = 96 << 20;

/// Progress of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// Marks the pages with images in this segment for a move, from this page on.
    Moving(u32, u32),
    /// Writes images of the counts, from this page on.
    Counts(u32),
    /// Writes images of map pages, from this page on.
    Pages(u32),
    /// Reads the old image of a map page so that it can be moved.
    Carrying,
    /// Writes images of directory pages, from this page on.
    Directory(u32),
    /// Waits until all stripes up to this stamp, and up to this number, are durable.
    Settle(u64, u64),
    /// Prepares zones for the root; this number of commands is in flight.
    Turn(u32),
    /// Writes this copy of the root; this number of devices is left.
    Root(u32, u8),
    /// Flushes this copy of the root; this number of devices is left.
    Flush(u32, u8),
}

/// State on which the need for a checkpoint depends: changes of segments, the last durable stripe,
/// the next stripe, and the stripe that was opened last.
type Progress = (u64, u64, u64, u64);

#[derive(Debug)]
pub(super) struct Checkpoint {
    layout: Layout,
    phase: Phase,
    images: Images,
    /// Places and CRCs of the images of the directory pages and the counts.
    top: Vec<(Place, u32)>,
    /// The last durable root, and the root in progress.
    root: Root,
    next: Root,
    /// Number of the last root that is on all devices.
    everywhere: u64,
    /// State when no empty segment was left to free, and when no checkpoint was needed. The result
    /// holds while the state is unchanged.
    seen: Progress,
    weighed: Progress,
    bufs: Vec<MetaBuf>,
    uuid: [u8; 16],
    roots: Roots,
    wanted: bool,
    /// Devices that miss chunks according to the images in progress.
    lacking: Option<DeviceSet>,
    /// Number of the next stripe when the images were complete, to detect that no data was written
    /// since.
    begun_at: u64,
}

impl Checkpoint {
    /// Creates the state of a volume without a root.
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
            seen: Progress::default(),
            weighed: Progress::default(),
            bufs: (0..layout.devices).map(|_| MetaBuf::new(layout.root_pages() as usize)).collect(),
            wanted: false,
            lacking: None,
            begun_at: 0,
        }
    }

    /// Returns the place and the CRC of the image of page `at`, among the images that the root
    /// refers to.
    pub(super) fn top(&self, at: u32) -> (Place, u32) {
        self.top[at as usize]
    }

    /// Returns whether the root refers to an image at a place.
    pub(super) fn has_top(&self, place: Place) -> bool {
        self.top.iter().any(|(top, _)| *top == place)
    }

    /// Sets the place and the CRC of that image.
    pub(super) fn set_top(&mut self, at: u32, place: Place, crc: u32) {
        self.top[at as usize] = (place, crc);
    }

    /// Changes the phase.
    ///
    /// # Panics
    /// If `next` cannot follow the current phase.
    fn go(&mut self, next: Phase) {
        use Phase::{Carrying, Counts, Directory, Flush, Idle, Moving, Pages, Root, Settle, Turn};
        let fits = match (self.phase, next) {
            (Idle, Moving(_, 0) | Counts(0)) | (Moving(..), Counts(0)) => true,
            (Moving(one, from), Moving(other, to)) => (one == other && from <= to) || to == 0,
            (Counts(from), Counts(to)) => from < to,
            (Counts(_), Pages(0)) | (Pages(_), Carrying | Directory(0)) => true,
            (Pages(from), Pages(to)) | (Directory(from), Directory(to)) => from <= to,
            (Carrying, Pages(_)) | (Directory(_), Settle(..)) => true,
            // A root that only records lost devices has no new images.
            (Idle | Settle(..) | Turn(_), Turn(_) | Root(0, _)) => true,
            (Root(one, from), Root(other, to)) if one == other && to < from => true,
            // A copy was lost with its zone.
            (Root(..), Turn(_) | Root(0, _)) => true,
            (Root(one, 1), Flush(other, _)) => one == other,
            (Flush(one, from), Flush(other, to)) => one == other && to < from,
            (Flush(0, 1), Root(1, _)) | (Flush(1, 1), Idle) => true,
            _ => false,
        };
        assert!(fits, "a checkpoint can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    /// Begins a checkpoint.
    pub(super) fn begin(&mut self) {
        assert_eq!(self.phase, Phase::Idle, "one checkpoint at a time");
        self.wanted = false;
    }

    /// Takes back the buffer of a root from an abandoned command.
    pub(super) fn take_back(&mut self, buf: MetaBuf) {
        self.bufs.push(buf);
    }

    /// Returns the zones for roots of zoned devices.
    pub(super) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Returns the zones for roots, for changes.
    pub(super) fn roots_mut(&mut self) -> &mut Roots {
        &mut self.roots
    }

    /// Returns the images in progress.
    pub(super) fn images(&self) -> &Images {
        &self.images
    }

    /// Returns the last durable root.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Records that recovery found this root on all devices.
    pub(super) fn is_everywhere(&mut self, number: u64) {
        self.everywhere = number;
    }

    /// Returns whether no checkpoint is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Returns whether a checkpoint is in progress or requested.
    pub(super) fn is_due(&self) -> bool {
        self.wanted || self.phase != Phase::Idle
    }

    /// Returns whether only images were written since the last root; `next` is the number of the
    /// next stripe.
    pub(super) fn is_current(&self, next: u64) -> bool {
        self.phase == Phase::Idle && !self.wanted && self.begun_at == next && self.root.number > 0
    }

    /// Returns the seed for the checksums of images.
    pub(super) fn page_seed(&self) -> u64 {
        page_seed(&self.uuid)
    }

    /// Requests a checkpoint soon. Returns false if one is in progress or was requested before.
    pub(super) fn hurry(&mut self) -> bool {
        let new = !self.wanted && self.phase == Phase::Idle;
        self.wanted |= new;
        new
    }
}

impl Checkpoint {
    /// Returns whether the host or garbage collection cannot continue with the segments that are
    /// free or being reset, but could with the empty ones.
    fn is_starved(&self, media: &Media) -> bool {
        let (more, coming) = (media.segments.empty(), media.devices.reclaiming());
        let (free, kept) = (media.segments.free() + coming, media.segments.reserves());
        let (floor, most, soon) = (kept.gc_floor(), kept.host + 1, kept.lead / 4);
        // A checkpoint takes time, during which the host continues to write.
        // The first case acts early, while many segments can be freed at once. The other two are
        // the last resort of the host and of garbage collection.
        free < most + soon && more > soon
            || free < most && free + more >= most
            || free <= floor + 1 && more > 0
    }

    /// Returns whether a checkpoint is needed. It frees segments, but seals stripes early and
    /// writes images. Therefore it begins only if work is blocked or replay would become long.
    fn wants_checkpoint(&self, media: &Media, output: &Output, pages: &Pages) -> bool {
        // If the empty segments only wait for stripes, durability of these frees them without a
        // checkpoint.
        self.is_starved(media) && Self::awaited(self.safe(output), media).is_none()
            || self.delta(&output.durability, pages) > DELTA
    }

    /// Returns the number of bytes of heads and map pages that recovery would read.
    pub(super) fn delta(&self, durability: &Durability, pages: &Pages) -> u64 {
        let stripes = durability.next().saturating_sub(self.root.replay_from);
        let heads = stripes * u64::from(self.layout.head_pages(true));
        (heads + u64::from(pages.map().dirty())) * BLOCK as u64
    }

    /// Returns the durable state on which the release of segments depends.
    fn safe(&self, output: &Output) -> Safe {
        let stamp = output.durability.all_up_to(output.stripes.unsealed());
        Safe { stamp, replay_from: self.root.replay_from }
    }

    fn progress(media: &Media, output: &Output) -> Progress {
        let it = &output.durability;
        (media.segments.reuse().changes(), it.durable(), it.next(), it.opened())
    }

    fn awaited(safe: Safe, media: &Media) -> Option<u64> {
        let zones = media.devices.zones();
        media.segments.awaited(safe, |it| zones.is_filled(it))
    }

    /// Requests durability of the stripes that keep empty segments from being freed, if work is
    /// blocked.
    fn hasten(&mut self, safe: Safe, media: &mut Media, output: &mut Output) -> bool {
        if !self.is_starved(media) {
            return false;
        }
        let stamp = Self::awaited(safe, media).filter(|stamp| *stamp > safe.stamp);
        stamp.is_some_and(|stamp| output.durability.want_all(stamp))
    }

    /// Performs the next step, or begins a checkpoint that is due.
    pub(super) fn pump(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
        cx: &mut Cx,
    ) -> bool {
        if cx.outputs_left() < if self.layout.zoned { 36 } else { 20 } {
            return false;
        }
        match self.phase {
            Phase::Idle => {
                let progress = Self::progress(media, output);
                let has_progress = core::mem::replace(&mut self.weighed, progress) != progress;
                // The last condition is expensive, so it is evaluated only after a change.
                let begin = self.wanted
                    || pages.map().is_crowded()
                    || has_progress && self.wants_checkpoint(media, output, pages);
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
                    && output.durability.has_all(stamp, output.stripes.unsealed())
                    || planted(Bug::RootBeforeStripes);
                if ready {
                    self.write_root(media, output, cx);
                }
                ready
            }
            Phase::Carrying | Phase::Turn(_) | Phase::Root(..) | Phase::Flush(..) => false,
        }
    }

    /// Requests durability of everything that the images contain, after all of them were taken.
    pub(super) fn settle(&mut self, output: &mut Output) {
        // Images contain blocks of stripes that are still open, so these must become durable first.
        let (opened, next) = (output.durability.opened(), output.durability.next());
        output.durability.want_all(opened);
        self.begun_at = next;
        self.go(Phase::Settle(opened, next - 1));
    }

    /// Writes the root after everything that the images contain is durable.
    fn write_root(&mut self, media: &mut Media, output: &mut Output, cx: &mut Cx) {
        let root = Root { durable: output.durability.durable(), ..self.next };
        self.send(root, media, output, cx);
    }

    /// Writes to all devices a root with new contents but the images of the last one.
    pub(super) fn commit_members(
        &mut self,
        root: Root,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) {
        media.devices.list_joining(false);
        self.send(root, media, output, cx);
    }

    /// Writes a root to all devices.
    fn send(&mut self, root: Root, media: &mut Media, output: &mut Output, cx: &mut Cx) {
        // Images taken before a device joined do not list its missing chunks, so the root records
        // it as lost.
        let joined = media.devices.listed();
        let journal = output.journal.device_set();
        // Whether the journal is needed was decided when the images were begun.
        let as_it_was = DeviceSet::from_bits(root.lost) & journal;
        let lost = ((media.devices.inactive() - (joined | journal)) | as_it_was).to_bits();
        let of_this_life = root.epoch == output.volume.life;
        let journal = if of_this_life { output.journal.newest() } else { root.journal };
        let out = media.devices.begin_root(&root).to_bits();
        let sets = media.devices.membership().sets().map(DeviceSet::to_bits);
        let (known, directories) = (media.devices.known().to_bits(), self.layout.tree.directories);
        let root = Root { lost, out, sets, journal, known, directories, ..root };
        self.send_root(root, &mut media.devices, cx);
    }

    /// Processes the completed write of a root, or the flush after it.
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

    /// Makes the root in progress the current one. Data that only the root before it needed may now
    /// be overwritten.
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
        if cx.life() != Life::Starting || !planted(Bug::ClaimUnrecorded) {
            self.everywhere = self.root.number;
        }
        if let Some(lacking) = self.lacking.take() {
            media.devices.commit_lacking(lacking);
        }
        output.journal.commit_root(DeviceSet::from_bits(self.root.lost));
        let lost = media.devices.inactive();
        media.devices.commit_root(&self.root, output.journal.device_set());
        if !lost.is_within(media.devices.inactive()) {
            // A device became a member: data that was unreadable may be readable now.
            media.segments.try_again();
        }
        if cx.life() != Life::Starting {
            cx.report(Event::CheckpointDone);
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
        let seen = Self::progress(media, output);
        if self.seen == seen
            || !media.devices.may_reclaim()
            || cx.outputs_left() < 20
            || cx.commands_left() < 16
        {
            return false;
        }
        let empty = media.segments.empty() > 0 || !media.segments.is_clean();
        if !empty {
            // Nothing changes until the state does, so the search is skipped.
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

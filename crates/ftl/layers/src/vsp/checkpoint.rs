//! Fuzzy checkpoints: changed map groups are written in rotation, followed by a root.
//!
//! Invariants
//! - A group is dirty if an entry of it changed after its last image was begun.
//! - An image is written only when a durable log write covers everything that it shows.
//!   Replacements in place are exempt: for them durable home writes are enough.
//! - Images of a group alternate between two places, so a torn image leaves the previous one.
//! - A root names the oldest acceptable image of each group, and the first log write to replay,
//!   which was the next one when the rotation began.
//! - A durable root makes all kills from before its rotation durable; see [`super::direct`].

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{
    BLOCK, Cause, Command, Event, Gather, MetaBuf, Piece, SECTORS_PER_BLOCK, Tally,
};
use hostftl_format::hard::{
    CANDIDATES, MapPage, ROOT_GENERATIONS, Root, emit_generations, emit_root, seal_map,
};

use crate::planted::{Bug, planted};

use super::area::Area;
use super::direct::Direct;
use super::durability_requests::DurabilityRequests;
use super::layout::Layout;
use super::log::{Log, Mark};
use super::obsolete_images::ObsoleteImages;
use super::ops::{Cx, Op, OwnOp, page_buffer};
use super::pool::Pool;
use super::stages::Stages;
use super::table::Table;

/// Maximum number of images in flight.
const IMAGES: usize = 4;
/// Groups examined per call.
const SCAN: u32 = 1024;

/// State of the flush that covers the last writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    Wanted,
    Sent,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Images,
    ImageSync(Sync),
    Roots,
    RootSync(Sync),
    /// Obsolete images are being discarded.
    Forgetting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImagePhase {
    Idle,
    /// Number of pages that are filled.
    Filling(u32),
    /// Filled; it may be written when this mark is durable.
    Waiting(Mark),
    Writing,
}

#[derive(Debug)]
struct Image {
    phase: ImagePhase,
    group: u32,
    buf: Option<MetaBuf>,
}

/// The current rotation, or the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Rotation {
    /// Next group to examine.
    cursor: u32,
    /// Images begun in this rotation; `quota` is the number of dirty groups at its beginning.
    begun: u32,
    quota: u32,
    /// Number of stages opened before it.
    stamp: u64,
    /// Next log write at its beginning.
    log: u64,
    /// Last event whose kills its root makes durable.
    settles: u64,
}

/// Checkpoint state of an area.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    group_entries: u64,
    phase: Phase,
    dirty: Vec<bool>,
    dirty_count: u32,
    /// Images to discard.
    obsolete: ObsoleteImages,
    /// Generation of the last image of each group.
    generations: Vec<u32>,
    images: Vec<Image>,
    roots: [Option<MetaBuf>; 2],
    /// Number of the last root.
    number: u64,
    /// First log write that the last durable root needs.
    first_log: Option<u64>,
    hurried: bool,
    rotation: Rotation,
    candidates: Vec<u32>,
}

impl Checkpoint {
    /// Starts with nothing on media.
    pub(crate) fn new(layout: &Layout) -> Self {
        let groups = layout.groups as usize;
        let image = || Image {
            phase: ImagePhase::Idle,
            group: 0,
            buf: Some(MetaBuf::new(layout.pages() as usize)),
        };
        let root = || Some(MetaBuf::new(layout.root_pages() as usize));
        Checkpoint {
            group_entries: layout.group_entries(),
            phase: Phase::Idle,
            dirty: vec![false; groups],
            dirty_count: 0,
            obsolete: ObsoleteImages::new(layout.groups),
            generations: vec![0; groups],
            images: (0..IMAGES).map(|_| image()).collect(),
            roots: [root(), root()],
            number: 0,
            first_log: None,
            hurried: false,
            rotation: Rotation::default(),
            candidates: Vec::with_capacity(CANDIDATES),
        }
    }

    /// Returns the bytes of the group tables, and of images and roots in flight.
    pub(crate) fn memory(layout: &Layout) -> u64 {
        let groups = u64::from(layout.groups) * (size_of::<bool>() + size_of::<u32>()) as u64;
        let pages = IMAGES as u64 * u64::from(layout.pages()) + 2 * u64::from(layout.root_pages());
        groups + ObsoleteImages::memory(layout) + pages * BLOCK as u64
    }

    fn go(&mut self, next: Phase) {
        let fits = matches!(
            (self.phase, next),
            (Phase::Idle, Phase::Images)
                | (Phase::Images, Phase::ImageSync(Sync::Wanted))
                | (Phase::ImageSync(Sync::Over), Phase::Roots)
                | (Phase::Roots, Phase::RootSync(Sync::Wanted))
                | (Phase::RootSync(Sync::Over), Phase::Forgetting)
                | (Phase::Forgetting, Phase::Idle)
        );
        assert!(fits, "a checkpoint can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    /// Notes that the entry of a key changed.
    pub(crate) fn changed(&mut self, key: u64) {
        self.changed_run(key, 1);
    }

    /// Notes that `entries` entries changed, from `key` on.
    pub(crate) fn changed_run(&mut self, key: u64, entries: u32) {
        let last = (key + u64::from(entries) - 1) / self.group_entries;
        for dirty in &mut self.dirty[(key / self.group_entries) as usize..=last as usize] {
            self.dirty_count += u32::from(!*dirty);
            *dirty = true;
        }
    }

    /// Returns whether an entry of a group changed after its last image was begun.
    pub(crate) fn is_dirty(&self, group: u32) -> bool {
        self.dirty[group as usize]
    }

    /// Returns the generation of the last image of a group.
    pub(crate) fn generation(&self, group: u32) -> u32 {
        self.generations[group as usize]
    }

    /// Sets the generation of the last image of a group, as found by recovery.
    pub(crate) fn set_generation(&mut self, group: u32, generation: u32) {
        self.generations[group as usize] = generation;
    }

    /// Sets the number of the last root.
    pub(crate) fn follow(&mut self, number: u64) {
        self.number = number;
    }

    /// Requests a complete checkpoint without pacing. Returns false if one is already requested.
    pub(crate) fn hurry(&mut self) -> bool {
        !core::mem::replace(&mut self.hurried, true)
    }

    /// Returns whether the last durable root needs no replay when `next` is the next log write.
    pub(crate) fn is_current(&self, next: u64) -> bool {
        self.phase == Phase::Idle && self.dirty_count == 0 && self.first_log == Some(next)
    }

    /// Returns whether the checkpoint waits for a flush to be sent.
    pub(crate) fn wants_flush(&self) -> bool {
        matches!(self.phase, Phase::ImageSync(Sync::Wanted) | Phase::RootSync(Sync::Wanted))
    }

    /// Notes that a flush was sent.
    pub(crate) fn flush_sent(&mut self) {
        if let Phase::ImageSync(sync) | Phase::RootSync(sync) = &mut self.phase {
            *sync = Sync::Sent;
        }
    }

    /// Notes that a flush is complete.
    pub(crate) fn flushed(&mut self) {
        if let Phase::ImageSync(sync) | Phase::RootSync(sync) = &mut self.phase
            // A flush sent before the last write was complete doesn't cover that write.
            && *sync == Sync::Sent
        {
            *sync = Sync::Over;
        }
    }

    /// Completes an image.
    pub(crate) fn image_written(&mut self, slot: u8, command: Command) {
        let image = &mut self.images[slot as usize];
        (image.phase, image.buf) = (ImagePhase::Idle, Some(page_buffer(command)));
    }

    /// Completes a copy of the root.
    pub(crate) fn root_written(&mut self, copy: u8, command: Command) {
        self.roots[copy as usize] = Some(page_buffer(command));
        if self.roots.iter().all(Option::is_some) {
            self.go(Phase::RootSync(Sync::Wanted));
        }
    }

    /// Completes a discard, successful or not.
    pub(crate) fn image_forgotten(&mut self) {
        self.obsolete.forgotten();
    }

    fn free_image(&mut self) -> Option<&mut Image> {
        self.images.iter_mut().find(|image| image.phase == ImagePhase::Idle)
    }
}

/// Parts of an area that a checkpoint uses.
#[derive(Debug)]
struct Needs<'a, T: Table> {
    layout: &'a Layout,
    uuid: [u8; 16],
    table: &'a mut T,
    pool: &'a mut Pool,
    log: &'a mut Log,
    stages: &'a Stages,
    direct: &'a mut Direct,
    requests: &'a mut DurabilityRequests,
    /// Mark of the present.
    mark: Mark,
}

impl<'a, T: Table> Needs<'a, T> {
    /// Splits an area into its checkpoint and the other parts.
    fn split(area: &'a mut Area<T>) -> (&'a mut Checkpoint, Self) {
        let mark = area.mark_all();
        let Area { layout, uuid, table, pool, direct, log, stages, checkpoint, .. } = area;
        let requests = &mut area.durability_requests;
        (
            checkpoint,
            Needs { layout, uuid: *uuid, table, pool, log, stages, direct, requests, mark },
        )
    }

    /// Returns the number of superpages that log pages may pin, which grows with the free ones.
    fn pin_limit(&self) -> u32 {
        self.layout.max_pinned().max(self.table.pins(self.pool.free() as u32))
    }
}

/// Advances the checkpoint of an area. Returns whether anything moved, and, when a root became
/// durable, the first log write that it needs.
pub(super) fn pump<T: Table>(area: &mut Area<T>, cx: &mut Cx<T::Op>) -> (bool, Option<u64>) {
    let (checkpoint, mut with) = Needs::split(area);
    checkpoint.pump(&mut with, cx)
}

impl Checkpoint {
    fn pump<T: Table>(&mut self, with: &mut Needs<T>, cx: &mut Cx<T::Op>) -> (bool, Option<u64>) {
        let moved = match self.phase {
            Phase::Idle => self.begin_rotation(with),
            Phase::Images => {
                self.write_image(with, cx) || self.fill_image(with, cx) || self.begin_image(with)
            }
            Phase::ImageSync(Sync::Over) if cx.commands_left() >= 2 => {
                self.go(Phase::Roots);
                self.number += 1;
                self.write_root(0, with, cx);
                self.write_root(1, with, cx);
                true
            }
            Phase::RootSync(Sync::Over) => {
                self.first_log = Some(self.rotation.log);
                self.obsolete.begin();
                self.go(Phase::Forgetting);
                let all = planted(Bug::RootSettlesAll);
                let settles = if all { with.direct.done() } else { self.rotation.settles };
                with.direct.settle_events(settles);
                cx.report(Event::CheckpointDone);
                return (true, self.first_log);
            }
            Phase::Forgetting if self.obsolete.is_over() => {
                self.go(Phase::Idle);
                true
            }
            Phase::Forgetting => self.obsolete.pump(with.layout, &self.generations, cx),
            _ => false,
        };
        (moved, None)
    }

    fn begin_rotation<T: Table>(&mut self, with: &mut Needs<T>) -> bool {
        let half = (with.layout.interval() / 2).max(1);
        let opened = with.stages.opened() - self.rotation.stamp;
        let crowded = with.pool.pins() as u32 >= with.pin_limit() / 2;
        // Half an interval until the rotation and half for its images keep replay within one.
        if !self.hurried && opened < u64::from(half) && !crowded {
            return false;
        }
        if self.is_current(with.log.next()) {
            self.hurried = false;
            self.rotation.stamp = with.stages.opened();
            return false;
        }
        self.hurried |= with.pool.pins() as u32 >= with.pin_limit();
        let names = with.stages.queued().chain(with.pool.free_list()).take(CANDIDATES);
        self.candidates.clear();
        self.candidates.extend(names);
        let composed = with.log.composed().mark.stamp;
        self.rotation = Rotation {
            stamp: with.stages.opened(),
            log: with.log.next(),
            settles: with.direct.settleable(composed),
            quota: self.dirty_count,
            cursor: 0,
            begun: 0,
        };
        self.go(Phase::Images);
        true
    }

    /// Writes an image whose contents are durable.
    fn write_image<T: Table>(&mut self, with: &mut Needs<T>, cx: &mut Cx<T::Op>) -> bool {
        let early = planted(Bug::CheckpointEarly);
        let durable = Mark { direct: with.direct.flushed(), ..with.log.durable().mark };
        let shown = |mark| durable.covers(mark) || early;
        let ready = |image: &Image| matches!(image.phase, ImagePhase::Waiting(mark) if shown(mark));
        let Some(slot) = self.images.iter().position(ready) else { return false };
        if cx.commands_left() == 0 {
            return false;
        }
        let image = &mut self.images[slot];
        image.phase = ImagePhase::Writing;
        let group = image.group;
        let mut buf = image.buf.take().expect("a full image has its buffer");
        // The generation selects the place: not that of the previous image.
        self.generations[group as usize] += 1;
        let generation = self.generations[group as usize];
        let lba = with.layout.group_at(group, generation);
        for (index, page) in buf.pages_mut().iter_mut().enumerate() {
            let at = lba + index as u64 * u64::from(SECTORS_PER_BLOCK);
            seal_map(page, MapPage { group, index: index as u32, generation }, with.uuid, at);
        }
        let pages = with.layout.pages();
        let command = program(lba, buf, pages, with.layout.superpage, cx);
        cx.submit(Op::Image { slot: slot as u8 }, command);
        self.obsolete.note(group, with.pool.discards());
        if planted(Bug::ImageForgottenEarly) {
            self.obsolete.begin();
            self.obsolete.pump(with.layout, &self.generations, cx);
        }
        true
    }

    /// Copies a page of the map into an image that is being filled.
    fn fill_image<T: Table>(&mut self, with: &mut Needs<T>, cx: &mut Cx<T::Op>) -> bool {
        let (mark, entries) = (with.mark, with.layout.width.entries());
        let filling = |image: &&mut Image| matches!(image.phase, ImagePhase::Filling(_));
        let Some(image) = self.images.iter_mut().find(filling) else { return false };
        let ImagePhase::Filling(index) = image.phase else { unreachable!("an image is filling") };
        let from = u64::from(image.group) * self.group_entries + u64::from(index) * entries as u64;
        let buf = image.buf.as_mut().expect("a filled image has its buffer");
        with.table.image(&mut buf.pages_mut()[index as usize], from);
        cx.touch(entries);
        image.phase = ImagePhase::Filling(index + 1);
        if index + 1 == with.layout.pages() {
            // Entries may change while later pages are filled, so the mark is that of the last
            // page.
            image.phase = ImagePhase::Waiting(mark);
            with.requests.request_eventually(mark);
            if self.hurried {
                with.requests.request_soon(mark);
            }
        }
        true
    }

    /// Begins the image of the next dirty group, or ends the images of the rotation.
    fn begin_image<T: Table>(&mut self, with: &mut Needs<T>) -> bool {
        let crowded = with.pool.pins() as u32 >= with.pin_limit();
        let half = u64::from(with.layout.interval() / 2).max(1);
        let since = with.stages.opened() - self.rotation.stamp;
        // Images are spread over half an interval, in proportion to the number of stages opened.
        let due = since * u64::from(self.rotation.quota) / half;
        // Behind schedule, or pinned log pages are about to use up free superpages.
        self.hurried |= crowded || since >= half;
        if self.hurried {
            self.request_waiting_images(with);
        } else if u64::from(self.rotation.begun) > due && self.rotation.cursor < with.layout.groups
        {
            return false;
        }
        let end = (self.rotation.cursor + SCAN).min(with.layout.groups);
        let next = (self.rotation.cursor..end).find(|group| self.dirty[*group as usize]);
        let Some(group) = next else {
            let moved = self.rotation.cursor < end;
            self.rotation.cursor = end;
            let quiet = self.images.iter().all(|image| image.phase == ImagePhase::Idle);
            if end == with.layout.groups && quiet {
                self.go(Phase::ImageSync(Sync::Wanted));
                self.hurried = false;
                return true;
            }
            return moved;
        };
        let Some(image) = self.free_image() else { return false };
        (image.group, image.phase) = (group, ImagePhase::Filling(0));
        self.rotation.cursor = group + 1;
        self.rotation.begun += 1;
        self.dirty[group as usize] = false;
        self.dirty_count -= 1;
        true
    }

    /// Requests that everything becomes durable that finished images wait for.
    fn request_waiting_images<T: Table>(&mut self, with: &mut Needs<T>) {
        for image in &self.images {
            if let ImagePhase::Waiting(mark) = image.phase {
                with.requests.request_soon(mark);
            }
        }
    }

    fn write_root<T: Table>(&mut self, copy: u8, with: &mut Needs<T>, cx: &mut Cx<T::Op>) {
        let mut buf = self.roots[copy as usize].take().expect("no root is being written");
        let lba = with.layout.root_at(self.number, copy.into());
        let root = Root {
            number: self.number,
            epoch: with.log.epoch(),
            first_log: self.rotation.log,
            superpage: with.layout.superpage,
            count: with.layout.count,
            groups: with.layout.groups,
        };
        let (first, rest) = buf.pages_mut().split_first_mut().expect("a root has a page");
        emit_root(first, &root, self.candidates.iter().copied(), with.uuid, lba);
        let generations = self.generations.chunks(ROOT_GENERATIONS);
        for ((page, list), i) in rest.iter_mut().zip(generations).zip(1u64..) {
            let at = lba + i * u64::from(SECTORS_PER_BLOCK);
            emit_generations(page, root.number, list, with.uuid, at);
        }
        let sectors = with.layout.root * with.layout.superpage;
        let command = program(lba, buf, with.layout.root_pages(), sectors, cx);
        cx.submit(Op::Root { copy }, command);
    }
}

/// Returns the program of a metadata buffer, padded with zeros to `sectors`.
fn program<Own: OwnOp>(
    lba: u64,
    buf: MetaBuf,
    pages: u32,
    sectors: u32,
    cx: &mut Cx<Own>,
) -> Command {
    let mut gather = Gather::new();
    gather.push(Piece::Meta { buf, pages });
    let rest = sectors - pages * SECTORS_PER_BLOCK;
    if rest > 0 {
        gather.push(Piece::zero_sectors(rest));
    }
    cx.counters().checkpoint_written += u64::from(sectors);
    let tally = Tally::single(Cause::Checkpoint, sectors);
    Command::Program { device: 0, lba, gather, tally, placement: 0 }
}

//! Fuzzy checkpoints: changed map groups are written in rotation, then a root.
//!
//! Invariants
//! - A group is dirty when the map changed in it after its last image was begun.
//! - An image goes to media only when a durable log write covers everything that it shows, but for
//!   what writes in place replaced: of that it is enough that those writes are durable.
//! - Images of a group alternate between two places, so that a torn one costs nothing.
//! - A root names, for each group, the image that it needs at the least, and the log write from
//!   which replay brings every image up to date: the next one at the moment the rotation began.
//! - A durable root makes the kills durable that came before its rotation; see [`super::direct`].

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{
    BLOCK, Cause, Command, Event, Gather, MetaBuf, Piece, SECTORS_PER_BLOCK, Tally,
};
use hostftl_format::hard::{
    CANDIDATES, MAP_ENTRIES, MapPage, ROOT_GENERATIONS, Root, emit_generations, emit_root, seal_map,
};

use crate::planted::{Bug, planted};

use super::area::Area;
use super::layout::Layout;
use super::log::Mark;
use super::ops::{Cx, Op};
use super::table::Table;

/// Images under way at once.
const IMAGES: usize = 4;
/// Groups that are looked at in one go.
const SCAN: u32 = 1024;

/// Whether a flush that covers the last writes is needed, sent, or over.
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImagePhase {
    Idle,
    /// Pages before this one are filled.
    Filling(u32),
    /// Full; it may be written when this is durable.
    Waiting(Mark),
    Writing,
}

#[derive(Debug)]
struct Image {
    phase: ImagePhase,
    group: u32,
    buf: Option<MetaBuf>,
}

/// The rotation under way, or the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Rotation {
    /// The next group to look at.
    cursor: u32,
    /// Images that were begun, of the groups that were dirty at its beginning.
    begun: u32,
    quota: u32,
    /// Stages opened before it.
    stamp: u64,
    /// The next log write at its beginning.
    log: u64,
    /// Events whose kills its root makes durable.
    settles: u64,
}

/// See the module text.
#[derive(Debug)]
pub struct Checkpoint {
    group_entries: u64,
    phase: Phase,
    dirty: Vec<bool>,
    dirty_count: u32,
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
    /// Nothing on media yet.
    pub fn new(layout: &Layout) -> Self {
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

    /// Bytes of what is known of groups, and of the images and roots under way.
    pub fn memory(layout: &Layout) -> u64 {
        let each = size_of::<bool>() + size_of::<u32>();
        let pages = IMAGES as u64 * u64::from(layout.pages()) + 2 * u64::from(layout.root_pages());
        each as u64 * u64::from(layout.groups) + pages * BLOCK as u64
    }

    fn go(&mut self, next: Phase) {
        let fits = matches!(
            (self.phase, next),
            (Phase::Idle, Phase::Images)
                | (Phase::Images, Phase::ImageSync(Sync::Wanted))
                | (Phase::ImageSync(Sync::Over), Phase::Roots)
                | (Phase::Roots, Phase::RootSync(Sync::Wanted))
                | (Phase::RootSync(Sync::Over), Phase::Idle)
        );
        assert!(fits, "a checkpoint that is at {:?} is not at {next:?} next", self.phase);
        self.phase = next;
    }

    /// The entry of a key changed.
    pub fn changed(&mut self, key: u64) {
        let dirty = &mut self.dirty[(key / self.group_entries) as usize];
        self.dirty_count += u32::from(!*dirty);
        *dirty = true;
    }

    /// The generation of the last image of a group.
    pub fn generation(&self, group: u32) -> u32 {
        self.generations[group as usize]
    }

    /// Recovery found the generation of the last image of a group.
    pub fn set_generation(&mut self, group: u32, generation: u32) {
        self.generations[group as usize] = generation;
    }

    /// The last root had this number.
    pub fn follow(&mut self, number: u64) {
        self.number = number;
    }

    /// Asks for a whole checkpoint without pacing; false when that was asked before.
    pub fn hurry(&mut self) -> bool {
        !core::mem::replace(&mut self.hurried, true)
    }

    /// Whether the last durable root needs no replay when `next` is the next log write.
    pub fn is_current(&self, next: u64) -> bool {
        self.phase == Phase::Idle && self.dirty_count == 0 && self.first_log == Some(next)
    }

    /// Whether it waits for a flush to be sent.
    pub fn wants_flush(&self) -> bool {
        matches!(self.phase, Phase::ImageSync(Sync::Wanted) | Phase::RootSync(Sync::Wanted))
    }

    /// A flush is on its way.
    pub fn flush_sent(&mut self) {
        if let Phase::ImageSync(sync) | Phase::RootSync(sync) = &mut self.phase {
            *sync = Sync::Sent;
        }
    }

    /// A flush is over.
    pub fn flushed(&mut self) {
        if let Phase::ImageSync(sync) | Phase::RootSync(sync) = &mut self.phase
            && *sync == Sync::Sent
        {
            *sync = Sync::Over;
        }
    }

    /// An image is on the device.
    pub fn image_written(&mut self, slot: u8, command: Command) {
        let image = &mut self.images[slot as usize];
        image.phase = ImagePhase::Idle;
        image.buf = Some(meta_of(command));
    }

    /// A copy of the root is on the device.
    pub fn root_written(&mut self, copy: u8, command: Command) {
        self.roots[copy as usize] = Some(meta_of(command));
        if self.roots.iter().all(Option::is_some) {
            self.go(Phase::RootSync(Sync::Wanted));
        }
    }

    fn free_image(&mut self) -> Option<&mut Image> {
        self.images.iter_mut().find(|image| image.phase == ImagePhase::Idle)
    }
}

fn meta_of(command: Command) -> MetaBuf {
    let Command::Program { gather, .. } = command else { unreachable!("a program comes back") };
    gather
        .into_iter()
        .find_map(|piece| match piece {
            Piece::Meta { buf, .. } => Some(buf),
            _ => None,
        })
        .expect("checkpoints are metadata")
}

impl<T: Table> Area<T> {
    /// One move of the rotation.
    pub fn pump_checkpoint(&mut self, cx: &mut Cx<T::Op>) -> bool {
        match self.checkpoint.phase {
            Phase::Idle => self.begin_rotation(),
            Phase::Images => self.write_image(cx) || self.fill_image(cx) || self.begin_image(),
            Phase::ImageSync(Sync::Over) if cx.command_room() >= 2 => {
                self.checkpoint.go(Phase::Roots);
                self.checkpoint.number += 1;
                self.write_root(0, cx);
                self.write_root(1, cx);
                true
            }
            Phase::RootSync(Sync::Over) => {
                let first = self.checkpoint.rotation.log;
                self.checkpoint.first_log = Some(first);
                self.checkpoint.go(Phase::Idle);
                let all = planted(Bug::RootSettlesAll);
                let settles =
                    if all { self.direct.done() } else { self.checkpoint.rotation.settles };
                self.direct.settle_events(settles);
                self.unpin(first);
                cx.tell(Event::CheckpointDone);
                true
            }
            _ => false,
        }
    }

    /// Superpages that log may keep; many while many are free.
    fn pin_limit(&self) -> u32 {
        self.layout.max_pinned().max(self.pool.free() as u32 / 2)
    }

    fn begin_rotation(&mut self) -> bool {
        let half = (self.layout.interval() / 2).max(1);
        let opened = self.stages.opened() - self.checkpoint.rotation.stamp;
        let crowded = self.pool.pins() as u32 >= self.pin_limit() / 2;
        if !self.checkpoint.hurried && opened < u64::from(half) && !crowded {
            return false;
        }
        if self.checkpoint.is_current(self.log.next()) {
            self.checkpoint.hurried = false;
            self.checkpoint.rotation.stamp = self.stages.opened();
            return false;
        }
        self.checkpoint.hurried |= self.pool.pins() as u32 >= self.pin_limit();
        let names = self.stages.queued().chain(self.pool.free_list()).take(CANDIDATES);
        self.checkpoint.candidates.clear();
        self.checkpoint.candidates.extend(names);
        let composed = self.log.composed().mark.stamp;
        let checkpoint = &mut self.checkpoint;
        checkpoint.rotation = Rotation {
            stamp: self.stages.opened(),
            log: self.log.next(),
            settles: self.direct.settleable(composed),
            quota: checkpoint.dirty_count,
            cursor: 0,
            begun: 0,
        };
        checkpoint.go(Phase::Images);
        true
    }

    /// Writes an image of what is durable.
    fn write_image(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let early = planted(Bug::CheckpointEarly);
        let durable = Mark { direct: self.direct.flushed(), ..self.log.durable().mark };
        let shown = |mark| durable.covers(mark) || early;
        let ready = |image: &Image| matches!(image.phase, ImagePhase::Waiting(mark) if shown(mark));
        let Some(slot) = self.checkpoint.images.iter().position(ready) else { return false };
        if cx.command_room() == 0 {
            return false;
        }
        let image = &mut self.checkpoint.images[slot];
        image.phase = ImagePhase::Writing;
        let group = image.group;
        let mut buf = image.buf.take().expect("a full image has its buffer");
        self.checkpoint.generations[group as usize] += 1;
        let generation = self.checkpoint.generations[group as usize];
        let lba = self.layout.group_at(group, generation);
        for (index, page) in buf.pages_mut().iter_mut().enumerate() {
            let at = lba + index as u64 * u64::from(SECTORS_PER_BLOCK);
            seal_map(page, MapPage { group, index: index as u32, generation }, self.uuid, at);
        }
        let pages = self.layout.pages();
        let command = self.checkpoint_program(lba, buf, pages, self.layout.superpage, cx);
        cx.submit(Op::Image { slot: slot as u8 }, command);
        true
    }

    fn checkpoint_program(
        &mut self,
        lba: u64,
        buf: MetaBuf,
        pages: u32,
        sectors: u32,
        cx: &mut Cx<T::Op>,
    ) -> Command {
        let mut gather = Gather::new();
        gather.push(Piece::Meta { buf, pages });
        let rest = sectors - pages * SECTORS_PER_BLOCK;
        if rest > 0 {
            gather.push(Piece::zero_sectors(rest));
        }
        cx.counters().checkpoint_written += u64::from(sectors);
        let tally = Tally::of(Cause::Checkpoint, sectors);
        Command::Program { device: 0, lba, gather, tally, placement: 0 }
    }

    /// Copies a page of map into an image that is being filled.
    fn fill_image(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let mark = self.mark_all();
        let filling = |image: &&mut Image| matches!(image.phase, ImagePhase::Filling(_));
        let Some(image) = self.checkpoint.images.iter_mut().find(filling) else { return false };
        let ImagePhase::Filling(index) = image.phase else { unreachable!("it was found filling") };
        let from = u64::from(image.group) * self.checkpoint.group_entries
            + u64::from(index) * MAP_ENTRIES as u64;
        let buf = image.buf.as_mut().expect("an image that is filled has its buffer");
        self.table.image(&mut buf.pages_mut()[index as usize], from);
        cx.touch(MAP_ENTRIES);
        image.phase = ImagePhase::Filling(index + 1);
        if index + 1 == self.layout.pages() {
            image.phase = ImagePhase::Waiting(mark);
            self.wishes.want(mark);
            if self.checkpoint.hurried {
                self.wishes.press(mark);
            }
        }
        true
    }

    /// Begins the image of the next dirty group, or ends with the images.
    fn begin_image(&mut self) -> bool {
        let crowded = self.pool.pins() as u32 >= self.pin_limit();
        let checkpoint = &mut self.checkpoint;
        let half = u64::from(self.layout.interval() / 2).max(1);
        let since = self.stages.opened() - checkpoint.rotation.stamp;
        let due = since * u64::from(checkpoint.rotation.quota) / half;
        checkpoint.hurried |= crowded || since >= half;
        if checkpoint.hurried {
            self.press_waiting_images();
        } else if u64::from(checkpoint.rotation.begun) > due
            && self.checkpoint.rotation.cursor < self.layout.groups
        {
            return false;
        }
        let checkpoint = &mut self.checkpoint;
        let end = (checkpoint.rotation.cursor + SCAN).min(self.layout.groups);
        let next =
            (checkpoint.rotation.cursor..end).find(|group| checkpoint.dirty[*group as usize]);
        let Some(group) = next else {
            let moved = checkpoint.rotation.cursor < end;
            checkpoint.rotation.cursor = end;
            let quiet = checkpoint.images.iter().all(|image| image.phase == ImagePhase::Idle);
            if end == self.layout.groups && quiet {
                checkpoint.go(Phase::ImageSync(Sync::Wanted));
                checkpoint.hurried = false;
                return true;
            }
            return moved;
        };
        let Some(image) = checkpoint.free_image() else { return false };
        image.group = group;
        image.phase = ImagePhase::Filling(0);
        checkpoint.rotation.cursor = group + 1;
        checkpoint.rotation.begun += 1;
        checkpoint.dirty[group as usize] = false;
        checkpoint.dirty_count -= 1;
        true
    }

    /// In a hurry, what images wait for is committed.
    fn press_waiting_images(&mut self) {
        for image in &self.checkpoint.images {
            if let ImagePhase::Waiting(mark) = image.phase {
                self.wishes.press(mark);
            }
        }
    }

    fn write_root(&mut self, copy: u8, cx: &mut Cx<T::Op>) {
        let checkpoint = &mut self.checkpoint;
        let mut buf = checkpoint.roots[copy as usize].take().expect("no root is being written");
        let lba = self.layout.root_at(checkpoint.number, copy.into());
        let root = Root {
            number: checkpoint.number,
            epoch: self.log.epoch(),
            first_log: checkpoint.rotation.log,
            superpage: self.layout.superpage,
            count: self.layout.count,
            groups: self.layout.groups,
        };
        let (first, rest) = buf.pages_mut().split_first_mut().expect("a root has a page");
        emit_root(first, &root, checkpoint.candidates.iter().copied(), self.uuid, lba);
        let generations = checkpoint.generations.chunks(ROOT_GENERATIONS);
        for ((page, list), i) in rest.iter_mut().zip(generations).zip(1u64..) {
            let at = lba + i * u64::from(SECTORS_PER_BLOCK);
            emit_generations(page, root.number, list, self.uuid, at);
        }
        let sectors = self.layout.root * self.layout.superpage;
        let command = self.checkpoint_program(lba, buf, self.layout.root_pages(), sectors, cx);
        cx.submit(Op::Root { copy }, command);
    }
}

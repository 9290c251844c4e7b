//! Checkpoints: images of the whole map, written to two areas in turn, followed by a root.
//!
//! Invariants
//! - An image shows the map at the moment when it was composed. Changes since the start of the
//!   checkpoint are in the log, from its first page on.
//! - The root that names the images is written after they and the data that they point at are
//!   durable. A change in an image may be missing from the log. In that case no slot that it
//!   released was reused, so the version of the sector that an older log record names still exists.
//! - After a failure no checkpoint continues. A failed flush may have lost images that a concurrent
//!   flush did not cover.

use hostftl_core::{Cause, Command, Event, Gather, Piece, SECTORS_PER_BLOCK, Tally};
use hostftl_format::scrambler::{MAP_ENTRIES, Root, emit_map, emit_root};

use super::layout::Layout;
use super::ops::{Cx, Op};
use super::space::Space;
use crate::kit::Life;
use crate::kit::metabuf::{MetaHome, into_meta};
use crate::kit::roots::COPIES;
use crate::planted::{Bug, planted};

/// The stage of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No checkpoint is in progress.
    Idle,
    /// Pages of images from this one on have to be written.
    Images(u32),
    /// The images, and the data that they point at, are being flushed.
    Flush,
    /// The given number of copies of the root is being written.
    Roots(u8),
    /// The root is being flushed.
    Last,
}

/// The checkpoint in progress, and the durable root.
#[derive(Debug)]
pub(super) struct Checkpoint {
    stage: Stage,
    uuid: [u8; 16],
    /// The log page at which replay starts after this checkpoint.
    first_log: u64,
    bufs: [MetaHome; COPIES],
    /// The durable root.
    root: Root,
    /// The root being written.
    next: Root,
}

impl Checkpoint {
    /// Creates the idle state without a root.
    pub(super) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        let buf = || MetaHome::new(layout.blocks() as usize);
        let (bufs, root) = ([buf(), buf()], Root::default());
        Checkpoint { stage: Stage::Idle, uuid, first_log: 0, bufs, root, next: root }
    }

    /// Returns whether no checkpoint is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Returns the durable root.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Adopts the root that recovery found.
    pub(super) fn adopt(&mut self, root: Root) {
        assert!(self.is_idle(), "a root is read before one is written");
        self.root = root;
    }

    /// Advances the checkpoint. Returns whether anything moved.
    pub(super) fn pump(&mut self, space: &Space, layout: &Layout, cx: &mut Cx) -> bool {
        match self.stage {
            Stage::Images(next) if next < layout.area => self.write_image(next, space, layout, cx),
            Stage::Images(_) if self.bufs.iter().all(MetaHome::is_home) => {
                self.stage = Stage::Flush;
                cx.submit(Op::RootFlush, Command::Flush { device: 0 });
                true
            }
            _ => false,
        }
    }

    /// Starts a checkpoint after which replay starts at log page `first_log`.
    pub(super) fn begin(&mut self, first_log: u64) {
        assert!(self.is_idle(), "one checkpoint at a time");
        self.first_log = first_log;
        self.stage = Stage::Images(0);
    }

    /// Writes a page of images.
    fn write_image(&mut self, index: u32, space: &Space, layout: &Layout, cx: &mut Cx) -> bool {
        let Some(at) = self.bufs.iter().position(MetaHome::is_home) else { return false };
        let (area, images) = (1 - self.root.area, self.root.number + 1);
        let (lba, blocks) = (layout.image_at(area, index), layout.blocks());
        let mut buf = self.bufs[at].lend();
        for (page, i) in buf.pages_mut().iter_mut().zip(0..) {
            let first = (index as usize * blocks as usize + i as usize) * MAP_ENTRIES;
            let entries = space.map().entries(first, MAP_ENTRIES);
            let at = lba + u64::from(i * SECTORS_PER_BLOCK);
            emit_map(page, images, first as u64, entries, self.uuid, at);
        }
        cx.touch(blocks as usize * MAP_ENTRIES);
        self.stage = Stage::Images(index + 1);
        cx.counters().checkpoint_written += u64::from(layout.page);
        let gather = Gather::from_iter([Piece::Meta { buf, pages: blocks }]);
        let tally = Tally::single(Cause::Checkpoint, layout.page);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        cx.submit(Op::Image { buf: at as u8 }, command);
        true
    }

    /// Takes the buffer back after a page of images was written.
    pub(super) fn image_written(&mut self, at: u8, command: Command) {
        self.bufs[usize::from(at)].take_back(into_meta(command));
    }

    /// Handles the completion of a flush. Returns whether a new root is durable.
    pub(super) fn flushed(
        &mut self,
        space: &Space,
        layout: &Layout,
        ok: bool,
        cx: &mut Cx,
    ) -> bool {
        if !ok || !cx.is_good() && !planted(Bug::RootAfterFailure) {
            return false;
        }
        match self.stage {
            Stage::Flush => {
                let number = self.root.number + 1;
                let (first_log, area) = (self.first_log, 1 - self.root.area);
                let root = Root { number, images: number, area, first_log, ..self.root };
                self.write_root(root, space, layout, cx);
                false
            }
            Stage::Last => {
                self.root = self.next;
                self.stage = Stage::Idle;
                if cx.life() != Life::Starting {
                    cx.report(Event::CheckpointDone);
                }
                true
            }
            other => unreachable!("a checkpoint in {other:?} does not wait for a flush"),
        }
    }

    /// Writes both copies of a root.
    pub(super) fn write_root(&mut self, root: Root, space: &Space, layout: &Layout, cx: &mut Cx) {
        assert!(matches!(self.stage, Stage::Idle | Stage::Flush), "images come before the root");
        self.next = Root { fresh: space.pages().taken(), ..root };
        self.stage = Stage::Roots(COPIES as u8);
        for (copy, home) in self.bufs.iter_mut().enumerate() {
            let lba = layout.root_at(root.number, copy as u32);
            let mut buf = home.lend();
            emit_root(&mut buf.pages_mut()[0], &self.next, self.uuid, lba);
            cx.counters().checkpoint_written += u64::from(SECTORS_PER_BLOCK);
            let gather = Gather::from_iter([Piece::Meta { buf, pages: 1 }]);
            let tally = Tally::single(Cause::Checkpoint, SECTORS_PER_BLOCK);
            let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
            cx.submit(Op::Root { copy: copy as u8 }, command);
        }
    }

    /// Handles the completion of one copy of the root.
    pub(super) fn root_written(&mut self, copy: u8, command: Command, cx: &mut Cx) {
        self.image_written(copy, command);
        let Stage::Roots(left) = self.stage else {
            unreachable!("a root is written by a checkpoint")
        };
        self.stage = Stage::Roots(left - 1);
        if left == 1 && cx.is_good() {
            self.stage = Stage::Last;
            cx.submit(Op::RootFlush, Command::Flush { device: 0 });
        }
    }
}

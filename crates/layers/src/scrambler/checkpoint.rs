//! Checkpoints: images of the whole map in one of two areas, in turn, and then a root.
//!
//! Invariants
//! - Images are as old as the moment they were put together; what changed since a checkpoint began
//!   is in the log from its first page on.
//! - The root that names the images is written when they and the data that they point at are
//!   durable. A change in them may be missing in the log: then no slot that it freed was used
//!   again, so that what an older record in the log says of that sector is there too.

use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, Event, Gather, MetaBuf, Nanos, Out, Output, Piece, SECTORS_PER_BLOCK, Tally,
};
use hostftl_format::scrambler::{MAP_ENTRIES, Root, emit_map, emit_root};

use super::layout::Layout;
use super::ops::Op;
use super::{Health, Scrambler};
use crate::planted::{Bug, planted};

/// How far a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none.
    Idle,
    /// Pages of images from this one on are to be written.
    Images(u32),
    /// The images become durable, and the data that they point at.
    Flush,
    /// Copies of the root are being written.
    Roots(u8),
    /// They become durable.
    Last,
}

/// See the module text.
#[derive(Debug)]
pub struct Checkpoint {
    stage: Stage,
    /// The log page with which replay after it begins.
    first_log: u64,
    bufs: Vec<Option<MetaBuf>>,
    /// The root that is being written.
    root: Root,
}

impl Checkpoint {
    /// None under way.
    pub fn new(layout: &Layout) -> Self {
        Checkpoint {
            stage: Stage::Idle,
            first_log: 0,
            bufs: (0..2).map(|_| Some(MetaBuf::new(layout.blocks() as usize))).collect(),
            root: Root::default(),
        }
    }

    /// Whether none is under way.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }
}

impl Scrambler {
    /// Moves the checkpoint on, or begins one.
    pub fn pump_checkpoint(&mut self, now: Nanos, out: &mut Out) -> bool {
        match self.checkpoint.stage {
            Stage::Idle => {
                let due = self.is_log_long();
                if due {
                    self.begin_checkpoint();
                }
                due
            }
            Stage::Images(next) if next < self.layout.area => self.write_image(now, next, out),
            Stage::Images(_) if self.checkpoint.bufs.iter().all(Option::is_some) => {
                self.checkpoint.stage = Stage::Flush;
                self.submit(now, Op::RootFlush, Command::Flush { device: 0 }, out);
                true
            }
            _ => false,
        }
    }

    /// Whether replay would read more than half of the ring.
    pub fn is_log_long(&self) -> bool {
        self.log_next - self.root.first_log > self.layout.ring_len() / 2
    }

    /// Begins to write images.
    pub fn begin_checkpoint(&mut self) {
        self.checkpoint.first_log = self.log_next;
        self.checkpoint.stage = Stage::Images(0);
    }

    /// Writes a page of images.
    fn write_image(&mut self, now: Nanos, index: u32, out: &mut Out) -> bool {
        let Some(at) = self.checkpoint.bufs.iter().position(Option::is_some) else { return false };
        let (area, images) = (1 - self.root.area, self.root.number + 1);
        let (lba, blocks) = (self.layout.image_at(area, index), self.layout.blocks());
        let mut buf = self.checkpoint.bufs[at].take().expect("it is there");
        for (page, i) in buf.pages_mut().iter_mut().zip(0..) {
            let first = (index as usize * blocks as usize + i as usize) * MAP_ENTRIES;
            let entries = self.map.entries(first, MAP_ENTRIES);
            let at = lba + u64::from(i * SECTORS_PER_BLOCK);
            emit_map(page, images, first as u64, entries, self.uuid, at);
        }
        self.touched += blocks as usize * MAP_ENTRIES;
        self.checkpoint.stage = Stage::Images(index + 1);
        self.counters.checkpoint_written += u64::from(self.layout.page);
        let gather = Gather::from_iter([Piece::Meta { buf, pages: blocks }]);
        let tally = Tally::of(Cause::Checkpoint, self.layout.page);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        self.submit(now, Op::Image { buf: at as u8 }, command, out);
        true
    }

    /// A page of images is written.
    pub fn image_written(&mut self, at: u8, command: Command) {
        let Command::Program { gather, .. } = command else { unreachable!("images are programs") };
        for piece in gather {
            let Piece::Meta { buf, .. } = piece else { unreachable!("images are metadata") };
            self.checkpoint.bufs[at as usize] = Some(buf);
        }
    }

    /// A flush of the checkpoint is over. After a failure the checkpoint goes no further: a failed
    /// flush may have dropped images that this flush then did not cover.
    pub fn root_flushed(&mut self, now: Nanos, ok: bool, out: &mut Out) {
        if self.health != Health::Good && !planted(Bug::RootAfterFailure) {
            return;
        }
        match self.checkpoint.stage {
            Stage::Flush if ok => {
                let number = self.root.number + 1;
                let (first_log, area) = (self.checkpoint.first_log, 1 - self.root.area);
                let root = Root { number, images: number, area, first_log, ..self.root };
                self.write_root(now, root, out);
            }
            Stage::Last if ok => {
                self.root = self.checkpoint.root;
                self.checkpoint.stage = Stage::Idle;
                match self.recovery.is_some() {
                    true => self.become_ready(out),
                    false => out.push(Output::Event(Event::CheckpointDone)),
                }
            }
            _ => {}
        }
    }

    /// Writes both copies of a root.
    pub fn write_root(&mut self, now: Nanos, root: Root, out: &mut Out) {
        let root = Root { fresh: self.pages.taken(), ..root };
        self.checkpoint.root = root;
        self.checkpoint.stage = Stage::Roots(2);
        for copy in 0..2 {
            let lba = self.layout.root_at(root.number, copy);
            let mut buf = self.checkpoint.bufs[copy as usize].take().expect("no image is written");
            emit_root(&mut buf.pages_mut()[0], &root, self.uuid, lba);
            self.counters.checkpoint_written += u64::from(SECTORS_PER_BLOCK);
            let gather = Gather::from_iter([Piece::Meta { buf, pages: 1 }]);
            let tally = Tally::of(Cause::Checkpoint, SECTORS_PER_BLOCK);
            let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
            self.submit(now, Op::Root { copy: copy as u8 }, command, out);
        }
    }

    /// A copy of the root is written.
    pub fn root_written(&mut self, now: Nanos, copy: u8, command: Command, out: &mut Out) {
        self.image_written(copy, command);
        let Stage::Roots(left) = self.checkpoint.stage else {
            unreachable!("a root is written by a checkpoint")
        };
        self.checkpoint.stage = Stage::Roots(left - 1);
        if left == 1 && self.health == Health::Good {
            self.checkpoint.stage = Stage::Last;
            self.submit(now, Op::RootFlush, Command::Flush { device: 0 }, out);
        }
    }
}

//! Checkpoints: images of all map pages, and a root that makes them count.
//!
//! Images are taken while the host goes on, so they are fuzzy: a root says from which row on replay
//! mends them. It is sent when everything that they show is durable, and counts when it is durable.
//!
//! Invariants
//! - One checkpoint at a time, and one strip of it.
//! - The images of the last durable root, and its strip, stay untouched until the next one is.

use hostftl_core::{
    Cause, Command, DeviceError, Event, Gather, MetaBuf, Piece, SECTORS_PER_BLOCK, Tally,
};
use hostftl_format::zones::{self, Entry, Kind};

use super::Engine;
use super::layout::Layout;
use super::lines::Who;
use super::ops::{Cx, Op, fail};
use super::row::Phase;
use crate::kit::Life;
use crate::planted::{Bug, planted};

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Images of map pages, from this one on.
    Images(u32),
    /// All rows up to this one must be durable.
    Settle(u64),
    /// A flush makes the images durable.
    Flushing,
    /// The root is written.
    Root,
    /// A flush makes it durable.
    RootFlushing,
}

/// Where the strip that is made has got to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strip {
    Filling,
    Ready,
    Sent,
}

/// A root, as replay needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The number of its strip, among those with images.
    pub seq: u64,
    /// Rows from this one on are replayed.
    pub replay_from: u64,
    /// Its images are in strips from this one on.
    pub images_from: u64,
    /// How many images.
    pub images: u32,
}

/// See the module text.
#[derive(Debug)]
pub struct Checkpoint {
    stage: Stage,
    strip: Strip,
    /// The last durable root, and the one that is being made.
    pub root: Root,
    next: Root,
    /// The number of the last strip of images.
    pub strips: u64,
    buf: Option<MetaBuf>,
    /// Images in the strip.
    count: u32,
    wanted: bool,
    /// Rows between two roots.
    interval: u64,
}

impl Checkpoint {
    pub fn new(layout: &Layout) -> Self {
        let strips = u64::from(layout.lines) * u64::from(layout.line_strips());
        Checkpoint {
            stage: Stage::Idle,
            strip: Strip::Filling,
            root: Root::default(),
            next: Root::default(),
            strips: 0,
            buf: Some(MetaBuf::new((layout.strip / SECTORS_PER_BLOCK) as usize)),
            count: 0,
            wanted: false,
            interval: (strips / 8).clamp(64, 1 << 20),
        }
    }

    /// Whether no checkpoint is being made.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && !self.wanted
    }

    /// Whether nothing would be replayed behind the durable root.
    pub fn is_current(&self, seqs: u64) -> bool {
        self.is_idle() && self.root.seq > 0 && self.root.replay_from == seqs + 1
    }

    /// Asks for a checkpoint; true when none was under way.
    pub fn hurry(&mut self) -> bool {
        let idle = self.is_idle();
        self.wanted |= idle;
        idle
    }
}

impl Engine {
    pub(super) fn pump_checkpoint(&mut self, cx: &mut Cx) -> bool {
        if cx.room() < 8 || cx.command_room() < 8 {
            return false;
        }
        match self.checkpoint.stage {
            Stage::Idle => self.begin_checkpoint(),
            Stage::Images(_) | Stage::Root if self.checkpoint.strip == Strip::Sent => false,
            Stage::Images(_) | Stage::Root if self.checkpoint.strip == Strip::Ready => {
                self.send_images(cx)
            }
            Stage::Images(page) => self.take_image(page, cx),
            Stage::Settle(mark) => self.settle_images(mark, cx),
            Stage::Root => self.make_root(),
            Stage::Flushing | Stage::RootFlushing => false,
        }
    }

    fn begin_checkpoint(&mut self) -> bool {
        let since = (self.durability.newest() + 1).saturating_sub(self.checkpoint.root.replay_from);
        let it = &mut self.checkpoint;
        if !it.wanted && since < it.interval {
            return false;
        }
        let unwritten = |phase| !matches!(phase, Phase::Idle | Phase::Written | Phase::Draining);
        let rows =
            self.rows.iter().filter(|(_, row)| unwritten(row.phase())).map(|(_, row)| row.seq);
        let rows = rows.filter(|_| !planted(Bug::ZonesRootSkipsRows));
        let replay_from = rows.min().unwrap_or(self.durability.newest() + 1);
        it.wanted = false;
        it.next = Root { seq: 0, replay_from, images_from: it.strips + 1, images: 0 };
        it.stage = Stage::Images(0);
        true
    }

    /// Takes the image of a page, unless it shows nothing.
    fn take_image(&mut self, page: u32, cx: &mut Cx) -> bool {
        let it = &mut self.checkpoint;
        if page == self.layout.pages {
            match it.count {
                0 => it.stage = Stage::Settle(self.durability.newest()),
                _ => it.strip = Strip::Ready,
            }
            return true;
        }
        let mut buf = it.buf.take().expect("no strip is on its way");
        let (slot, layout, rows) = (it.count, &self.layout, &self.rows);
        let written = |row: u16, slot: u8| {
            let row = rows.at(row);
            let place = || layout.place(row.segment, row.strip, slot.into());
            (row.phase() == Phase::Written).then(place)
        };
        let image = &mut buf.pages_mut()[slot as usize];
        let any = self.map.emit(page, image, written);
        cx.touch(self.layout.page_entries() as usize);
        if any {
            let crc = zones::image_crc(image, page.into());
            let entry = Entry { kind: Kind::Image, block: page.into(), value: slot, crc };
            let last = self.layout.strip_blocks() as usize;
            zones::put_entry(&mut buf.pages_mut()[last], slot as usize, &entry);
        }
        let it = &mut self.checkpoint;
        it.buf = Some(buf);
        it.count += u32::from(any);
        it.next.images += u32::from(any);
        it.stage = Stage::Images(page + 1);
        if it.count == self.layout.strip_blocks() {
            it.strip = Strip::Ready;
        }
        true
    }

    fn make_root(&mut self) -> bool {
        let last = self.layout.strip_blocks() as usize;
        let Root { replay_from, images_from, images, .. } = self.checkpoint.next;
        let buf = self.checkpoint.buf.as_mut().expect("no strip is on its way");
        let tail = &mut buf.pages_mut()[last];
        let root = Entry { kind: Kind::Root, block: replay_from, value: images, crc: 0 };
        zones::put_entry(tail, 0, &root);
        let from = Entry { kind: Kind::Images, block: images_from, value: 0, crc: 0 };
        zones::put_entry(tail, 1, &from);
        self.checkpoint.strip = Strip::Ready;
        true
    }

    /// Sends the strip that is ready.
    fn send_images(&mut self, cx: &mut Cx) -> bool {
        let front = self.layout.fronts as usize;
        let seq = self.checkpoint.strips + 1;
        let Some((segment, strip)) =
            self.lines.place(front, self.durability.newest(), Who::Collection)
        else {
            return false;
        };
        let line = self.layout.line(segment);
        let is_root = self.checkpoint.stage == Stage::Root;
        let entries = if is_root { 2 } else { self.checkpoint.count as usize };
        let rest = self.rest(segment, strip);
        let mut tally =
            Tally::of(Cause::Checkpoint, (self.checkpoint.count + 1) * SECTORS_PER_BLOCK);
        tally.add(Cause::Pad, self.layout.strip + rest - tally.total());
        self.count_sent(&tally, cx);
        let head = self.head(line, seq, entries);
        let at = self.layout.tail_at(segment, strip);
        let mut buf = self.checkpoint.buf.take().expect("no strip is on its way");
        let last = self.layout.strip_blocks() as usize;
        zones::seal(&mut buf.pages_mut()[last], &self.uuid, at, &head);
        let mut gather = Gather::new();
        gather.push(Piece::Meta { buf, pages: last as u32 + 1 });
        if rest > 0 {
            gather.push(Piece::zero_sectors(rest));
        }
        self.checkpoint.strips = seq;
        self.checkpoint.strip = Strip::Sent;
        let lba = self.layout.lba(segment, strip);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 1 };
        cx.submit(Op::Images { segment, strip }, command);
        true
    }

    /// A strip of images or the root is written, or is not.
    pub(super) fn images_done(
        &mut self,
        (segment, strip): (u32, u32),
        command: Command,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
    ) {
        let Command::Program { gather, .. } = command else { unreachable!("a program comes back") };
        for piece in gather {
            if let Piece::Meta { buf, .. } = piece {
                self.checkpoint.buf = Some(buf);
            }
        }
        let line = self.layout.line(segment);
        self.lines.sent(segment, strip, result.is_err());
        match result {
            Ok(()) => {
                let is_root = self.checkpoint.stage == Stage::Root;
                let count = if is_root { 1 } else { self.checkpoint.count };
                self.lines.add_images(line, count);
                self.checkpoint.count = 0;
                self.checkpoint.strip = Strip::Filling;
                self.lines.row_over(line, 0);
                if is_root {
                    self.checkpoint.next.seq = self.checkpoint.strips;
                    self.checkpoint.stage = Stage::RootFlushing;
                    cx.submit(Op::Settle, Command::Flush { device: 0 });
                }
            }
            Err(DeviceError::Media) => {
                self.checkpoint.strip = Strip::Ready;
                self.lines.lose_segment(segment, cx);
                self.lines.row_over(line, 0);
            }
            Err(error) => fail(error, cx),
        }
    }

    /// Waits until everything that the images show is durable, then makes them so.
    fn settle_images(&mut self, mark: u64, cx: &mut Cx) -> bool {
        if !self.durability.is_durable(mark) && !planted(Bug::ZonesRootEarly) {
            return self.durability.want(mark);
        }
        self.checkpoint.stage = Stage::Flushing;
        cx.submit(Op::Settle, Command::Flush { device: 0 });
        true
    }

    /// The flush of a checkpoint is over.
    pub(super) fn settle_done(&mut self, cx: &mut Cx) {
        if !cx.is_good() {
            return;
        }
        let it = &mut self.checkpoint;
        match it.stage {
            Stage::Flushing => it.stage = Stage::Root,
            Stage::RootFlushing => {
                (it.stage, it.root) = (Stage::Idle, it.next);
                self.lines.root_durable();
                if cx.life() != Life::Starting {
                    cx.tell(Event::CheckpointDone);
                }
            }
            other => unreachable!("no flush is on its way in {other:?}"),
        }
    }
}

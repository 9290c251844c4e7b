//! Checkpoints: images of the map pages that changed, of the directory above them, and a root.
//!
//! Images are records of a stream of their own. A root may count only when every row to which its
//! images point is durable; it then says from which row on replay begins. Images are fuzzy: they
//! may show more than that, which replay sets again.
//!
//! Invariants
//! - One checkpoint at a time; images go to the devices a row at a time.
//! - What an older root points at stays untouched until the next one is durable.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Event, Gather, MetaBuf, Nanos, Out, Output, Piece, Tally};
use hostftl_format::log::{self, Kind, PAIRS, Place, Root};

use crate::planted::{Bug, planted};

use super::append::{GC, HOST, MAP};
use super::images::Images;
use super::layout::{At, Layout};
use super::ops::Op;
use super::segments::Safe;
use super::{Life, Log};

/// Rows between two roots: this bounds what recovery reads.
const INTERVAL: u64 = 65_536;

/// How far the checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Images of map pages, from this page on.
    Pages(u32),
    /// Images of directory pages, from this page on.
    Directory(u32),
    /// All rows up to this stamp, and row `seq`, must be durable.
    Settle(u64, u64),
    /// This copy of the root is written, to so many more devices.
    Root(u32, u8),
    /// This copy becomes durable, on so many more devices.
    Flush(u32, u8),
}

/// See the module text.
#[derive(Debug)]
pub struct Checkpoint {
    phase: Phase,
    pub images: Images,
    /// Where the images of the directory's pages are.
    top: Vec<(Place, u32)>,
    /// The last root that is durable, and the one that is being made.
    pub root: Root,
    next: Root,
    /// The last root that is on all devices.
    pub everywhere: u64,
    /// When no empty segment was out of use: nothing has changed since.
    seen: (u64, u64, u64),
    bufs: Vec<MetaBuf>,
    wanted: bool,
    /// Changes since the images were taken, so that a root can be known to be the last.
    begun_at: u64,
}

impl Checkpoint {
    pub fn new(layout: &Layout) -> Self {
        Checkpoint {
            phase: Phase::Idle,
            images: Images::new(layout),
            top: alloc::vec![(Place::NOWHERE, 0); layout.directories as usize],
            root: Root::default(),
            next: Root::default(),
            everywhere: 0,
            seen: (0, 0, 0),
            bufs: (0..layout.devices).map(|_| MetaBuf::new(layout.root_pages() as usize)).collect(),
            wanted: false,
            begun_at: 0,
        }
    }

    /// Where the image of a directory page is.
    pub fn directory_place(&self, page: u32) -> Place {
        self.top[page as usize].0
    }

    /// Where the image of a directory page is, and its CRC.
    pub fn directory(&self, page: u32) -> (Place, u32) {
        self.top[page as usize]
    }

    /// Sets where the image of a directory page is, as the root says.
    pub fn set_directory(&mut self, page: u32, place: Place, crc: u32) {
        self.top[page as usize] = (place, crc);
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

impl Log {
    /// Whether the host or collection can't go on, and could with `more` free segments.
    fn is_starved(&self, more: u32) -> bool {
        let (free, floor) = (self.segments.free(), self.layout.gc_floor());
        let most = self.layout.reserve + 1;
        free < most && free + more >= most || free <= floor + 1 && more > 0
    }

    /// A root frees segments, but seals rows early and costs images: it is made when somebody can't
    /// go on, or when replay would become long.
    fn wants_checkpoint(&self) -> bool {
        self.is_starved(self.segments.empty()) && self.segments.awaited(self.safe()).is_none()
            || self.order.next > self.checkpoint.root.replay_from + INTERVAL
    }

    /// What is known of rows and the root.
    fn safe(&self) -> Safe {
        let unsealed = self.first_unsealed(false).unwrap_or(u64::MAX);
        let sealed = self.order.first_stamp(self.order.durable, false).unwrap_or(u64::MAX);
        Safe { stamp: unsealed.min(sealed) - 1, replay_from: self.checkpoint.root.replay_from }
    }

    /// Makes rows durable that say of segments that they are empty, when somebody can't go on.
    fn hasten(&mut self) -> bool {
        let safe = self.safe();
        let Some(stamp) = self.segments.awaited(safe) else { return false };
        let hurry =
            stamp > safe.stamp && stamp > self.commit_all && self.is_starved(self.segments.empty());
        if hurry {
            self.commit_all = stamp;
        }
        hurry
    }

    pub(super) fn pump_checkpoint(&mut self, now: Nanos, out: &mut Out) -> bool {
        if out.room() < 20 {
            return false;
        }
        match self.checkpoint.phase {
            Phase::Idle => {
                let begin = self.checkpoint.wanted || self.wants_checkpoint();
                if begin {
                    self.begin_checkpoint();
                }
                begin
            }
            Phase::Pages(page) => self.take_image(now, page, out),
            Phase::Directory(page) => self.take_directory(now, page, out),
            Phase::Settle(stamp, seq) => {
                let ready = self.order.durable >= seq && self.all_durable(stamp)
                    || planted(Bug::RootBeforeRows);
                if ready {
                    self.write_root(now, out);
                }
                ready
            }
            Phase::Root(..) | Phase::Flush(..) => false,
        }
    }

    pub(super) fn begin_checkpoint(&mut self) {
        self.checkpoint.wanted = false;
        self.segments.root_begun();
        if let Some(segment) = self.segments.surplus_map(2 * self.layout.map_segments()) {
            self.rewrite_images_in(segment);
        }
        // A root must know where each stream will begin.
        for stream in [HOST, GC, MAP] {
            let it = &mut self.streams[stream as usize];
            if it.ahead.is_none() {
                it.ahead = Some(self.segments.open(stream == MAP));
            }
        }
        let streams = core::array::from_fn(|stream| self.replay_begins(stream as u8));
        self.checkpoint.next = Root {
            number: self.checkpoint.root.number + 1,
            epoch: self.life_number,
            replay_from: self.order.next,
            durable: 0,
            generation: self.generation,
            lost: 0,
            everywhere: 0,
            life: self.life_number,
            streams,
        };
        self.checkpoint.phase = Phase::Pages(0);
    }

    /// Marks the pages whose images lie in `segment`, so that it becomes empty.
    fn rewrite_images_in(&mut self, segment: u32) {
        let inside =
            |place: Place| !place.is_nowhere() && self.layout.segment_of(place.byte()) == segment;
        for page in 0..self.layout.pages {
            if inside(self.directory.place(page.into())) {
                self.map.mark(page);
            }
        }
        for page in 0..self.layout.directories {
            if inside(self.checkpoint.top[page as usize].0) {
                self.directory.mark(page);
            }
        }
    }

    /// Where the first row of a stream lies that is not sealed.
    fn replay_begins(&self, stream: u8) -> Option<[u32; 3]> {
        let it = &self.streams[stream as usize];
        let unsealed = self.rows.iter().filter(|row| row.stream == stream && row.is_unsealed());
        let first = unsealed.min_by_key(|row| row.stamp).map(|row| row.at);
        let ahead = it.ahead.map(|segment| At { segment, slot: 0, sector: 0 });
        let at = first.or(it.next).or(ahead)?;
        Some([at.segment, at.slot, at.sector])
    }

    fn take_image(&mut self, now: Nanos, page: u32, out: &mut Out) -> bool {
        if self.checkpoint.images.pending > 0 {
            return false;
        }
        let (next, looked) = self.map.next_dirty(page);
        self.touched += looked;
        let Some(page) = next else {
            self.checkpoint.phase = Phase::Directory(0);
            return true;
        };
        let Some(place) = self.image_place() else { return self.images_full(now, out) };
        let (mut buf, index) = self.image_buffer();
        self.map.emit(Kind::Map, page, &mut buf.pages_mut()[index]);
        let crc = log::page_crc(&buf.pages()[index], &self.uuid);
        self.put_back(buf);
        self.touched += PAIRS;
        let old = self.directory.set(page.into(), place, crc);
        self.note_image(Kind::Map, page, place, crc, old);
        self.checkpoint.phase = Phase::Pages(page + 1);
        true
    }

    fn take_directory(&mut self, now: Nanos, page: u32, out: &mut Out) -> bool {
        if self.checkpoint.images.pending > 0 {
            return false;
        }
        let (next, looked) = self.directory.next_dirty(page);
        self.touched += looked;
        let Some(page) = next else {
            if self.checkpoint.images.count > 0 {
                return self.write_images(now, out);
            }
            self.settle();
            return true;
        };
        let Some(place) = self.image_place() else { return self.images_full(now, out) };
        let (mut buf, index) = self.image_buffer();
        self.directory.emit(Kind::Directory, page, &mut buf.pages_mut()[index]);
        let crc = log::page_crc(&buf.pages()[index], &self.uuid);
        self.put_back(buf);
        self.touched += PAIRS;
        let (old, _) = core::mem::replace(&mut self.checkpoint.top[page as usize], (place, crc));
        self.note_image(Kind::Directory, page, place, crc, old);
        self.checkpoint.phase = Phase::Directory(page + 1);
        true
    }

    /// All images are taken: now everything that they show must become durable.
    fn settle(&mut self) {
        self.commit_all = self.stamps;
        self.checkpoint.begun_at = self.order.next;
        self.checkpoint.phase = Phase::Settle(self.stamps, self.order.next - 1);
    }

    /// Everything that the images show is durable: the root may say so.
    fn write_root(&mut self, now: Nanos, out: &mut Out) {
        let root = Root { durable: self.order.durable, ..self.checkpoint.next };
        self.send_root(now, root, out);
    }

    /// Writes a root to all devices, first one copy, then the other: a cut damages at most one.
    pub(super) fn send_root(&mut self, now: Nanos, root: Root, out: &mut Out) {
        let everywhere = self.checkpoint.everywhere;
        let lost = self.lost.set();
        self.checkpoint.next = Root { lost, everywhere, ..root };
        self.send_copy(now, 0, out);
    }

    fn send_copy(&mut self, now: Nanos, copy: u32, out: &mut Out) {
        let root = self.checkpoint.next;
        let at = self.layout.root_at(root.number, copy);
        let sectors = self.layout.root;
        for device in 0..self.layout.devices {
            let mut buf = self.checkpoint.bufs.pop().expect("a root for each device");
            let pairs = self.checkpoint.top.iter().copied();
            log::emit_root(&mut buf, &self.uuid, at, &root, pairs);
            let pages = buf.pages().len() as u32;
            let mut gather = Gather::new();
            gather.push(Piece::Meta { buf, pages });
            let tally = Tally::of(Cause::Checkpoint, sectors);
            self.count_sent(&tally);
            let command = Command::Program { device, lba: at, gather, tally, placement: MAP };
            self.submit(now, Op::Root { device }, command, out);
        }
        self.checkpoint.phase = Phase::Root(copy, self.layout.devices);
    }

    /// A root was written to a device, or the device flushed after it.
    pub(super) fn root_done(&mut self, now: Nanos, command: Command, out: &mut Out) {
        if let Command::Program { gather, .. } = command {
            for piece in gather {
                if let Piece::Meta { buf, .. } = piece {
                    self.checkpoint.bufs.push(buf);
                }
            }
        }
        let devices = self.layout.devices;
        let sound = self.failed.is_none();
        self.checkpoint.phase = match self.checkpoint.phase {
            Phase::Root(copy, 1) if sound => {
                for device in 0..devices {
                    self.submit(now, Op::Root { device }, Command::Flush { device }, out);
                }
                Phase::Flush(copy, devices)
            }
            Phase::Root(copy, left) => Phase::Root(copy, left - 1),
            Phase::Flush(0, 1) if sound => return self.send_copy(now, 1, out),
            Phase::Flush(1, 1) if sound => {
                self.root_durable(out);
                Phase::Idle
            }
            Phase::Flush(copy, left) => Phase::Flush(copy, left - 1),
            other => unreachable!("no root is on its way in {other:?}"),
        };
    }

    /// What the root before this one needed may be written again.
    fn root_durable(&mut self, out: &mut Out) {
        self.checkpoint.root = self.checkpoint.next;
        self.segments.root_durable();
        self.checkpoint.everywhere = self.checkpoint.root.number;
        self.lost.told(self.checkpoint.root.lost);
        if self.life != Life::Recovering {
            out.push(Output::Event(Event::CheckpointDone));
        }
        self.more = true;
    }

    /// Frees segments that no root needs any more.
    pub(super) fn pump_reclaim(&mut self, now: Nanos, out: &mut Out) -> bool {
        let seen = (self.segments.changes, self.order.durable, self.order.next);
        if self.checkpoint.seen == seen || out.room() < 20 || self.ops.room() < 16 {
            return false;
        }
        let Some(segment) = self.segments.reclaim(self.safe()) else {
            self.checkpoint.seen = seen;
            return self.hasten();
        };
        let at = At { segment, slot: 0, sector: 0 };
        let sectors = u64::from(self.layout.slots * self.layout.chunk);
        let (lba, devices) = (self.layout.lba(at), 0..self.layout.devices);
        self.discarding[segment as usize] = 0;
        for device in devices {
            if self.discard[device as usize] {
                self.discarding[segment as usize] += 1;
                let command = Command::Reset { device, lba, sectors };
                self.submit(now, Op::Discard { segment }, command, out);
            }
        }
        if self.discarding[segment as usize] == 0 {
            self.segments.release(segment);
        }
        true
    }

    /// A device forgot a segment.
    pub(super) fn discarded(&mut self, segment: u32) {
        let left = &mut self.discarding[segment as usize];
        *left -= 1;
        if *left == 0 && self.failed.is_none() {
            self.segments.release(segment);
        }
    }
}

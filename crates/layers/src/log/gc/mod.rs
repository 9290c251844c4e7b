//! Collection: what is live in a victim moves to the stream of collection, row by row.
//!
//! Invariants
//! - A victim's rows are gone through in order; their heads say what they hold.
//! - A record is moved only when its checksum is right, and published only where the map still
//!   points at the place that it came from.

pub(in crate::log) mod copy;
pub(in crate::log) mod find_valid;
pub(in crate::log) mod throttle;

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, Event, MetaBuf, SECTOR, Target, Verdict};
use hostftl_format::log::{self, Head, Place};

use crate::kit::Life;
use crate::log::Engine;
use crate::log::buffers::Buffer;
use crate::log::gc::copy::Batch;
use crate::log::layout::{At, Layout};
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::chunk::Mend;
use crate::log::redundancy::metadata::Wanted;

/// What is done with the row of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No victim.
    Idle,
    /// The next row's head is to be read, or is being read.
    Head { asked: bool },
    /// What of it is live is found out, from this entry on.
    Sifting(u32),
    /// Its chunks are to be read, or are being read.
    Reading { asked: bool },
    /// A chunk is made from the others; see [`crate::log::redundancy::chunk`].
    Mending(Mend),
    /// Its records are being moved.
    Moving,
}

/// A live record of the row.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    pub block: u64,
    pub place: Place,
    pub crc: u32,
    pub chunk: u8,
    /// The first byte in the buffer of its chunk.
    pub byte: u32,
    pub state: Checked,
}

/// What is known of a live record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is being moved, or will be.
    No,
    /// It was as it should be, and was moved.
    Moved,
    /// It is not: its chunk has to be made from the others.
    Bad,
    /// Nothing can bring it back.
    Gone,
    /// The same, and that was told.
    Told,
}

/// See the module text.
#[derive(Debug)]
pub struct Collection {
    layout: Layout,
    uuid: [u8; 16],
    pub phase: Phase,
    victim: u32,
    pub at: At,
    seq: u64,
    pub head: Option<MetaBuf>,
    /// Entries of the row.
    pub entries: u32,
    /// The map page that is kept because it is needed next.
    pub held: Option<u32>,
    pub live: Vec<Live>,
    /// The next of `live` to be moved.
    pub cursor: usize,
    /// Commands under way.
    pub outstanding: u32,
    pub batch: Batch,
    /// Sectors on the first device of the row.
    sectors: u32,
    /// The row's chunks; those that can't be read, or hold something wrong; those that were made
    /// from the others.
    chunks: u32,
    pub bad: u32,
    pub mended: u32,
    /// Those of the bad ones whose device is there, and of which nothing was told yet.
    pub flawed: u32,
}

impl Collection {
    pub fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        Collection {
            layout: *layout,
            uuid,
            phase: Phase::Idle,
            victim: 0,
            at: At::default(),
            seq: 0,
            entries: 0,
            held: None,
            head: Some(MetaBuf::new(layout.head_pages(true) as usize)),
            live: Vec::with_capacity(layout.head_entries(true) as usize),
            cursor: 0,
            outstanding: 0,
            batch: Batch::new(layout.head_entries(true)),
            sectors: 0,
            chunks: 0,
            bad: 0,
            mended: 0,
            flawed: 0,
        }
    }

    /// The head of the victim's row at `lba`, if that is what `buf` has.
    pub fn head_of(&self, buf: &MetaBuf, lba: u64) -> Option<Head> {
        let head = log::open(buf, &self.uuid, lba)?;
        let sane = self.layout.admits_head(&head, self.at);
        (sane && head.seq > self.seq).then_some(head)
    }

    /// Whether no victim is gone through.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }
}

impl Engine {
    pub(in crate::log) fn pump_collection(&mut self, cx: &mut Cx) -> bool {
        match self.collection.phase {
            Phase::Idle => self.choose_victim(cx),
            Phase::Head { asked: false } => self.read_head(cx),
            Phase::Sifting(entry) => self.sift(entry, cx),
            Phase::Moving => self.move_some(cx) || self.mend_next(cx),
            Phase::Mending(mend) => self.pump_mend(mend, cx),
            Phase::Reading { asked: false } => self.read_chunks(cx),
            Phase::Head { .. } | Phase::Reading { .. } => false,
        }
    }

    fn choose_victim(&mut self, cx: &mut Cx) -> bool {
        if cx.life() == Life::Stopping {
            return false;
        }
        let victim = match self.wants_collection() {
            true if self.is_short() => self.segments.pick_emptiest(),
            true => self.segments.pick(),
            false if self.layout.zoned => self.hurt_victim(),
            false => None,
        };
        let Some(victim) = victim else { return false };
        assert!(self.collection.outstanding == 0, "nothing of another victim is under way");
        self.pace_victim(victim);
        cx.counters().gc_runs += 1;
        cx.tell(Event::GcStarted);
        let it = &mut self.collection;
        it.victim = victim;
        it.at = At { segment: victim, slot: 0, sector: 0 };
        it.seq = 0;
        it.phase = Phase::Head { asked: false };
        true
    }

    /// A segment with a zone that failed and with data to be moved elsewhere, if there is one.
    fn hurt_victim(&mut self) -> Option<u32> {
        let segments = &mut self.segments;
        let mut hurt = self.devices.zones_mut().hurt(|it| segments.is_empty_or_gone(it));
        hurt.find(|it| segments.pick_this(*it))
    }

    fn read_head(&mut self, cx: &mut Cx) -> bool {
        if cx.command_room() == 0 {
            return false;
        }
        let at = self.collection.at;
        let pages = self.layout.head_pages(at.sector == 0);
        let buf = self.collection.head.take().expect("the head's buffer is here");
        let command = Command::Read {
            device: self.layout.device(at.segment, at.slot, 0),
            lba: self.layout.lba(at),
            into: Target::Meta { buf, pages },
            cause: Cause::Gc,
        };
        self.collection.phase = Phase::Head { asked: true };
        self.devices.submit(Op::GcHead, command, cx);
        true
    }

    /// The device has answered: is that the head, or what it should have been?
    pub(in crate::log) fn gc_head_done(
        &mut self,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("a head comes back")
        };
        let head = result.ok().and_then(|_| self.collection.head_of(&buf, lba));
        match head.is_none() && self.layout.parity {
            true => self.salvage.ask(Wanted::Victim, (device, lba, pages), buf, cx),
            false => self.gc_head_read(buf, head, cx),
        }
    }

    /// The head of a row was made from the other chunks, or can't be.
    pub(in crate::log) fn gc_head_salvaged(&mut self, buf: MetaBuf, well: bool, cx: &mut Cx) {
        let lba = self.layout.lba(self.collection.at);
        let head = self.collection.head_of(&buf, lba).filter(|_| well);
        self.gc_head_read(buf, head, cx);
    }

    /// The head of a row is here, or there is none any more: what of it is live?
    fn gc_head_read(&mut self, buf: MetaBuf, head: Option<Head>, cx: &mut Cx) {
        let Some(head) = head else {
            self.collection.head = Some(buf);
            return self.leave_victim(cx);
        };
        let it = &mut self.collection;
        it.seq = head.seq;
        it.sectors = head.first_sectors;
        it.chunks = u32::from(head.chunks).min(self.layout.width());
        (it.bad, it.mended, it.flawed) = (0, 0, 0);
        it.live.clear();
        it.entries = head.entries;
        it.phase = Phase::Sifting(0);
        self.collection.head = Some(buf);
        cx.wake();
    }

    pub(in crate::log) fn next_row(&mut self, cx: &mut Cx) {
        self.end_keep();
        let next = self.layout.after(self.collection.at, self.collection.sectors);
        match next {
            Some(at) => {
                self.pace_on(at.slot);
                self.collection.at = at;
                self.collection.phase = Phase::Head { asked: false };
                cx.wake();
            }
            None => self.leave_victim(cx),
        }
    }

    /// The victim was gone through to its end.
    fn leave_victim(&mut self, cx: &mut Cx) {
        assert!(!self.collection.is_idle(), "a victim that is left had been chosen");
        let victim = self.collection.victim;
        self.pace_on(self.layout.slots);
        self.collection.phase = Phase::Idle;
        self.segments.collected(victim);
        cx.wake();
    }

    /// A stop does not wait for room that what was read of the victim can't get.
    pub(in crate::log) fn end_collection(&mut self, cx: &mut Cx) -> bool {
        let waits = self.collection.phase == Phase::Moving;
        let stuck = waits && self.all_back(cx) && self.devices.is_quiet();
        if stuck {
            self.end_keep();
            self.leave_victim(cx);
        }
        stuck
    }

    /// Reads the chunks of the row that have anything live.
    fn read_chunks(&mut self, cx: &mut Cx) -> bool {
        if cx.room() < 20 || cx.command_room() < 16 {
            return false;
        }
        self.collection.phase = Phase::Reading { asked: true };
        for chunk in 0..self.layout.width() as u8 {
            let Some((from, sectors)) = self.live_range(chunk) else { continue };
            let buffer = Buffer::Gc(chunk);
            let into = Target::Data(self.buffers.at(buffer).view_mut_sectors(from, sectors));
            let at = self.collection.at;
            let command = Command::Read {
                device: self.layout.device(at.segment, at.slot, chunk.into()),
                lba: self.layout.lba(at) + u64::from(from),
                into,
                cause: Cause::Gc,
            };
            self.collection.outstanding += 1;
            self.devices.submit(Op::GcRead { chunk }, command, cx);
        }
        true
    }

    /// The sectors of a chunk of the row that have anything live: the first, and how many.
    pub(in crate::log) fn live_range(&self, chunk: u8) -> Option<(u32, u32)> {
        let live = || self.collection.live.iter().filter(|live| live.chunk == chunk);
        let first = live().map(|live| live.byte).min()?;
        let end = live().map(|live| live.byte + live.place.len()).max().unwrap_or(first);
        let from = first / SECTOR as u32;
        Some((from, end.div_ceil(SECTOR as u32) - from))
    }

    pub(in crate::log) fn gc_read_done(
        &mut self,
        chunk: u8,
        command: Command,
        result: Result<Verdict, DeviceError>,
    ) {
        let Command::Read { into: Target::Data(view), .. } = command else {
            unreachable!("a chunk comes back")
        };
        let buffer = Buffer::Gc(chunk);
        self.buffers.at(buffer).repay_mut(view);
        self.collection.outstanding -= 1;
        if let Err(error) = result {
            self.collection.flawed |= u32::from(error == DeviceError::Media) << chunk;
            self.distrust(chunk);
        }
        if self.collection.outstanding == 0 {
            self.collection.phase = Phase::Moving;
        }
    }

    /// What was read of a chunk can't be used.
    fn distrust(&mut self, chunk: u8) {
        let it = &mut self.collection;
        it.bad |= 1 << chunk;
        let live = it.live.iter_mut().filter(|live| live.chunk == chunk);
        live.for_each(|live| live.state = Checked::Bad);
    }

    /// Begins to make a bad chunk from the others when nothing else can be done with the row.
    fn mend_next(&mut self, cx: &mut Cx) -> bool {
        let it = &self.collection;
        if it.bad == 0 || it.outstanding > 0 || it.cursor < it.live.len() {
            return false;
        }
        let chunk = it.bad.trailing_zeros() as u8;
        let (from, sectors) = self.live_range(chunk).expect("it has live records");
        self.collection.bad &= !(1 << chunk);
        self.collection.mended |= 1 << chunk;
        match self.layout.parity {
            true => {
                let mend =
                    Mend::new(self.collection.at, (from, sectors), (chunk, self.collection.chunks));
                self.collection.phase = Phase::Mending(mend);
            }
            false => self.chunk_mended(chunk, false, cx),
        }
        true
    }

    /// How far mending has come.
    pub(in crate::log) fn mending(&self) -> Mend {
        match self.collection.phase {
            Phase::Mending(mend) => mend,
            other => unreachable!("nothing is mended in {other:?}"),
        }
    }

    /// The next step of mending.
    pub(in crate::log) fn mend_goes_on(&mut self, mend: Mend) {
        self.collection.phase = Phase::Mending(mend);
    }

    /// A chunk was made from the others, or could not be: its records are checked again.
    pub(in crate::log) fn chunk_mended(&mut self, chunk: u8, well: bool, cx: &mut Cx) {
        let it = &mut self.collection;
        let bad = |live: &&mut Live| live.chunk == chunk && live.state == Checked::Bad;
        let state = if well { Checked::No } else { Checked::Gone };
        it.live.iter_mut().filter(bad).for_each(|live| live.state = state);
        it.cursor = 0;
        it.phase = Phase::Moving;
        self.gauges.repaired += u64::from(well);
        cx.wake();
    }
}

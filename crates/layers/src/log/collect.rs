//! Collection: what is live in a victim moves to the stream of collection, row by row.
//!
//! Invariants
//! - A victim's rows are gone through in order; their heads say what they hold.
//! - A record is moved only when its checksum is right, and published only where the map still
//!   points at the place that it came from.

use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, DeviceError, Event, MetaBuf, Nanos, Out, Output, Piece, SECTOR, Target, Verdict,
};
use hostftl_format::log::{self, Entry, Head, Kind, Place, seed};

use super::append::GC;
use super::layout::{At, Layout};
use super::mend::Mend;
use super::ops::Op;
use super::salvage::Wanted;
use super::{Log, OWN_OPS};

/// What is done with the row of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No victim.
    Idle,
    /// The next row's head is to be read, or is being read.
    Head { asked: bool },
    /// Its chunks are to be read, or are being read.
    Reading { asked: bool },
    /// A chunk is made from the others; see [`super::mend`].
    Mending(Mend),
    /// Its records are being moved.
    Moving,
}

/// A live record of the row.
#[derive(Clone, Copy, Debug)]
struct Live {
    block: u64,
    place: Place,
    crc: u32,
    chunk: u8,
    /// The first byte in the buffer of its chunk.
    byte: u32,
    state: Checked,
}

/// What is known of a live record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    /// Its checksum is being made, or will be.
    No,
    /// It is as it should be.
    Good,
    /// It is not: its chunk has to be made from the others.
    Bad,
    /// Nothing can bring it back.
    Gone,
}

/// See the module text.
#[derive(Debug)]
pub struct Collection {
    phase: Phase,
    victim: u32,
    at: At,
    seq: u64,
    head: Option<MetaBuf>,
    live: Vec<Live>,
    /// The next of `live` to be checked, and the next to be moved.
    cursor: usize,
    moved: usize,
    outstanding: u32,
    /// Sectors on the first device of the row.
    sectors: u32,
    /// The row's chunks; those that can't be read, or hold something wrong; those that were made
    /// from the others.
    chunks: u32,
    bad: u32,
    mended: u32,
}

impl Collection {
    pub fn new(layout: &Layout) -> Self {
        Collection {
            phase: Phase::Idle,
            victim: 0,
            at: At::default(),
            seq: 0,
            head: Some(MetaBuf::new(layout.head_pages(true) as usize)),
            live: Vec::with_capacity(layout.head_entries(true) as usize),
            cursor: 0,
            moved: 0,
            outstanding: 0,
            sectors: 0,
            chunks: 0,
            bad: 0,
            mended: 0,
        }
    }

    /// Whether no victim is gone through.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }
}

impl Log {
    /// Whether free segments are getting few.
    fn wants_collection(&self) -> bool {
        self.segments.free() + self.segments.empty() < self.layout.reserve + 4
    }

    /// The buffer of a chunk of the victim; the one behind the last is for mending.
    pub(super) fn gc_buffer(&self, chunk: u8) -> usize {
        self.buffers.len() - 1 - self.layout.width() as usize + usize::from(chunk)
    }

    pub(super) fn pump_collection(&mut self, now: Nanos, out: &mut Out) -> bool {
        match self.collection.phase {
            Phase::Idle => self.choose_victim(out),
            Phase::Head { asked: false } => self.read_head(now, out),
            Phase::Moving => {
                let moved = self.check_next(now, out) | self.move_next(now, out);
                moved || self.mend_next()
            }
            Phase::Mending(mend) => self.pump_mend(now, mend, out),
            Phase::Reading { asked: false } => self.read_chunks(now, out),
            Phase::Head { .. } | Phase::Reading { .. } => false,
        }
    }

    fn choose_victim(&mut self, out: &mut Out) -> bool {
        if !self.wants_collection() || self.life == super::Life::Stopping {
            return false;
        }
        let Some(victim) = self.segments.pick() else { return false };
        self.counters.gc_runs += 1;
        out.push(Output::Event(Event::GcStarted));
        let it = &mut self.collection;
        it.victim = victim;
        it.at = At { segment: victim, slot: 0, sector: 0 };
        it.seq = 0;
        it.phase = Phase::Head { asked: false };
        true
    }

    fn read_head(&mut self, now: Nanos, out: &mut Out) -> bool {
        if self.ops.room() == 0 {
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
        self.submit(now, Op::GcHead, command, out);
        true
    }

    /// The device has answered: is that the head, or what it should have been?
    pub(super) fn gc_head_done(&mut self, command: Command, result: Result<Verdict, DeviceError>) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("a head comes back")
        };
        let found = result.is_ok() && self.victims_head(&buf, lba).is_some();
        match !found && self.layout.parity {
            true => self.salvage(Wanted::Victim, (device, lba, pages), buf),
            false => self.gc_head_read(buf, found),
        }
    }

    fn victims_head(&self, buf: &MetaBuf, lba: u64) -> Option<Head> {
        log::open(buf, &self.uuid, lba).filter(|head| head.seq > self.collection.seq)
    }

    /// Whether `buf` is the head of the victim's row at `lba`, with so many chunks.
    pub(super) fn is_victims_head(&self, buf: &MetaBuf, lba: u64, chunks: u32) -> bool {
        self.victims_head(buf, lba).is_some_and(|head| u32::from(head.chunks) == chunks)
    }

    /// The head of a row was read, or there is none any more: what of it is live?
    pub(super) fn gc_head_read(&mut self, buf: MetaBuf, found: bool) {
        let at = self.collection.at;
        let head = self.victims_head(&buf, self.layout.lba(at)).filter(|_| found);
        let Some(head) = head else {
            self.collection.head = Some(buf);
            return self.leave_victim();
        };
        let it = &mut self.collection;
        it.seq = head.seq;
        it.sectors = head.first_sectors;
        it.chunks = u32::from(head.chunks).min(self.layout.width());
        (it.bad, it.mended) = (0, 0);
        it.live.clear();
        for entry in (0..head.entries).filter_map(|index| log::entry(&buf, index)) {
            self.note_live(at, entry);
        }
        self.touched += head.entries as usize;
        self.collection.head = Some(buf);
        self.collection.cursor = 0;
        self.collection.moved = 0;
        self.collection.phase = Phase::Reading { asked: false };
        if self.collection.live.is_empty() {
            return self.next_row();
        }
        self.more = true;
    }

    fn note_live(&mut self, at: At, entry: Entry) {
        let Entry { kind, block, place, crc } = entry;
        if kind != Kind::Data || block >= self.map.len() || self.map.place(block) != place {
            return;
        }
        let chunk = (0..self.layout.width())
            .find(|chunk| self.layout.device(at.segment, at.slot, *chunk) == place.device());
        let Some(chunk) = chunk else { return };
        let byte = (place.byte() - self.layout.lba(at) * SECTOR as u64) as u32;
        let chunk = chunk as u8;
        self.collection.live.push(Live { block, place, crc, chunk, byte, state: Checked::No });
    }

    fn next_row(&mut self) {
        let next = self.layout.after(self.collection.at, self.collection.sectors);
        match next {
            Some(at) => {
                self.collection.at = at;
                self.collection.phase = Phase::Head { asked: false };
                self.more = true;
            }
            None => self.leave_victim(),
        }
    }

    /// The victim was gone through to its end.
    fn leave_victim(&mut self) {
        let victim = self.collection.victim;
        self.collection.phase = Phase::Idle;
        self.segments.collected(victim);
        self.more = true;
    }

    /// Reads the chunks of the row that have anything live.
    fn read_chunks(&mut self, now: Nanos, out: &mut Out) -> bool {
        if out.room() < 20 || self.ops.room() < 16 {
            return false;
        }
        self.collection.phase = Phase::Reading { asked: true };
        for chunk in 0..self.layout.width() as u8 {
            let Some((from, sectors)) = self.live_range(chunk) else { continue };
            let buffer = self.gc_buffer(chunk);
            let into = Target::Data(self.buffers[buffer].view_mut_sectors(from, sectors));
            let at = self.collection.at;
            let command = Command::Read {
                device: self.layout.device(at.segment, at.slot, chunk.into()),
                lba: self.layout.lba(at) + u64::from(from),
                into,
                cause: Cause::Gc,
            };
            self.collection.outstanding += 1;
            self.submit(now, Op::GcRead { chunk }, command, out);
        }
        true
    }

    /// The sectors of a chunk of the row that have anything live: the first, and how many.
    fn live_range(&self, chunk: u8) -> Option<(u32, u32)> {
        let live = || self.collection.live.iter().filter(|live| live.chunk == chunk);
        let first = live().map(|live| live.byte).min()?;
        let end = live().map(|live| live.byte + live.place.len()).max().unwrap_or(first);
        let from = first / SECTOR as u32;
        Some((from, end.div_ceil(SECTOR as u32) - from))
    }

    pub(super) fn gc_read_done(
        &mut self,
        chunk: u8,
        command: Command,
        result: Result<Verdict, DeviceError>,
    ) {
        let Command::Read { into: Target::Data(view), .. } = command else {
            unreachable!("a chunk comes back")
        };
        let buffer = self.gc_buffer(chunk);
        self.buffers[buffer].repay_mut(view);
        self.collection.outstanding -= 1;
        if result.is_err() {
            self.distrust(chunk);
        }
        if self.collection.outstanding == 0 {
            self.collection.phase = Phase::Moving;
        }
    }

    /// Checks the next record.
    fn check_next(&mut self, now: Nanos, out: &mut Out) -> bool {
        let it = &self.collection;
        let Some(live) = it.live.get(it.cursor).copied() else { return false };
        if self.ops.room() <= OWN_OPS / 2 {
            return false;
        }
        let item = it.cursor as u16;
        self.collection.cursor += 1;
        if live.state != Checked::No {
            return true;
        }
        self.collection.outstanding += 1;
        let buffer = self.gc_buffer(live.chunk);
        let from = self.buffers[buffer].view(live.byte, live.place.len());
        let seed = seed(live.block, live.place.generation());
        self.submit(now, Op::GcDigest { item }, Command::Digest { from, seed }, out);
        true
    }

    pub(super) fn gc_digest_done(
        &mut self,
        item: u16,
        command: Command,
        result: Result<Verdict, DeviceError>,
    ) {
        let Command::Digest { from, .. } = command else { unreachable!("a digest comes back") };
        let live = self.collection.live[item as usize];
        let buffer = self.gc_buffer(live.chunk);
        self.buffers[buffer].repay(from);
        self.collection.outstanding -= 1;
        let crc = result.expect("a checksum in memory can't fail").crc;
        let mended = self.collection.mended >> live.chunk & 1 == 1;
        self.collection.live[item as usize].state = match (crc == live.crc, mended) {
            (true, _) => Checked::Good,
            (false, false) => Checked::Bad,
            (false, true) => Checked::Gone,
        };
        self.collection.bad |= u32::from(crc != live.crc && !mended) << live.chunk;
    }

    /// Moves the next record that was checked.
    fn move_next(&mut self, now: Nanos, out: &mut Out) -> bool {
        let it = &self.collection;
        let Some(live) = it.live.get(it.moved).copied() else {
            let over = it.outstanding == 0;
            if over {
                self.next_row();
            }
            return over;
        };
        if self.map.place(live.block) != live.place || live.state == Checked::Gone {
            self.collection.moved += 1;
            return true;
        }
        if live.state != Checked::Good || self.ops.room() <= OWN_OPS / 2 {
            return false;
        }
        let record = (live.block, live.place.len(), live.place.generation());
        let Some((row, to)) = self.append(GC, record, live.crc) else { return false };
        let item = self.collection.moved as u16;
        self.collection.moved += 1;
        self.collection.outstanding += 1;
        let noted = self.rows[row as usize].items[to as usize];
        let source = self.gc_buffer(live.chunk);
        let from = Piece::Data(self.buffers[source].view(live.byte, live.place.len()));
        let buffer = self.row_buffer(row, noted.chunk.into());
        let into = self.buffers[buffer].view_mut(noted.byte, live.place.len());
        let op = Op::GcPlace { item, row, to: to as u16 };
        self.submit(now, op, Command::Place { from, into }, out);
        true
    }

    pub(super) fn gc_place_done(&mut self, item: u16, (row, to): (u8, u16), command: Command) {
        let Command::Place { from: Piece::Data(from), into } = command else {
            unreachable!("a place comes back")
        };
        let live = self.collection.live[item as usize];
        let source = self.gc_buffer(live.chunk);
        self.buffers[source].repay(from);
        let chunk = self.rows[row as usize].items[to as usize].chunk;
        let buffer = self.row_buffer(row, chunk.into());
        self.buffers[buffer].repay_mut(into);
        self.collection.outstanding -= 1;
        self.publish_copy(row, to.into(), live.place);
        self.rows[row as usize].placing -= 1;
    }

    /// What was read of a chunk can't be used.
    fn distrust(&mut self, chunk: u8) {
        let it = &mut self.collection;
        it.bad |= 1 << chunk;
        let live = it.live.iter_mut().filter(|live| live.chunk == chunk);
        live.for_each(|live| live.state = Checked::Bad);
    }

    /// Begins to make a bad chunk from the others when nothing else can be done with the row.
    fn mend_next(&mut self) -> bool {
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
            false => self.chunk_mended(chunk, false),
        }
        true
    }

    /// How far mending has come.
    pub(super) fn mending(&self) -> Mend {
        match self.collection.phase {
            Phase::Mending(mend) => mend,
            other => unreachable!("nothing is mended in {other:?}"),
        }
    }

    /// The next step of mending.
    pub(super) fn mend_goes_on(&mut self, mend: Mend) {
        self.collection.phase = Phase::Mending(mend);
    }

    /// A chunk was made from the others, or could not be: its records are checked again.
    pub(super) fn chunk_mended(&mut self, chunk: u8, well: bool) {
        let it = &mut self.collection;
        let bad = |live: &&mut Live| live.chunk == chunk && live.state == Checked::Bad;
        let state = if well { Checked::No } else { Checked::Gone };
        it.live.iter_mut().filter(bad).for_each(|live| live.state = state);
        it.cursor = 0;
        it.phase = Phase::Moving;
        self.gauges.repaired += u64::from(well);
        self.more = true;
    }
}

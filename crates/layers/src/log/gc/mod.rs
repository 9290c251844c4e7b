//! Collection: what is live in a victim moves to the stream of collection, row by row.
//!
//! Invariants
//! - A victim's rows are gone through in order; their heads say what they hold.
//! - A record is moved only when its checksum is right, and published only where the map still
//!   points at the place that it came from.

mod chunks;
mod copy;
mod faults;
mod find_valid;
pub(in crate::log) mod protect;
mod rebuild;
mod throttle;

use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, DeviceError, Event, Gauges, MetaBuf, Nanos, SECTOR, Target, Verdict,
};
use hostftl_format::log::{self, Head, Place};

use crate::kit::Life;
use crate::log::buffers::{Buffer, Buffers};
use crate::log::checkpoint::Checkpoint;
use crate::log::devices::Devices;
use crate::log::durability::Durability;
use crate::log::gc::chunks::Chunks;
use crate::log::gc::copy::Batch;
use crate::log::gc::protect::Protection;
use crate::log::gc::rebuild::Mend;
use crate::log::gc::throttle::Pace;
use crate::log::layout::{At, Layout};
use crate::log::map::Where;
use crate::log::map::pages::{Pages, With};
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::metadata::{Salvage, Wanted};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};
use crate::log::row::rows::Rows;
use crate::log::segments::Segments;
use crate::log::share::Share;

/// The parts that collection needs.
#[derive(Debug)]
pub struct Needs<'a> {
    /// It knows the victims.
    pub segments: &'a mut Segments,
    /// They are read.
    pub devices: &'a mut Devices,
    /// What is read lies in them.
    pub buffers: &'a mut Buffers,
    /// They say what is valid.
    pub pages: &'a mut Pages,
    /// Pages may need it.
    pub checkpoint: &'a mut Checkpoint,
    /// Records go into them.
    pub rows: &'a mut Rows,
    /// Rows that list nothing are written too.
    pub durability: &'a mut Durability,
    /// It rebuilds heads.
    pub salvage: &'a mut Salvage,
    /// What was rebuilt is counted.
    pub gauges: &'a mut Gauges,
    /// What need not be done at once is paced.
    pub share: &'a mut Share,
}

impl Needs<'_> {
    /// As [`Pages::fetch`].
    pub fn fetch(&mut self, page: u32, cx: &mut Cx) -> Where {
        let Needs { checkpoint, segments, devices, .. } = self;
        self.pages.fetch(page, &mut With { checkpoint, segments, devices }, cx)
    }

    /// As [`Pages::hold`].
    pub fn hold(&mut self, page: u32, spare: u32, cx: &mut Cx) -> Where {
        let Needs { checkpoint, segments, devices, .. } = self;
        self.pages.hold(page, spare, &mut With { checkpoint, segments, devices }, cx)
    }
}

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
    /// A chunk is made from the others; see [`crate::log::gc::rebuild`].
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
    phase: Phase,
    victim: u32,
    at: At,
    seq: u64,
    head: Option<MetaBuf>,
    /// Entries of the row.
    entries: u32,
    /// The map page that is kept because it is needed next.
    held: Option<u32>,
    live: Vec<Live>,
    /// The next of `live` to be moved.
    cursor: usize,
    /// Commands under way.
    outstanding: u32,
    batch: Batch,
    /// Sectors on the first device of the row.
    sectors: u32,
    /// The row's chunks.
    chunks: Chunks,
    pace: Pace,
    /// Whether the victim was chosen although no room is wanted, and since when its row is read.
    paced: bool,
    begun: Nanos,
    protection: Protection,
    /// The same for what a scrub found.
    mending: Protection,
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
            chunks: Chunks::default(),
            pace: Pace::new(layout),
            paced: false,
            begun: 0,
            protection: Protection::default(),
            mending: Protection::default(),
        }
    }

    /// The head of the victim's row at `lba`, if that is what `buf` has.
    pub fn head_of(&self, buf: &MetaBuf, lba: u64, devices: &Devices) -> Option<Head> {
        let head = log::open(buf, &self.uuid, lba)?;
        let sane = self.layout.admits_head(&head, self.at, devices.stripe(self.at.segment));
        (sane && head.seq > self.seq).then_some(head)
    }

    /// Goes on.
    ///
    /// # Panics
    /// When that is not what comes next.
    fn go(&mut self, next: Phase) {
        use Phase::{Head, Idle, Mending, Moving, Reading, Sifting};
        let fits = match (self.phase, next) {
            (Idle, Head { asked: false })
            | (Head { asked: false }, Head { asked: true })
            | (Head { asked: true }, Sifting(0))
            | (Sifting(_), Reading { asked: false })
            | (Reading { asked: false }, Reading { asked: true })
            | (Reading { asked: true }, Moving)
            | (Moving | Mending(_), Moving | Mending(_)) => self.batch_row().is_none(),
            (Sifting(from), Sifting(to)) => from <= to,
            // The next row, or none any more.
            (Reading { asked: false } | Moving, Head { asked: false }) => true,
            (Head { asked: true } | Reading { asked: false } | Moving, Idle) => true,
            _ => false,
        };
        assert!(fits, "collection in {:?} can't be in {next:?} next", self.phase);
        self.phase = next;
    }

    /// Whether records are moved, or wait for that.
    pub fn is_moving(&self) -> bool {
        self.phase == Phase::Moving
    }

    /// Where the row lies that is gone through.
    pub fn at(&self) -> At {
        self.at
    }

    /// Whether no victim is gone through.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }
}

impl Collection {
    /// The next step, unless records are moved.
    pub fn pump(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        match self.phase {
            Phase::Idle => self.choose_victim(with, cx),
            Phase::Head { asked: false } if self.waits_for_host(with, cx) => false,
            Phase::Head { asked: false } => self.read_head(with, cx),
            Phase::Sifting(entry) => self.sift(entry, with, cx),
            Phase::Mending(mend) => self.pump_mend(mend, with, cx),
            Phase::Reading { asked: false } => self.read_chunks(with, cx),
            Phase::Head { .. } | Phase::Reading { .. } | Phase::Moving => false,
        }
    }

    fn choose_victim(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        if cx.life() == Life::Stopping {
            return false;
        }
        let victim = match self.wants_collection(with.segments) {
            true if self.is_short(with.segments) => with.segments.pick_emptiest(),
            true => with.segments.pick(),
            false if self.layout.zoned => self.hurt_victim(with),
            false => None,
        };
        self.paced = victim.is_none();
        let victim = victim.or_else(|| self.protect(with, cx));
        let victim = victim.or_else(|| self.mend_flawed(with, cx));
        let Some(victim) = victim else { return false };
        assert!(self.outstanding == 0, "nothing of another victim is under way");
        self.pace_victim(victim, with.segments);
        cx.counters().gc_runs += 1;
        cx.tell(Event::GcStarted);
        let it = &mut *self;
        it.victim = victim;
        it.at = At { segment: victim, slot: 0, sector: 0 };
        it.seq = 0;
        it.go(Phase::Head { asked: false });
        true
    }

    /// A segment with a zone that failed and with data to be moved elsewhere, if there is one.
    fn hurt_victim(&mut self, with: &mut Needs) -> Option<u32> {
        let segments = &mut with.segments;
        let mut hurt = with.devices.zones_mut().hurt(|it| segments.is_empty_or_gone(it));
        hurt.find(|it| segments.pick_this(*it))
    }

    fn read_head(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        if cx.command_room() == 0 {
            return false;
        }
        let at = self.at;
        let pages = self.layout.head_pages(at.sector == 0);
        let buf = self.head.take().expect("the head's buffer is here");
        let command = Command::Read {
            device: with.devices.stripe(at.segment).device(at.segment, at.slot, 0),
            lba: self.layout.lba(at),
            into: Target::Meta { buf, pages },
            cause: Cause::Gc,
        };
        self.begun = cx.now();
        self.go(Phase::Head { asked: true });
        with.devices.submit(Op::GcHead, command, cx);
        true
    }

    /// The device has answered: is that the head, or what it should have been?
    pub fn head_done(
        &mut self,
        command: Command,
        result: Result<Verdict, DeviceError>,
        with: &mut Needs,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("a head comes back")
        };
        let head = result.ok().and_then(|_| self.head_of(&buf, lba, with.devices));
        match head.is_none() && self.layout.parity {
            true => with.salvage.ask(Wanted::Victim, (device, lba, pages), buf, cx),
            false => self.head_read(buf, head, with, cx),
        }
    }

    /// The head of a row was made from the other chunks, or can't be.
    pub fn head_salvaged(&mut self, buf: MetaBuf, well: bool, with: &mut Needs, cx: &mut Cx) {
        let lba = self.layout.lba(self.at);
        let head = self.head_of(&buf, lba, with.devices).filter(|_| well);
        self.head_read(buf, head, with, cx);
    }

    /// The head of a row is here, or there is none any more: what of it is live?
    fn head_read(&mut self, buf: MetaBuf, head: Option<Head>, with: &mut Needs, cx: &mut Cx) {
        let Some(head) = head else {
            self.head = Some(buf);
            return self.leave_victim(with, cx);
        };
        let it = &mut *self;
        it.seq = head.seq;
        it.sectors = head.first_sectors;
        let width = with.devices.stripe(it.victim).width();
        it.chunks = Chunks::new(u32::from(head.chunks).min(width));
        it.live.clear();
        it.entries = head.entries;
        it.go(Phase::Sifting(0));
        self.head = Some(buf);
        cx.wake();
    }

    /// No record of the row is left to be moved. Whether none has to be made from the others
    /// first.
    pub fn end_row(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        let over = !self.chunks.any_bad();
        if over && !self.tell_row(with, cx) {
            self.next_row(with, cx);
        }
        over
    }

    fn next_row(&mut self, with: &mut Needs, cx: &mut Cx) {
        self.end_keep(with);
        self.row_over(with, cx);
        let next = self.layout.after(self.at, self.sectors);
        match next {
            Some(at) => {
                self.pace_on(at.slot, with.segments);
                self.at = at;
                self.go(Phase::Head { asked: false });
                cx.wake();
            }
            None => self.leave_victim(with, cx),
        }
    }

    /// The victim was gone through to its end.
    fn leave_victim(&mut self, with: &mut Needs, cx: &mut Cx) {
        assert!(!self.is_idle(), "a victim that is left had been chosen");
        let victim = self.victim;
        self.pace_on(self.layout.slots, with.segments);
        self.go(Phase::Idle);
        with.segments.collected(victim);
        cx.wake();
    }

    /// Nothing is under way any more: a stop does not wait for room that what was read of the
    /// victim can't get.
    pub fn end(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        let waits = self.phase == Phase::Moving;
        if waits {
            self.end_keep(with);
            self.leave_victim(with, cx);
        }
        waits
    }

    /// Reads the chunks of the row that have anything live.
    fn read_chunks(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        if cx.room() < 20 || cx.command_room() < 16 {
            return false;
        }
        self.go(Phase::Reading { asked: true });
        let stripe = with.devices.stripe(self.victim);
        for chunk in 0..stripe.width() as u8 {
            let Some((from, sectors)) = self.live_range(chunk) else { continue };
            let buffer = Buffer::Gc(chunk);
            let into = Target::Data(with.buffers.at(buffer).view_mut_sectors(from, sectors));
            let at = self.at;
            let command = Command::Read {
                device: stripe.device(at.segment, at.slot, chunk.into()),
                lba: self.layout.lba(at) + u64::from(from),
                into,
                cause: Cause::Gc,
            };
            self.outstanding += 1;
            with.devices.submit(Op::GcRead { chunk }, command, cx);
        }
        true
    }

    /// The sectors of a chunk of the row that have anything live: the first, and how many.
    pub fn live_range(&self, chunk: u8) -> Option<(u32, u32)> {
        let live = || self.live.iter().filter(|live| live.chunk == chunk);
        let first = live().map(|live| live.byte).min()?;
        let end = live().map(|live| live.byte + live.place.len()).max().unwrap_or(first);
        let from = first / SECTOR as u32;
        Some((from, end.div_ceil(SECTOR as u32) - from))
    }

    pub fn read_done(
        &mut self,
        chunk: u8,
        command: Command,
        result: Result<Verdict, DeviceError>,
        with: &mut Needs,
    ) {
        let Command::Read { into: Target::Data(view), .. } = command else {
            unreachable!("a chunk comes back")
        };
        let buffer = Buffer::Gc(chunk);
        with.buffers.at(buffer).repay_mut(view);
        self.outstanding -= 1;
        if let Err(error) = result {
            if error == DeviceError::Media {
                self.chunks.blame(chunk);
            }
            self.distrust(chunk);
        }
        if self.outstanding == 0 {
            self.go(Phase::Moving);
        }
    }

    /// What was read of a chunk can't be used.
    fn distrust(&mut self, chunk: u8) {
        self.chunks.distrust(chunk);
        let live = self.live.iter_mut().filter(|live| live.chunk == chunk);
        live.for_each(|live| live.state = Checked::Bad);
    }

    /// Begins to make a bad chunk from the others when nothing else can be done with the row.
    pub fn mend_next(&mut self, with: &mut Needs, cx: &mut Cx) -> bool {
        if self.outstanding > 0 || self.cursor < self.live.len() {
            return false;
        }
        let Some(chunk) = self.chunks.begin_rebuild() else { return false };
        let (from, sectors) = self.live_range(chunk).expect("it has live records");
        match self.layout.parity {
            true => {
                let At { segment, slot, .. } = self.at;
                let (stripe, chunks) = (with.devices.stripe(segment), self.chunks.count());
                let wanted = Chunk::Data(chunk);
                let rebuild = Rebuild::new(stripe, (segment, slot), wanted, chunks);
                let lba = self.layout.lba(self.at);
                let mend = Mend::new(lba, (from, sectors), chunk, rebuild);
                self.go(Phase::Mending(mend));
            }
            false => self.chunk_mended(chunk, false, with, cx),
        }
        true
    }

    /// How far mending has come.
    pub fn mending(&self) -> Mend {
        match self.phase {
            Phase::Mending(mend) => mend,
            other => unreachable!("nothing is mended in {other:?}"),
        }
    }

    /// The next step of mending.
    pub fn mend_goes_on(&mut self, mend: Mend) {
        self.go(Phase::Mending(mend));
    }

    /// A chunk was made from the others, or could not be: its records are checked again.
    pub fn chunk_mended(&mut self, chunk: u8, well: bool, with: &mut Needs, cx: &mut Cx) {
        let it = &mut *self;
        let bad = |live: &&mut Live| live.chunk == chunk && live.state == Checked::Bad;
        let state = if well { Checked::No } else { Checked::Gone };
        it.live.iter_mut().filter(bad).for_each(|live| live.state = state);
        it.cursor = 0;
        it.go(Phase::Moving);
        with.gauges.repaired += u64::from(well);
        cx.wake();
    }
}

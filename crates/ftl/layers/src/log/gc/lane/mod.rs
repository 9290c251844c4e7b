//! A lane: one row of the victim under way, from its head until nothing of it is left to be moved.
//!
//! Invariants
//! - A lane has buffers of its own. What was read of a chunk stays as it is until the row is over:
//!   what is made from the others goes elsewhere.
//! - While a command of the lane is under way, its phase changes only to what waits for that.

mod agree;
mod ahead;
mod chunks;
mod copy;
mod faults;
mod fill;
mod find_valid;
pub(super) mod lanes;
mod rebuild;

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, MetaBuf, SECTOR, Target};
use hostftl_format::log::{Head, Place};

use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::layout::{At, LANES, Layout};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::Chunk;
use crate::log::stripe::Stripe;
use chunks::Chunks;
use copy::Batch;
use fill::Fill;
use rebuild::{Mend, Sum};

/// With less room for outputs, chunks are not read.
const ROOM: usize = 20;
/// Commands that the chunks of a row take at most.
const COMMANDS: usize = 16;

/// What is done with the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is none.
    Idle,
    /// Its head is being read, or rebuilt.
    Head,
    /// What of it is live is found out, from this entry on.
    Sifting(u32),
    /// Its chunks are to be read, or are being read.
    Reading { asked: bool },
    /// Its records are being moved.
    Moving,
    /// A chunk is made from the others; see [`rebuild`].
    Mending(Mend),
    /// It was made, and a device gets it; see [`fill`].
    Filling(Fill),
}

/// What comes next in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A row.
    Idle,
    /// The head.
    Head,
    /// More of what is live.
    Sifting,
    /// Reads of chunks.
    ToRead,
    /// The ends of these.
    Reading,
    /// More records.
    Moving,
    /// More of the chunk that is made.
    Mending,
    /// More of what a device gets.
    Filling,
}

impl Phase {
    #[inline]
    fn kind(self) -> Kind {
        match self {
            Phase::Idle => Kind::Idle,
            Phase::Head => Kind::Head,
            Phase::Sifting(_) => Kind::Sifting,
            Phase::Reading { asked: false } => Kind::ToRead,
            Phase::Reading { asked: true } => Kind::Reading,
            Phase::Moving => Kind::Moving,
            Phase::Mending(_) => Kind::Mending,
            Phase::Filling(_) => Kind::Filling,
        }
    }
}

/// A live record of the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    /// Its block.
    pub block: u64,
    /// Where it lies.
    pub place: Place,
    /// Its CRC.
    pub crc: u32,
    /// The chunk that it lies in.
    pub chunk: u8,
    /// The first byte in the buffer of its chunk.
    pub byte: u32,
    /// What is known of it.
    pub state: Checked,
}

/// What is known of a live record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
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

#[derive(Debug)]
pub(crate) struct Lane {
    layout: Layout,
    number: u8,
    phase: Phase,
    at: At,
    /// The number of the row.
    seq: u64,
    head: Option<MetaBuf>,
    /// Whether that was read, or made, without an error.
    head_is_well: bool,
    /// Whether it was made from the others when it was known that it is the next.
    was_salvaged: bool,
    /// Entries of the row.
    entries: u32,
    /// The map page that is kept because it is needed next.
    held: Option<u32>,
    live: Vec<Live>,
    /// The next of `live` to be moved.
    cursor: usize,
    /// Commands under way, but for that of the head.
    outstanding: u32,
    batch: Batch,
    chunks: Chunks,
    /// What the buffer of the sum has, as far as it may still be of use.
    sum: Sum,
}

impl Lane {
    /// One without a row.
    fn new(number: u8, layout: &Layout) -> Self {
        let entries = layout.head_entries(true);
        Lane {
            layout: *layout,
            number,
            phase: Phase::Idle,
            at: At::default(),
            seq: 0,
            head: Some(MetaBuf::new(layout.head_pages(true) as usize)),
            head_is_well: false,
            was_salvaged: false,
            entries: 0,
            held: None,
            live: Vec::with_capacity(entries as usize),
            cursor: 0,
            outstanding: 0,
            batch: Batch::new(entries),
            chunks: Chunks::default(),
            sum: Sum::Nothing,
        }
    }

    /// Bytes that all lanes keep beside their buffers.
    pub(in crate::log) fn memory(layout: &Layout) -> u64 {
        let entries = u64::from(layout.head_entries(true));
        let of_entry = size_of::<Live>() as u64 + Batch::BYTES;
        LANES as u64 * (u64::from(layout.head_pages(true)) * 4096 + entries * of_entry)
    }

    /// Goes on.
    ///
    /// # Panics
    /// When that is not what comes next.
    fn go(&mut self, next: Phase) {
        use Phase::{Filling, Head, Idle, Mending, Moving, Reading, Sifting};
        let still = self.outstanding == 0 && self.batch_row().is_none();
        let fits = match (&self.phase, &next) {
            (Idle, Head) | (Head, Sifting(0)) => still,
            (Sifting(from), Sifting(to)) => from <= to,
            (Sifting(_), Reading { asked: false }) => still,
            (Reading { asked: false }, Reading { asked: true }) => still,
            (Reading { asked: true }, Moving) => still,
            (Moving, Mending(_)) | (Mending(_), Moving) => still,
            (Mending(_), Mending(_)) | (Filling(_), Filling(_)) => true,
            (Head | Mending(_), Filling(_)) | (Head, Mending(_)) => still,
            // The head comes after what the chunk of a device is made from.
            (Idle, Mending(_)) | (Mending(_), Head) => still,
            // It had no row, or nothing of it is live, or nothing is left to be moved.
            (Head | Reading { asked: false } | Moving | Filling(_), Idle) => {
                still && self.held.is_none()
            }
            _ => false,
        };
        assert!(fits, "a lane in {:?} can't be in {next:?} next", self.phase);
        self.phase = next;
    }

    /// Whether it has no row.
    fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Whether its last records are on their way to a row.
    fn has_all_on_its_way(&self) -> bool {
        let sent = self.outstanding > 0 && self.cursor == self.live.len();
        self.is_moving() && sent && !self.chunks.any_bad()
    }

    /// Whether nothing of its row is live.
    pub(super) fn has_nothing(&self) -> bool {
        matches!(self.phase, Phase::Reading { asked: false }) && self.live.is_empty()
    }

    /// Whether its records are moved, or wait for that.
    fn is_moving(&self) -> bool {
        matches!(self.phase, Phase::Moving)
    }

    /// The slot of its row, if it has one.
    fn slot(&self) -> Option<u32> {
        (!self.is_idle()).then_some(self.at.slot)
    }

    /// Whether a chunk of its row has to be made from the others.
    pub(crate) fn has_bad_chunk(&self) -> bool {
        self.chunks.any_bad()
    }
}

impl Lane {
    /// Takes the row at `at`, whose head comes into the buffer.
    fn begin(&mut self, at: At) -> MetaBuf {
        self.go(Phase::Head);
        self.renew(at);
        self.head.take().expect("the head's buffer is here")
    }

    /// Nothing is known of the row at `at`.
    fn renew(&mut self, at: At) {
        self.at = at;
        self.live.clear();
        (self.was_salvaged, self.sum, self.chunks) = (false, Sum::Nothing, Chunks::default());
    }

    /// The buffer of the head is back; whether it came without an error.
    pub(super) fn has_head(&mut self, buf: MetaBuf, well: bool) {
        assert!(matches!(self.phase, Phase::Head), "a head that comes was asked for");
        (self.head, self.head_is_well) = (Some(buf), well);
    }

    /// The head that has come, with all that was read ahead, and does not count yet; whether it
    /// came without an error.
    pub(super) fn head(&self) -> Option<(&MetaBuf, bool)> {
        let here = matches!(self.phase, Phase::Head) && self.outstanding == 0;
        let head = self.head.as_ref().filter(|_| here)?;
        Some((head, self.head_is_well))
    }

    /// Whether the head was made from the other chunks when it was known that it is the next.
    pub(super) fn was_salvaged(&self) -> bool {
        self.was_salvaged
    }

    /// The head, which is the next, is to be made from the other chunks.
    pub(super) fn salvage_head(&mut self) -> MetaBuf {
        assert!(!self.was_salvaged, "that is done once");
        self.was_salvaged = true;
        self.head.take().expect("the head's buffer is here")
    }

    /// The head of the row is here, and counts.
    fn sift_from(&mut self, head: &Head, stripe: Stripe) {
        assert!(self.head().is_some(), "a head that counts has come");
        (self.seq, self.entries) = (head.seq, head.entries);
        self.chunks = Chunks::new(u32::from(head.chunks).min(stripe.width()));
        self.go(Phase::Sifting(0));
    }

    /// Nothing of the row is left to be moved: the bytes that were, or those of a row of which a
    /// device got its chunk.
    fn end(&mut self, mapping: &mut Mapping) -> u64 {
        self.end_keep(mapping);
        let filled = match self.phase {
            Phase::Filling(fill) => u64::from(fill.sectors() * self.chunks.count()) * SECTOR as u64,
            _ => 0,
        };
        self.go(Phase::Idle);
        filled + self.live.iter().map(|live| u64::from(live.place.len())).sum::<u64>()
    }

    /// The next step with the row's chunks, unless records are moved.
    fn pump(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        match self.phase {
            Phase::Reading { asked: false } => self.read_chunks(media, cx),
            Phase::Mending(mend) => self.pump_mend(mend, media, cx),
            Phase::Filling(fill) => self.pump_fill(fill, media, mapping, cx),
            _ => false,
        }
    }

    /// Reads the chunks of the row that have anything live. When a chunk is known to be missing,
    /// what it is made from comes along, parity too.
    fn read_chunks(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.room() < ROOM || cx.command_room() < COMMANDS {
            return false;
        }
        self.go(Phase::Reading { asked: true });
        let stripe = media.devices.stripe(self.at.segment);
        let missing = self.missing_range(stripe, media);
        for chunk in 0..stripe.width() as u8 {
            let all = missing.filter(|_| u32::from(chunk) < self.chunks.count());
            if let Some(range) = union(self.live_range(chunk), all) {
                self.read_chunk(chunk, range, media, cx);
            }
        }
        let gone = media.devices.missing_of(self.at.segment);
        let here = |which: &u8| {
            !gone.contains(stripe.parity_device(self.at.segment, self.at.slot, *which))
        };
        if let (Some(range), Some(which)) = (missing, (0..stripe.parity()).find(here)) {
            self.read_parity((which, range), media, cx);
        }
        true
    }

    /// The sectors with anything live of a chunk that is missing and can be made from the others.
    fn missing_range(&self, stripe: Stripe, media: &Media) -> Option<(u32, u32)> {
        let At { segment, slot, .. } = self.at;
        if self.layout.parity == 0 || !media.devices.is_missing_a_chunk(segment) {
            return None;
        }
        let device = |chunk: &u8| stripe.device(segment, slot, (*chunk).into());
        let missing = |chunk: &u8| media.devices.is_missing_on(segment, device(chunk));
        (0..self.chunks.count() as u8).find(missing).and_then(|chunk| self.live_range(chunk))
    }

    /// Reads so many sectors of a chunk, from one on.
    fn read_chunk(
        &mut self,
        chunk: u8,
        (from, sectors): (u32, u32),
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let At { segment, slot, .. } = self.at;
        let device = media.devices.stripe(segment).device(segment, slot, chunk.into());
        let buffer = Buffer::Gc(self.number, chunk);
        let into = Target::Data(media.buffers.at(buffer).view_mut_sectors(from, sectors));
        let lba = self.layout.lba(self.at) + u64::from(from);
        self.chunks.is_read(chunk, (from, sectors));
        self.outstanding += 1;
        let op = Op::GcRead { lane: self.number, chunk };
        media.devices.submit(op, Command::Read { device, lba, into, cause: Cause::Gc }, cx);
    }

    /// The sectors of a chunk of the row that have anything live: the first, and how many.
    fn live_range(&self, chunk: u8) -> Option<(u32, u32)> {
        let live = || self.live.iter().filter(|live| live.chunk == chunk);
        let first = live().map(|live| live.byte).min()?;
        let end = live().map(|live| live.byte + live.place.len()).max().unwrap_or(first);
        let from = first / SECTOR as u32;
        Some((from, end.div_ceil(SECTOR as u32) - from))
    }

    /// A chunk was read.
    fn read_done(&mut self, chunk: u8, command: Command, result: Ended, media: &mut Media) {
        let Command::Read { into: Target::Data(view), .. } = command else {
            unreachable!("a chunk comes back")
        };
        media.buffers.at(Buffer::Gc(self.number, chunk)).repay_mut(view);
        self.outstanding -= 1;
        if result.is_err() {
            self.chunks.is_not_here(chunk);
        }
        if let Phase::Mending(mend) = self.phase {
            return self.mend_read(mend, result.is_err().then_some(Chunk::Data(chunk)));
        }
        if let Err(error) = result {
            if error == DeviceError::Media {
                self.chunks.blame(chunk);
            }
            self.distrust(chunk);
        }
        self.move_when_read();
    }

    /// What was asked for is here when nothing is under way any more.
    fn move_when_read(&mut self) {
        if self.outstanding == 0 {
            self.cursor = 0;
            self.go(Phase::Moving);
        }
    }

    /// What was read of a chunk can't be used.
    fn distrust(&mut self, chunk: u8) {
        let live = self.live.iter_mut().filter(|live| live.chunk == chunk);
        let mut any = false;
        live.for_each(|live| (live.state, any) = (Checked::Bad, true));
        if any {
            self.chunks.distrust(chunk);
        }
    }
}

/// The shortest range of sectors, its first and its length, that has both.
fn union(one: Option<(u32, u32)>, other: Option<(u32, u32)>) -> Option<(u32, u32)> {
    let (Some((from, sectors)), Some((begin, more))) = (one, other) else { return one.or(other) };
    let first = from.min(begin);
    Some((first, (from + sectors).max(begin + more) - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_ranges_the_union_has_what_is_between_them() {
        assert_eq!(union(Some((8, 4)), Some((16, 8))), Some((8, 16)));
        assert_eq!(union(Some((8, 40)), Some((16, 8))), Some((8, 40)));
        assert_eq!(union(None, Some((16, 8))), Some((16, 8)));
        assert_eq!(union(None, None), None);
    }

    #[test]
    #[should_panic(expected = "can't be in Moving next")]
    fn nothing_is_moved_before_it_was_read() {
        let mut it = Lane::new(0, &Layout::example(3));
        let buf = it.begin(At::default());
        it.has_head(buf, false);
        it.go(Phase::Moving);
    }

    #[test]
    fn a_lane_without_a_row_takes_one_again() {
        let mut it = Lane::new(3, &Layout::example(3));
        let buf = it.begin(At { segment: 1, slot: 2, sector: 0 });
        assert_eq!((it.slot(), it.is_idle()), (Some(2), false));
        assert!(it.head().is_none(), "it is on its way");
        it.has_head(buf, true);
        assert!(it.head().is_some_and(|(_, well)| well));
        it.go(Phase::Idle);
        assert_eq!((it.slot(), it.number, it.head().is_none()), (None, 3, true));
    }
}

//! A lane: processes one stripe of the victim, from its head until all its valid records have
//! moved.
//!
//! Invariants
//! - A lane has its own buffers. The contents of a chunk that was read stay unchanged until the
//!   stripe is finished; a rebuilt chunk goes to another buffer.
//! - While a command of the lane is in flight, the phase changes only to one that waits for it.

mod chunks;
mod copy;
mod faults;
mod fill;
mod find_valid;
pub(super) mod lanes;
mod parity_check;
mod rebuild;
mod speculative_rebuild;

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, MetaBuf, SECTOR, Target};
use hostftl_format::log::{Head, Place};

use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::chunk_placement::ChunkPlacement;
use crate::log::layout::{At, Layout};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::Chunk;
use chunks::Chunks;
use copy::Batch;
use fill::Fill;
use rebuild::{ChunkRebuild, Sum};

/// Output slots without which no chunk is read.
const ROOM: usize = 20;
/// Maximum number of commands for the chunks of a stripe.
const COMMANDS: usize = 16;

/// The current phase of the stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No stripe.
    Idle,
    /// The head is being read or rebuilt.
    Head,
    /// Valid records are being found, from this entry on.
    Sifting(u32),
    /// The chunks are to be read, or are being read.
    Reading { asked: bool },
    /// Records are being moved.
    Moving,
    /// A chunk is being rebuilt; see [`rebuild`].
    Rebuilding(ChunkRebuild),
    /// A rebuilt chunk is being checked and written to a device; see [`fill`].
    Filling(Fill),
}

/// The kind of a phase, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Waits for a stripe.
    Idle,
    /// Waits for a head.
    Head,
    /// Looks up entries in the map.
    Sifting,
    /// Has chunks to read.
    ToRead,
    /// Waits for chunks.
    Reading,
    /// Moves records.
    Moving,
    /// Rebuilds a chunk.
    Rebuilding,
    /// Fills in the chunk of a device.
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
            Phase::Rebuilding(_) => Kind::Rebuilding,
            Phase::Filling(_) => Kind::Filling,
        }
    }
}

/// A valid record of the stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidRecord {
    /// Block number.
    pub block: u64,
    /// Place in the stripe.
    pub place: Place,
    /// CRC.
    pub crc: u32,
    /// Chunk that contains it.
    pub chunk: u8,
    /// First byte in the buffer of its chunk.
    pub byte: u32,
    /// State of the move.
    pub state: Checked,
}

/// State of a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// Not moved yet.
    No,
    /// Verified and moved.
    Moved,
    /// Damaged or unreadable; its chunk must be rebuilt.
    Bad,
    /// Lost.
    Lost,
    /// Lost, and reported.
    Reported,
}

#[derive(Debug)]
pub(crate) struct Lane {
    layout: Layout,
    number: u8,
    phase: Phase,
    at: At,
    /// Number of the stripe.
    seq: u64,
    head: Option<MetaBuf>,
    /// Whether the head was read or rebuilt without an error.
    head_is_well: bool,
    /// Whether the head was rebuilt when its stripe was the next one.
    was_head_rebuilt: bool,
    /// Number of entries in the head.
    entries: u32,
    /// The map page that is pinned because it is needed next.
    held: Option<u32>,
    valid: Vec<ValidRecord>,
    /// Index in `valid` of the next record to move.
    cursor: usize,
    /// Commands in flight, without the one for the head.
    outstanding: u32,
    batch: Batch,
    chunks: Chunks,
    /// Contents of the sum buffer, as far as they may still be useful.
    sum: Sum,
}

impl Lane {
    /// Creates a lane without a stripe.
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
            was_head_rebuilt: false,
            entries: 0,
            held: None,
            valid: Vec::with_capacity(entries as usize),
            cursor: 0,
            outstanding: 0,
            batch: Batch::new(entries),
            chunks: Chunks::default(),
            sum: Sum::Nothing,
        }
    }

    /// Returns the number of bytes that all lanes use besides their buffers.
    pub(in crate::log) fn memory(layout: &Layout) -> u64 {
        let entries = u64::from(layout.head_entries(true));
        let of_entry = size_of::<ValidRecord>() as u64 + Batch::BYTES;
        layout.lanes() as u64 * (u64::from(layout.head_pages(true)) * 4096 + entries * of_entry)
    }

    /// Changes the phase.
    ///
    /// # Panics
    /// If `next` cannot follow the current phase.
    fn go(&mut self, next: Phase) {
        use Phase::{Filling, Head, Idle, Moving, Reading, Rebuilding, Sifting};
        let still = self.outstanding == 0 && self.batch_stripe().is_none();
        let fits = match (&self.phase, &next) {
            (Idle, Head) | (Head, Sifting(0)) => still,
            (Sifting(from), Sifting(to)) => from <= to,
            (Sifting(_), Reading { asked: false }) => still,
            (Reading { asked: false }, Reading { asked: true }) => still,
            (Reading { asked: true }, Moving) => still,
            (Moving, Rebuilding(_)) | (Rebuilding(_), Moving) => still,
            (Rebuilding(_), Rebuilding(_)) | (Filling(_), Filling(_)) => true,
            (Head | Rebuilding(_), Filling(_)) | (Head, Rebuilding(_)) => still,
            // For a joining device the chunks are read, and its own rebuilt, before the head.
            (Idle, Rebuilding(_)) | (Rebuilding(_), Head) => still,
            // There was no stripe, none of its records is valid, or none is left to move.
            (Head | Reading { asked: false } | Moving | Filling(_), Idle) => {
                still && self.held.is_none()
            }
            _ => false,
        };
        assert!(fits, "a lane can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    /// Returns whether the lane has no stripe.
    fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Returns whether the last records of the stripe have been sent and no chunk must be rebuilt.
    fn has_all_on_its_way(&self) -> bool {
        let sent = self.outstanding > 0 && self.cursor == self.valid.len();
        self.is_moving() && sent && !self.chunks.any_bad()
    }

    /// Returns whether the stripe has no valid record.
    pub(super) fn has_nothing(&self) -> bool {
        matches!(self.phase, Phase::Reading { asked: false }) && self.valid.is_empty()
    }

    /// Returns whether the records are being moved or wait for that.
    fn is_moving(&self) -> bool {
        matches!(self.phase, Phase::Moving)
    }

    /// Returns the slot of the stripe, if there is one.
    fn slot(&self) -> Option<u32> {
        (!self.is_idle()).then_some(self.at.slot)
    }

    /// Returns whether a chunk of the stripe must be rebuilt.
    pub(crate) fn has_bad_chunk(&self) -> bool {
        self.chunks.any_bad()
    }
}

impl Lane {
    /// Takes the stripe at `at` and returns the buffer for its head.
    fn begin(&mut self, at: At) -> MetaBuf {
        self.go(Phase::Head);
        self.renew(at);
        self.head.take().expect("the buffer of the head is present")
    }

    /// Resets the state for the stripe at `at`.
    fn renew(&mut self, at: At) {
        self.at = at;
        self.valid.clear();
        (self.was_head_rebuilt, self.sum, self.chunks) = (false, Sum::Nothing, Chunks::default());
    }

    /// Returns the buffer of the head to the lane; `well` is false if reading or rebuilding it
    /// failed.
    pub(super) fn has_head(&mut self, buf: MetaBuf, well: bool) {
        assert!(matches!(self.phase, Phase::Head), "an arriving head was requested");
        (self.head, self.head_is_well) = (Some(buf), well);
    }

    /// Returns the head if it is complete and not accepted yet, and whether it came without an
    /// error. Chunks that are read ahead of it must be complete too.
    pub(super) fn head(&self) -> Option<(&MetaBuf, bool)> {
        let here = matches!(self.phase, Phase::Head) && self.outstanding == 0;
        let head = self.head.as_ref().filter(|_| here)?;
        Some((head, self.head_is_well))
    }

    /// Returns whether the head was rebuilt when its stripe was the next one.
    pub(super) fn was_head_rebuilt(&self) -> bool {
        self.was_head_rebuilt
    }

    /// Takes the buffer of the head so that it can be rebuilt from the other chunks.
    pub(super) fn take_head(&mut self) -> MetaBuf {
        assert!(!self.was_head_rebuilt, "the step runs once");
        self.was_head_rebuilt = true;
        self.head.take().expect("the buffer of the head is present")
    }

    /// Accepts the head and starts to look up the entries of the stripe.
    fn sift_from(&mut self, head: &Head, placement: ChunkPlacement) {
        assert!(self.head().is_some(), "the valid head was read");
        (self.seq, self.entries) = (head.seq, head.entries);
        self.chunks = Chunks::new(u32::from(head.chunks).min(placement.width()));
        self.go(Phase::Sifting(0));
    }

    /// Ends the stripe. Returns the bytes of its valid records, plus the size of the stripe if it
    /// was resilvered.
    fn end(&mut self, mapping: &mut Mapping) -> u64 {
        self.end_keep(mapping);
        let filled = match self.phase {
            Phase::Filling(fill) => u64::from(fill.sectors() * self.chunks.count()) * SECTOR as u64,
            _ => 0,
        };
        self.go(Phase::Idle);
        filled + self.valid.iter().map(|valid| u64::from(valid.place.len())).sum::<u64>()
    }

    /// Performs the next step with the chunks of the stripe, except moves of records.
    fn pump(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        match self.phase {
            Phase::Reading { asked: false } => self.read_chunks(media, cx),
            Phase::Rebuilding(job) => self.pump_rebuild(job, media, cx),
            Phase::Filling(fill) => self.pump_fill(fill, media, mapping, cx),
            _ => false,
        }
    }

    /// Reads the chunks that contain valid records. If a chunk is known to be missing, the chunks
    /// and the parity that it is rebuilt from are read at once.
    fn read_chunks(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.outputs_left() < ROOM || cx.commands_left() < COMMANDS {
            return false;
        }
        self.go(Phase::Reading { asked: true });
        let placement = media.devices.placement(self.at.segment);
        let missing = self.missing_range(placement, media);
        for chunk in 0..placement.width() as u8 {
            let all = missing.filter(|_| u32::from(chunk) < self.chunks.count());
            if let Some(range) = union(self.valid_range(chunk), all) {
                self.read_chunk(chunk, range, media, cx);
            }
        }
        let absent = media.devices.devices_with_missing(self.at.segment);
        let here = |which: &u8| {
            !absent.contains(placement.parity_device(self.at.segment, self.at.slot, *which))
        };
        if let (Some(range), Some(which)) = (missing, (0..placement.parity()).find(here)) {
            self.read_parity((which, range), media, cx);
        }
        true
    }

    /// Returns the sectors with valid records of a missing chunk that can be rebuilt.
    fn missing_range(&self, placement: ChunkPlacement, media: &Media) -> Option<(u32, u32)> {
        let At { segment, slot, .. } = self.at;
        if self.layout.parity == 0 || !media.devices.is_missing_a_chunk(segment) {
            return None;
        }
        let device = |chunk: &u8| placement.device(segment, slot, (*chunk).into());
        let missing = |chunk: &u8| media.devices.is_missing_on(segment, device(chunk));
        (0..self.chunks.count() as u8).find(missing).and_then(|chunk| self.valid_range(chunk))
    }

    /// Reads `sectors` sectors of a chunk, starting at sector `from`.
    fn read_chunk(
        &mut self,
        chunk: u8,
        (from, sectors): (u32, u32),
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let At { segment, slot, .. } = self.at;
        let device = media.devices.placement(segment).device(segment, slot, chunk.into());
        let buffer = Buffer::Gc(self.number, chunk);
        let into = Target::Data(media.buffers.at(buffer).view_mut_sectors(from, sectors));
        let lba = self.layout.lba(self.at) + u64::from(from);
        self.chunks.is_read(chunk, (from, sectors));
        self.outstanding += 1;
        let op = Op::GcRead { lane: self.number, chunk };
        media.devices.submit(op, Command::Read { device, lba, into, cause: Cause::Gc }, cx);
    }

    /// Returns the range of sectors of a chunk that contains valid records: the first and their
    /// number.
    fn valid_range(&self, chunk: u8) -> Option<(u32, u32)> {
        let valid = || self.valid.iter().filter(|valid| valid.chunk == chunk);
        let first = valid().map(|valid| valid.byte).min()?;
        let end = valid().map(|valid| valid.byte + valid.place.len()).max().unwrap_or(first);
        let from = first / SECTOR as u32;
        Some((from, end.div_ceil(SECTOR as u32) - from))
    }

    /// Processes the completed read of a chunk.
    fn read_done(&mut self, chunk: u8, command: Command, result: Ended, media: &mut Media) {
        let Command::Read { into: Target::Data(view), .. } = command else {
            unreachable!("a completed chunk")
        };
        media.buffers.at(Buffer::Gc(self.number, chunk)).repay_mut(view);
        self.outstanding -= 1;
        if result.is_err() {
            self.chunks.is_not_here(chunk);
        }
        // During a rebuild the unreadable chunk is left out of the sum, if another combination
        // exists.
        if let Phase::Rebuilding(job) = self.phase {
            return self.rebuild_read_done(job, result.is_err().then_some(Chunk::Data(chunk)));
        }
        if let Err(error) = result {
            // Only a media error is a fault of the medium; a lost device or a timeout is not.
            if error == DeviceError::Media {
                self.chunks.blame(chunk);
            }
            self.distrust(chunk);
        }
        self.move_when_read();
    }

    /// Starts to move records when all reads are complete.
    fn move_when_read(&mut self) {
        if self.outstanding == 0 {
            self.cursor = 0;
            self.go(Phase::Moving);
        }
    }

    /// Marks all valid records of a chunk as unusable until the chunk is rebuilt.
    fn distrust(&mut self, chunk: u8) {
        let valid = self.valid.iter_mut().filter(|valid| valid.chunk == chunk);
        let mut any = false;
        valid.for_each(|valid| (valid.state, any) = (Checked::Bad, true));
        if any {
            self.chunks.distrust(chunk);
        }
    }
}

/// Returns the shortest range of sectors, as first and number, that contains both.
fn union(one: Option<(u32, u32)>, other: Option<(u32, u32)>) -> Option<(u32, u32)> {
    let (Some((from, sectors)), Some((begin, more))) = (one, other) else { return one.or(other) };
    let first = from.min(begin);
    Some((first, (from + sectors).max(begin + more) - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_union_of_ranges_includes_the_gap() {
        assert_eq!(union(Some((8, 4)), Some((16, 8))), Some((8, 16)));
        assert_eq!(union(Some((8, 40)), Some((16, 8))), Some((8, 40)));
        assert_eq!(union(None, Some((16, 8))), Some((16, 8)));
        assert_eq!(union(None, None), None);
    }

    #[test]
    #[should_panic(expected = " to Moving")]
    fn blocks_are_read_before_they_move() {
        let mut it = Lane::new(0, &Layout::example(3));
        let buf = it.begin(At::default());
        it.has_head(buf, false);
        it.go(Phase::Moving);
    }

    #[test]
    fn an_idle_lane_is_reused() {
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

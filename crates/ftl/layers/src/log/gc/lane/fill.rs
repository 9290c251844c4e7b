//! Writes the missing chunk of a stripe to a device that joined later. The chunk is rebuilt from
//! the others, all records of the stripe are verified, and it is written to its own place.
//!
//! Invariant: no chunk of a damaged stripe is written. Damage is an invalid head, a wrong record,
//! or an inconsistent second parity ([`parity_check`](super::parity_check)).

use hostftl_core::{Cause, Command, Gather, Piece, Tally};
use hostftl_format::log::{self, Entry, Head};

use super::parity_check::ParityCheck;
use super::rebuild::{ChunkRebuild, Sum};
use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::gc::lane::{Lane, Phase, ROOM};
use crate::log::layout::At;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, OWN_OPS, Op, count_sent};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};
use crate::log::stripe::records::Record;
use crate::planted::{Bug, planted};

/// Records of a stripe that are verified at once.
const CHECKS: u32 = 16;

/// The chunk of a stripe that a device receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fill {
    /// The chunk; `None` when the stripe has none on the device.
    chunk: Option<Chunk>,
    /// Sectors per chunk.
    sectors: u32,
    /// The parity that was not used for the rebuild and must be consistent.
    other: Option<u8>,
    stage: Stage,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Verify records from entry `next` on; `well` is true if all were correct so far.
    Check { next: u32, well: bool },
    /// Check the other parity.
    Parity(ParityCheck),
    /// Write the chunk; `asked` is true while the write is in flight.
    Write { asked: bool },
    /// The chunk is written, or that failed.
    Over { well: bool },
}

impl Fill {
    /// Creates the state for a rebuilt chunk; the records of the stripe are verified next.
    fn made(rebuild: &Rebuild, sectors: u32) -> Self {
        let (chunk, other) = (Some(rebuild.wanted()), rebuild.other_parity());
        Fill { chunk, sectors, other, stage: Stage::Check { next: 0, well: true } }
    }

    /// Returns the sectors per chunk.
    pub(super) fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Returns whether the chunk was written, once the work is complete.
    pub(super) fn over(&self) -> Option<bool> {
        if let Stage::Over { well } = self.stage { Some(well) } else { None }
    }

    fn with(self, stage: Stage) -> Phase {
        Phase::Filling(Fill { stage, ..self })
    }

    /// Returns the step after the records have been verified. `lane` is the number of the lane, and
    /// `chunks` the number of data chunks of its stripe.
    fn checked(self, well: bool, (lane, chunks): (u8, u32)) -> Stage {
        match self.chunk.zip(self.other) {
            // A chunk rebuilt from damaged data must not be written.
            _ if !well => Stage::Over { well },
            Some((made, parity)) => {
                Stage::Parity(ParityCheck::new(lane, made, parity, (chunks, self.sectors)))
            }
            None => Stage::Write { asked: false },
        }
    }
}

impl Lane {
    /// Accepts the head of a stripe whose chunk a device receives.
    pub(super) fn fill_from(&mut self, head: &Head, device: u8, media: &Media) {
        assert!(self.head().is_some(), "the valid head was read");
        let At { segment, slot, .. } = self.at;
        let placement = media.devices.placement(segment);
        let chunks = u32::from(head.chunks).min(placement.width());
        (self.seq, self.entries) = (head.seq, head.entries);
        self.chunks = self.chunks.with_count(chunks);
        // Several chunks with parity are all written in full; a single one may be shorter.
        let sectors = if chunks > 1 { self.layout.chunk } else { head.first_sectors };
        // A short stripe has no data on some members.
        let has = |it: &Chunk| !matches!(it, Chunk::Data(chunk) if u32::from(*chunk) >= chunks);
        let chunk = Chunk::on(device, placement, (segment, slot)).filter(has);
        let missing = media.devices.devices_with_missing(segment);
        let rebuild = |it| Rebuild::new(placement, (segment, slot), it, chunks, missing);
        let made = match core::mem::take(&mut self.sum) {
            // The speculative rebuild assumed a stripe of full width.
            Sum::Made(made) if chunks == placement.width() => Some(made),
            _ => None,
        };
        let over = |well| {
            Phase::Filling(Fill { chunk, sectors, other: None, stage: Stage::Over { well } })
        };
        self.go(match chunk.map(rebuild) {
            // The head on its device is wrong.
            _ if self.was_head_rebuilt() => over(false),
            None => over(true),
            Some(None) => over(false),
            Some(Some(_)) if made.is_some() => {
                Phase::Filling(Fill::made(&made.expect("the chunk was rebuilt"), sectors))
            }
            Some(Some(rebuild)) => {
                Phase::Rebuilding(ChunkRebuild::for_device((0, sectors), rebuild))
            }
        });
    }

    /// Starts to verify the records of the stripe, or ends the work if the rebuild failed.
    pub(super) fn fill_made(&mut self, rebuild: &Rebuild, sectors: u32, well: bool) {
        let fill = Fill::made(rebuild, sectors);
        self.go(if well { Phase::Filling(fill) } else { fill.with(Stage::Over { well }) });
    }

    /// Performs the next step after the rebuild.
    pub(super) fn pump_fill(
        &mut self,
        fill: Fill,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        match fill.stage {
            Stage::Check { next, well } if next == self.entries => {
                let over = self.outstanding == 0;
                if over {
                    self.go(fill.with(fill.checked(well, (self.number, self.chunks.count()))));
                }
                over
            }
            Stage::Check { next, well } => self.check_some(fill, (next, well), media, mapping, cx),
            Stage::Parity(check) => self.ask_other((fill, check), media, cx),
            Stage::Write { asked: false } => self.write_chunk(fill, media, cx),
            Stage::Write { asked: true } | Stage::Over { .. } => false,
        }
    }

    /// Returns the buffer with the bytes of a chunk of the stripe.
    fn chunk_buffer(&self, chunk: u8, fill: &Fill) -> Buffer {
        // The rebuilt chunk is verified as well, from the sum buffer.
        if fill.chunk == Some(Chunk::Data(chunk)) {
            Buffer::GcSum(self.number)
        } else {
            Buffer::Gc(self.number, chunk)
        }
    }

    fn record_to_check(&self, entry: &Entry, media: &Media, mapping: &Mapping) -> Option<Record> {
        let placement = media.devices.placement(self.at.segment);
        let page_seed = mapping.checkpoint.page_seed();
        let record = Record::new(entry, (&self.layout, self.at, placement), page_seed)?;
        (u32::from(record.chunk()) < self.chunks.count()).then_some(record)
    }

    fn check_some(
        &mut self,
        fill: Fill,
        (from, well): (u32, bool),
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let head = self.head.take().expect("the buffer of the head is present");
        let mut next = from;
        while next < self.entries
            && self.outstanding < CHECKS
            && cx.outputs_left() >= ROOM
            && cx.commands_left() > OWN_OPS / 2
        {
            let entry = log::entry(&head, next);
            if let Some(record) =
                entry.and_then(|entry| self.record_to_check(&entry, media, mapping))
            {
                let buffer = self.chunk_buffer(record.chunk(), &fill);
                let command = record.digest(media.buffers.at(buffer));
                let op = Op::GcCheck { lane: self.number, entry: next as u16 };
                self.outstanding += 1;
                media.devices.submit(op, command, cx);
            }
            next += 1;
        }
        self.head = Some(head);
        self.go(fill.with(Stage::Check { next, well }));
        next > from
    }

    /// Processes the completed check of a record.
    pub(super) fn check_done(
        &mut self,
        entry: u16,
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        let (Command::Digest { from, .. }, Phase::Filling(fill)) = (command, self.phase) else {
            unreachable!("records belong to a filled stripe")
        };
        let Stage::Check { next, well } = fill.stage else {
            unreachable!("unexpected check of a record: {fill:?}")
        };
        media.buffers.repay_gc(self.number, from);
        self.outstanding -= 1;
        let head = self.head.as_ref().expect("the buffer of the head is present");
        let listed = log::entry(head, entry.into()).expect("the chunk was read").crc;
        let right = result.expect("a checksum in memory succeeds").crc == listed;
        self.go(fill.with(Stage::Check { next, well: well && right }));
    }

    /// Performs the next step of the check of the other parity.
    fn ask_other(
        &mut self,
        (fill, mut check): (Fill, ParityCheck),
        media: &mut Media,
        cx: &mut Cx,
    ) -> bool {
        if let Some(well) = check.verdict() {
            let write = Stage::Write { asked: false };
            self.go(fill.with(if well { write } else { Stage::Over { well } }));
            return true;
        }
        if cx.outputs_left() < ROOM || cx.commands_left() == 0 {
            return false;
        }
        let At { segment, slot, .. } = self.at;
        let device = media.devices.placement(segment).parity_device(segment, slot, check.parity());
        let place = (device, self.layout.lba(self.at));
        let Some(command) = check.next(place, &mut media.buffers) else { return false };
        self.outstanding += 1;
        self.go(fill.with(Stage::Parity(check)));
        media.devices.submit(Op::GcSecond { lane: self.number }, command, cx);
        true
    }

    /// Processes a completed command of the check of the other parity.
    pub(super) fn other_done(
        &mut self,
        fill: Fill,
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        let Stage::Parity(mut check) = fill.stage else {
            unreachable!("unexpected completion: {fill:?}")
        };
        check.done(command, result, &mut media.buffers);
        self.outstanding -= 1;
        self.go(fill.with(Stage::Parity(check)));
    }

    fn write_chunk(&mut self, fill: Fill, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.outputs_left() < ROOM || cx.commands_left() == 0 {
            return false;
        }
        if planted(Bug::FilledUnwritten) {
            self.go(fill.with(Stage::Over { well: true }));
            return true;
        }
        let view = media.buffers.at(Buffer::GcSum(self.number)).view_sectors(0, fill.sectors);
        let gather = Gather::from_iter([Piece::Data(view)]);
        let chunk = fill.chunk.expect("data is pending");
        let cause = if matches!(chunk, Chunk::Parity(_)) { Cause::Parity } else { Cause::Gc };
        let tally = Tally::single(cause, fill.sectors);
        count_sent(&tally, cx);
        let At { segment, slot, .. } = self.at;
        let device = chunk.device(media.devices.placement(segment), (segment, slot));
        let lba = self.layout.lba(self.at);
        let command = Command::Program { device, lba, gather, tally, placement: 0 };
        self.outstanding += 1;
        self.go(fill.with(Stage::Write { asked: true }));
        media.devices.submit(Op::GcFill { lane: self.number }, command, cx);
        true
    }

    /// Processes the completed write of the chunk. An abandoned command may have been replaced by
    /// another.
    pub(super) fn fill_done(&mut self, command: Command, result: Ended, media: &mut Media) {
        let Phase::Filling(fill) = self.phase else { unreachable!("a chunk was written") };
        assert!(fill.stage == Stage::Write { asked: true }, "unexpected completion: {fill:?}");
        if let Command::Program { gather, .. } = command {
            for piece in gather {
                if let Piece::Data(view) = piece {
                    media.buffers.at(Buffer::GcSum(self.number)).repay(view);
                }
            }
        }
        self.outstanding -= 1;
        // After a failed write the device does not count as having the chunk.
        self.go(fill.with(Stage::Over { well: result.is_ok() }));
    }
}

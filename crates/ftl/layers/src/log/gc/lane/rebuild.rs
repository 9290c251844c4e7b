//! Rebuilds a chunk of the victim's stripe from parity: reads the chunks that are not in memory,
//! then folds all of them. If the result is wrong or a chunk is unreadable, another combination is
//! tried if there is one.
//!
//! Invariant: the sum has its own buffer. The chunks that were read stay unchanged, because they
//! are needed if another of them turns out to be damaged.

use hostftl_core::{ArrayVec, Cause, Command, Factors, MAX_PIECES, Payload, Target, View};

use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::gc::lane::{COMMANDS, Checked, Lane, Live, Phase, ROOM};
use crate::log::layout::At;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};

/// Progress of the rebuild of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mend {
    /// First sector of the chunk to rebuild, and the number of sectors.
    range: (u32, u32),
    purpose: Purpose,
    /// The chunks that are not in the sum yet.
    rebuild: Rebuild,
    stage: Stage,
}

/// The purpose of the rebuilt chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Move the records of this data chunk.
    Move(u8),
    /// Write the chunk to a device.
    Device,
    /// Write the chunk to a device if the stripe has the usual length; see [`ahead`](super::ahead).
    Ahead,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Read the chunks of the sum.
    Read,
    /// The reads are in flight; `failed` has a bit for the place of each unreadable chunk.
    Reading { failed: u32 },
    /// Fold the next chunks; `asked` is true while the command is in flight.
    Fold { asked: bool },
    /// Obtain the head from the chunks that were read or rebuilt; `made` is false if the rebuild
    /// failed.
    Head { made: bool },
}

/// The contents of the sum buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sum {
    /// Nothing that is needed later.
    #[default]
    Nothing,
    /// A parity as it was read: its number, the first sector, and the number of sectors.
    Parity(u8, (u32, u32)),
    /// The chunk of a device, rebuilt before the head of its stripe was known.
    Made(Rebuild),
}

impl Mend {
    /// Creates the rebuild of a range of a chunk for a device.
    pub(super) fn for_device(range: (u32, u32), rebuild: Rebuild) -> Self {
        Mend { range, purpose: Purpose::Device, rebuild, stage: Stage::Read }
    }

    /// Returns how to rebuild the chunk without the failed ones. A device receives no chunk of a
    /// stripe with unreadable chunks.
    fn without_all(&self, failed: u32) -> Option<Rebuild> {
        match self.purpose {
            Purpose::Move(_) => self.rebuild.without_all(failed),
            Purpose::Device | Purpose::Ahead => None,
        }
    }

    /// Creates the rebuild of a whole chunk before the head of its stripe is known.
    pub(super) fn ahead(sectors: u32, rebuild: Rebuild) -> Self {
        Mend { purpose: Purpose::Ahead, ..Self::for_device((0, sectors), rebuild) }
    }
}

impl Lane {
    /// Starts to rebuild the next bad chunk when the stripe has no other work left.
    pub(super) fn mend_next(&mut self, media: &mut Media) -> bool {
        if self.outstanding > 0 || self.cursor < self.live.len() {
            return false;
        }
        let Some((chunk, way)) = self.chunks.begin_rebuild() else { return false };
        let range = self.live_range(chunk).expect("the stripe has valid records");
        let At { segment, slot, .. } = self.at;
        let (stripe, chunks) = (media.devices.stripe(segment), self.chunks.count());
        let missing = media.devices.missing_of(segment);
        let wanted = Chunk::Data(chunk);
        let first = || Rebuild::new(stripe, (segment, slot), wanted, chunks, missing);
        match way.or_else(first) {
            Some(rebuild) => {
                let purpose = Purpose::Move(chunk);
                self.go(Phase::Mending(Mend { range, purpose, rebuild, stage: Stage::Read }));
            }
            None => self.check_again(chunk, false),
        }
        true
    }

    /// Performs the next step of a rebuild.
    pub(super) fn pump_mend(&mut self, mend: Mend, media: &mut Media, cx: &mut Cx) -> bool {
        match mend.stage {
            Stage::Read => self.read_others(mend, media, cx),
            Stage::Fold { asked: false } => self.fold_others(mend, media, cx),
            Stage::Head { made } => self.ask_head(made.then_some(mend.rebuild), media, cx),
            Stage::Reading { .. } | Stage::Fold { asked: true } => false,
        }
    }

    /// Reads the chunks of the sum that are not in memory. The first parity is read into the sum
    /// buffer, and the other chunks into their own.
    fn read_others(&mut self, mend: Mend, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.room() < ROOM || cx.command_room() < COMMANDS {
            return false;
        }
        let mut rebuild = mend.rebuild;
        while let (Some(chunk), Some(device)) = (rebuild.next(), rebuild.next_device()) {
            match chunk {
                // Folding overwrites the sum buffer, so the parity in it cannot be used again.
                Chunk::Parity(which)
                    if core::mem::take(&mut self.sum) == Sum::Parity(which, mend.range) => {}
                Chunk::Parity(_) => {
                    let second = !rebuild.is_begin();
                    self.send_parity(second, device, mend.range, media, cx);
                }
                Chunk::Data(chunk) if !self.chunks.has(chunk, mend.range) => {
                    self.read_chunk(chunk, mend.range, media, cx);
                }
                Chunk::Data(_) => {}
            }
            rebuild = rebuild.fold();
        }
        let mend = Mend { stage: Stage::Reading { failed: 0 }, ..mend };
        self.go(Phase::Mending(mend));
        if self.outstanding == 0 {
            self.mend_read(mend, None);
        }
        true
    }

    /// Reads sectors of a parity before all of the data chunks are known to be readable.
    pub(super) fn read_parity(
        &mut self,
        (which, range): (u8, (u32, u32)),
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let At { segment, slot, .. } = self.at;
        let device = media.devices.stripe(segment).parity_device(segment, slot, which);
        self.sum = Sum::Parity(which, range);
        self.send_parity(false, device, range, media, cx);
    }

    /// Reads the parity with which the sum begins, or the second one.
    fn send_parity(
        &mut self,
        second: bool,
        device: u8,
        (from, sectors): (u32, u32),
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let lane = self.number;
        let (op, buffer) = if second {
            (Op::GcSecond { lane }, Buffer::GcSecond(lane))
        } else {
            (Op::GcSum { lane }, Buffer::GcSum(lane))
        };
        let into = Target::Data(media.buffers.at(buffer).view_mut_sectors(from, sectors));
        let lba = self.layout.lba(self.at) + u64::from(from);
        let command = Command::Read { device, lba, into, cause: Cause::Gc };
        self.outstanding += 1;
        media.devices.submit(op, command, cx);
    }

    /// Processes the completed read of a chunk of the sum; `failed` is the chunk if it is
    /// unreadable.
    pub(super) fn mend_read(&mut self, mend: Mend, failed: Option<Chunk>) {
        let Stage::Reading { failed: before } = mend.stage else {
            unreachable!("no read is pending: {mend:?}")
        };
        let failed = before | failed.map_or(0, |chunk| 1 << chunk.place());
        match (self.outstanding == 0, failed) {
            (false, _) => {
                self.go(Phase::Mending(Mend { stage: Stage::Reading { failed }, ..mend }));
            }
            (true, 0) => {
                // A sum that begins with parity is already in the sum buffer.
                let begun = matches!(mend.rebuild.next(), Some(Chunk::Parity(_)));
                let rebuild = if begun { mend.rebuild.fold() } else { mend.rebuild };
                let stage = Stage::Fold { asked: false };
                self.go(Phase::Mending(Mend { rebuild, stage, ..mend }));
            }
            (true, failed) => match mend.without_all(failed) {
                Some(rebuild) => {
                    self.go(Phase::Mending(Mend { rebuild, stage: Stage::Read, ..mend }));
                }
                None => self.mend_over(mend, false),
            },
        }
    }

    /// Folds the next chunks into the sum. When none is left, the sum is the rebuilt chunk.
    fn fold_others(&mut self, mut mend: Mend, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.command_room() == 0 {
            return false;
        }
        let (first, sectors) = mend.range;
        let (mut from, mut factors) = (ArrayVec::<View, MAX_PIECES>::new(), Factors::ADD);
        while let Some(chunk) = mend.rebuild.next().filter(|_| from.len() < MAX_PIECES) {
            let buffer = match chunk {
                Chunk::Data(chunk) => Buffer::Gc(self.number, chunk),
                Chunk::Parity(_) => Buffer::GcSecond(self.number),
            };
            let (factor, old) = mend.rebuild.factors();
            factors.new[from.len()] = factor;
            factors.old = if from.is_empty() { old } else { factors.old };
            from.push(media.buffers.at(buffer).view_sectors(first, sectors));
            mend.rebuild = mend.rebuild.fold();
        }
        if from.is_empty() {
            self.mend_over(mend, true);
            media.gauges.repaired += u64::from(matches!(mend.purpose, Purpose::Move(_)));
            return true;
        }
        let into = self.sum(media).view_mut_sectors(first, sectors);
        self.outstanding += 1;
        self.go(Phase::Mending(Mend { stage: Stage::Fold { asked: true }, ..mend }));
        let op = Op::GcSum { lane: self.number };
        media.devices.submit(op, Command::Fold { from, into, factors }, cx);
        true
    }

    /// Ends a rebuild.
    fn mend_over(&mut self, mend: Mend, well: bool) {
        match mend.purpose {
            Purpose::Move(chunk) => {
                let other = mend.rebuild.again().filter(|_| well);
                self.chunks.was_rebuilt(chunk, other);
                self.check_again(chunk, well);
                self.go(Phase::Moving);
            }
            Purpose::Device => self.fill_made(&mend.rebuild, mend.range.1, well),
            Purpose::Ahead => {
                self.go(Phase::Mending(Mend { stage: Stage::Head { made: well }, ..mend }));
            }
        }
    }

    /// Processes a completed command on the buffer of the second parity.
    pub(super) fn second_done(&mut self, command: Command, result: Ended, media: &mut Media) {
        match (command, self.phase) {
            (Command::Read { into: Target::Data(view), .. }, Phase::Mending(mend)) => {
                self.outstanding -= 1;
                media.buffers.at(Buffer::GcSecond(self.number)).repay_mut(view);
                self.mend_read(mend, result.is_err().then_some(Chunk::Parity(1)));
            }
            (command, Phase::Filling(fill)) => self.other_done(fill, command, result, media),
            (other, phase) => unreachable!("{other:?} does not belong to {phase:?}"),
        }
    }

    /// Processes a completed command on the sum buffer: a read of parity, or a fold.
    pub(super) fn sum_done(&mut self, command: Command, result: Ended, media: &mut Media) {
        self.outstanding -= 1;
        match (command, self.phase) {
            (Command::Read { into: Target::Data(view), .. }, Phase::Mending(mend)) => {
                self.sum(media).repay_mut(view);
                let first = mend.rebuild.next();
                self.mend_read(mend, first.filter(|_| result.is_err()));
            }
            (Command::Read { into: Target::Data(view), .. }, Phase::Reading { asked: true }) => {
                self.sum(media).repay_mut(view);
                if result.is_err() {
                    self.sum = Sum::Nothing;
                }
                self.move_when_read();
            }
            (Command::Fold { from, into, .. }, Phase::Mending(mend)) => {
                for view in from {
                    media.buffers.repay_gc(self.number, view);
                }
                self.sum(media).repay_mut(into);
                self.go(Phase::Mending(Mend { stage: Stage::Fold { asked: false }, ..mend }));
            }
            (other, phase) => unreachable!("{other:?} rebuilds no chunk in {phase:?}"),
        }
    }

    fn sum<'a>(&self, media: &'a mut Media) -> &'a mut Payload {
        media.buffers.at(Buffer::GcSum(self.number))
    }

    /// Resets the records of a chunk after its rebuild: they are checked again, or lost if it
    /// failed.
    fn check_again(&mut self, chunk: u8, well: bool) {
        let bad = |live: &&mut Live| live.chunk == chunk && live.state == Checked::Bad;
        let state = if well { Checked::No } else { Checked::Gone };
        self.live.iter_mut().filter(bad).for_each(|live| live.state = state);
        // The records of the chunk may precede the cursor.
        self.cursor = 0;
    }
}

//! Rebuilds a chunk of the victim's stripe from parity: reads the chunks that are not in memory,
//! then folds all of them. If the result is wrong or a chunk is unreadable, another combination is
//! tried if there is one.
//!
//! Invariant: the sum has its own buffer. The chunks that were read stay unchanged, because they
//! are needed if another of them turns out to be damaged.

use hostftl_core::{ArrayVec, Cause, Command, Factors, MAX_PIECES, Payload, Target, View};

use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::gc::lane::{COMMANDS, Checked, Lane, Phase, ROOM, ValidRecord};
use crate::log::layout::At;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};

/// Progress of the rebuild of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkRebuild {
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

impl ChunkRebuild {
    /// Creates the rebuild of a range of a chunk for a device.
    pub(super) fn for_device(range: (u32, u32), rebuild: Rebuild) -> Self {
        ChunkRebuild { range, purpose: Purpose::Device, rebuild, stage: Stage::Read }
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
        ChunkRebuild { purpose: Purpose::Ahead, ..Self::for_device((0, sectors), rebuild) }
    }
}

impl Lane {
    /// Starts to rebuild the next bad chunk when the stripe has no other work left.
    pub(super) fn rebuild_next(&mut self, media: &mut Media) -> bool {
        if self.outstanding > 0 || self.cursor < self.valid.len() {
            return false;
        }
        let Some((chunk, way)) = self.chunks.begin_rebuild() else { return false };
        let range = self.valid_range(chunk).expect("the stripe has valid records");
        let At { segment, slot, .. } = self.at;
        let (placement, chunks) = (media.devices.placement(segment), self.chunks.count());
        let missing = media.devices.devices_with_missing(segment);
        let wanted = Chunk::Data(chunk);
        let first = || Rebuild::new(placement, (segment, slot), wanted, chunks, missing);
        match way.or_else(first) {
            Some(rebuild) => {
                let purpose = Purpose::Move(chunk);
                self.go(Phase::Rebuilding(ChunkRebuild {
                    range,
                    purpose,
                    rebuild,
                    stage: Stage::Read,
                }));
            }
            // No combination of sources is left, so the records of the chunk are lost.
            None => self.check_again(chunk, false),
        }
        true
    }

    /// Performs the next step of a rebuild.
    pub(super) fn pump_rebuild(
        &mut self,
        job: ChunkRebuild,
        media: &mut Media,
        cx: &mut Cx,
    ) -> bool {
        match job.stage {
            Stage::Read => self.read_others(job, media, cx),
            Stage::Fold { asked: false } => self.fold_others(job, media, cx),
            Stage::Head { made } => self.ask_head(made.then_some(job.rebuild), media, cx),
            Stage::Reading { .. } | Stage::Fold { asked: true } => false,
        }
    }

    /// Reads the chunks of the sum that are not in memory. The first parity is read into the sum
    /// buffer, and the other chunks into their own.
    fn read_others(&mut self, job: ChunkRebuild, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.outputs_left() < ROOM || cx.commands_left() < COMMANDS {
            return false;
        }
        let mut rebuild = job.rebuild;
        while let (Some(chunk), Some(device)) = (rebuild.next(), rebuild.next_device()) {
            match chunk {
                // Folding overwrites the sum buffer, so the parity in it cannot be used again.
                Chunk::Parity(which)
                    if core::mem::take(&mut self.sum) == Sum::Parity(which, job.range) => {}
                Chunk::Parity(_) => {
                    let second = !rebuild.is_begin();
                    self.send_parity(second, device, job.range, media, cx);
                }
                Chunk::Data(chunk) if !self.chunks.has(chunk, job.range) => {
                    self.read_chunk(chunk, job.range, media, cx);
                }
                Chunk::Data(_) => {}
            }
            // Here this only advances to the next source; nothing is computed yet.
            rebuild = rebuild.fold();
        }
        let job = ChunkRebuild { stage: Stage::Reading { failed: 0 }, ..job };
        self.go(Phase::Rebuilding(job));
        // All sources were in memory already.
        if self.outstanding == 0 {
            self.rebuild_read_done(job, None);
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
        let device = media.devices.placement(segment).parity_device(segment, slot, which);
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
    pub(super) fn rebuild_read_done(&mut self, job: ChunkRebuild, failed: Option<Chunk>) {
        let Stage::Reading { failed: before } = job.stage else {
            unreachable!("no read is pending: {job:?}")
        };
        let failed = before | failed.map_or(0, |chunk| 1 << chunk.place());
        match (self.outstanding == 0, failed) {
            (false, _) => {
                self.go(Phase::Rebuilding(ChunkRebuild {
                    stage: Stage::Reading { failed },
                    ..job
                }));
            }
            (true, 0) => {
                // A sum that begins with parity is already in the sum buffer.
                let begun = matches!(job.rebuild.next(), Some(Chunk::Parity(_)));
                let rebuild = if begun { job.rebuild.fold() } else { job.rebuild };
                let stage = Stage::Fold { asked: false };
                self.go(Phase::Rebuilding(ChunkRebuild { rebuild, stage, ..job }));
            }
            (true, failed) => match job.without_all(failed) {
                Some(rebuild) => {
                    self.go(Phase::Rebuilding(ChunkRebuild { rebuild, stage: Stage::Read, ..job }));
                }
                None => self.end_rebuild(job, false),
            },
        }
    }

    /// Folds the next chunks into the sum. When none is left, the sum is the rebuilt chunk.
    fn fold_others(&mut self, mut job: ChunkRebuild, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.commands_left() == 0 {
            return false;
        }
        let (first, sectors) = job.range;
        let (mut from, mut factors) = (ArrayVec::<View, MAX_PIECES>::new(), Factors::ADD);
        while let Some(chunk) = job.rebuild.next().filter(|_| from.len() < MAX_PIECES) {
            let buffer = match chunk {
                Chunk::Data(chunk) => Buffer::Gc(self.number, chunk),
                Chunk::Parity(_) => Buffer::GcSecond(self.number),
            };
            let (factor, old) = job.rebuild.factors();
            factors.new[from.len()] = factor;
            factors.old = if from.is_empty() { old } else { factors.old };
            from.push(media.buffers.at(buffer).view_sectors(first, sectors));
            job.rebuild = job.rebuild.fold();
        }
        if from.is_empty() {
            self.end_rebuild(job, true);
            media.gauges.repaired += u64::from(matches!(job.purpose, Purpose::Move(_)));
            return true;
        }
        let into = self.sum(media).view_mut_sectors(first, sectors);
        self.outstanding += 1;
        self.go(Phase::Rebuilding(ChunkRebuild { stage: Stage::Fold { asked: true }, ..job }));
        let op = Op::GcSum { lane: self.number };
        media.devices.submit(op, Command::Fold { from, into, factors }, cx);
        true
    }

    /// Ends a rebuild.
    fn end_rebuild(&mut self, job: ChunkRebuild, well: bool) {
        match job.purpose {
            Purpose::Move(chunk) => {
                let other = job.rebuild.again().filter(|_| well);
                self.chunks.was_rebuilt(chunk, other);
                self.check_again(chunk, well);
                self.go(Phase::Moving);
            }
            Purpose::Device => self.fill_made(&job.rebuild, job.range.1, well),
            Purpose::Ahead => {
                self.go(Phase::Rebuilding(ChunkRebuild {
                    stage: Stage::Head { made: well },
                    ..job
                }));
            }
        }
    }

    /// Processes a completed command on the buffer of the second parity.
    pub(super) fn second_done(&mut self, command: Command, result: Ended, media: &mut Media) {
        match (command, self.phase) {
            (Command::Read { into: Target::Data(view), .. }, Phase::Rebuilding(job)) => {
                self.outstanding -= 1;
                media.buffers.at(Buffer::GcSecond(self.number)).repay_mut(view);
                self.rebuild_read_done(job, result.is_err().then_some(Chunk::Parity(1)));
            }
            (command, Phase::Filling(fill)) => self.other_done(fill, command, result, media),
            (other, phase) => unreachable!("{other:?} does not belong to {phase:?}"),
        }
    }

    /// Processes a completed command on the sum buffer: a read of parity, or a fold.
    pub(super) fn sum_done(&mut self, command: Command, result: Ended, media: &mut Media) {
        self.outstanding -= 1;
        match (command, self.phase) {
            (Command::Read { into: Target::Data(view), .. }, Phase::Rebuilding(job)) => {
                self.sum(media).repay_mut(view);
                let first = job.rebuild.next();
                self.rebuild_read_done(job, first.filter(|_| result.is_err()));
            }
            (Command::Read { into: Target::Data(view), .. }, Phase::Reading { asked: true }) => {
                self.sum(media).repay_mut(view);
                if result.is_err() {
                    self.sum = Sum::Nothing;
                }
                self.move_when_read();
            }
            (Command::Fold { from, into, .. }, Phase::Rebuilding(job)) => {
                for view in from {
                    media.buffers.repay_gc(self.number, view);
                }
                self.sum(media).repay_mut(into);
                self.go(Phase::Rebuilding(ChunkRebuild {
                    stage: Stage::Fold { asked: false },
                    ..job
                }));
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
        let bad = |valid: &&mut ValidRecord| valid.chunk == chunk && valid.state == Checked::Bad;
        let state = if well { Checked::No } else { Checked::Lost };
        self.valid.iter_mut().filter(bad).for_each(|valid| valid.state = state);
        // The records of the chunk may precede the cursor.
        self.cursor = 0;
    }
}

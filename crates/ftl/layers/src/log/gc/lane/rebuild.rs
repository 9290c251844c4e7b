//! Rebuilds a chunk of the victim's row from parity: what it is made from and is not here yet is
//! read at once, and then folded together. When what was made is wrong, or something that it is
//! made from can't be read, it is made in another way, if there is one.
//!
//! Invariant: the sum has a buffer of its own. What was read of the other chunks is what they are
//! made from when one of them turns out to be damaged too.

use hostftl_core::{ArrayVec, Cause, Command, Factors, MAX_PIECES, Payload, Target, View};

use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::gc::lane::{COMMANDS, Checked, Lane, Live, Phase, ROOM};
use crate::log::layout::At;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mend {
    /// The first sector of the chunk that is wanted, and how many.
    range: (u32, u32),
    purpose: Purpose,
    /// What is not in the sum yet.
    rebuild: Rebuild,
    stage: Stage,
}

/// What a chunk is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Records of this data chunk are moved.
    Move(u8),
    /// A device gets it.
    Device,
    /// A device gets it if the row is as long as nearly all are; see [`ahead`](super::ahead).
    Ahead,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What the sum is made of is to be read.
    Read,
    /// It is being read; what of it can't be, as a set of the bits of places.
    Reading { failed: u32 },
    /// The next chunks are to be folded in, or are being folded in.
    Fold { asked: bool },
    /// The head is to be had from what was read or made; whether the chunk was made.
    Head { made: bool },
}

/// What the buffer of the sum has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sum {
    /// Nothing that is of use later.
    #[default]
    Nothing,
    /// A parity as it was read: which, and of which sectors the first, and how many.
    Parity(u8, (u32, u32)),
    /// The chunk that a device gets, made before the head of its row was known.
    Made(Rebuild),
}

impl Mend {
    /// Makes sectors of a chunk for a device.
    pub(super) fn for_device(range: (u32, u32), rebuild: Rebuild) -> Self {
        Mend { range, purpose: Purpose::Device, rebuild, stage: Stage::Read }
    }

    /// How it is made without what can't be read. Of a row in which that is so no device gets
    /// anything.
    fn without_all(&self, failed: u32) -> Option<Rebuild> {
        match self.purpose {
            Purpose::Move(_) => self.rebuild.without_all(failed),
            Purpose::Device | Purpose::Ahead => None,
        }
    }

    /// Makes a whole chunk before the head of its row is known.
    pub(super) fn ahead(sectors: u32, rebuild: Rebuild) -> Self {
        Mend { purpose: Purpose::Ahead, ..Self::for_device((0, sectors), rebuild) }
    }
}

impl Lane {
    /// Begins to make a bad chunk from the others when nothing else can be done with the row.
    pub(super) fn mend_next(&mut self, media: &mut Media) -> bool {
        if self.outstanding > 0 || self.cursor < self.live.len() {
            return false;
        }
        let Some((chunk, way)) = self.chunks.begin_rebuild() else { return false };
        let range = self.live_range(chunk).expect("it has live records");
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

    /// The next step of making a chunk.
    pub(super) fn pump_mend(&mut self, mend: Mend, media: &mut Media, cx: &mut Cx) -> bool {
        match mend.stage {
            Stage::Read => self.read_others(mend, media, cx),
            Stage::Fold { asked: false } => self.fold_others(mend, media, cx),
            Stage::Head { made } => self.ask_head(made.then_some(mend.rebuild), media, cx),
            Stage::Reading { .. } | Stage::Fold { asked: true } => false,
        }
    }

    /// Reads what the chunk is made from and is not here. The first parity of the sum goes where
    /// the sum will be, the others where they are anyway.
    fn read_others(&mut self, mend: Mend, media: &mut Media, cx: &mut Cx) -> bool {
        if cx.room() < ROOM || cx.command_room() < COMMANDS {
            return false;
        }
        let mut rebuild = mend.rebuild;
        while let (Some(chunk), Some(device)) = (rebuild.next(), rebuild.next_device()) {
            match chunk {
                // Whatever is made from it, it is not parity after that.
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

    /// Reads sectors of a parity before it is known that all of the others can be read.
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

    /// Reads the parity with which the sum begins, or the second one beside that.
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

    /// Something that the chunk is made from was read, or a chunk that failed can't be.
    pub(super) fn mend_read(&mut self, mend: Mend, failed: Option<Chunk>) {
        let Stage::Reading { failed: before } = mend.stage else {
            unreachable!("nothing was read: {mend:?}")
        };
        let failed = before | failed.map_or(0, |chunk| 1 << chunk.place());
        match (self.outstanding == 0, failed) {
            (false, _) => {
                self.go(Phase::Mending(Mend { stage: Stage::Reading { failed }, ..mend }));
            }
            (true, 0) => {
                // A sum that begins with parity lies where that was read to.
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

    /// Folds the next chunks into the sum; when none is left, that is the chunk.
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

    /// The chunk is made, or can't be.
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

    /// The second parity was read, or something was done with what has to agree.
    pub(super) fn second_done(&mut self, command: Command, result: Ended, media: &mut Media) {
        match (command, self.phase) {
            (Command::Read { into: Target::Data(view), .. }, Phase::Mending(mend)) => {
                self.outstanding -= 1;
                media.buffers.at(Buffer::GcSecond(self.number)).repay_mut(view);
                self.mend_read(mend, result.is_err().then_some(Chunk::Parity(1)));
            }
            (command, Phase::Filling(fill)) => self.other_done(fill, command, result, media),
            (other, phase) => unreachable!("{other:?} is nothing of {phase:?}"),
        }
    }

    /// The parity was read with which the sum begins, or more is in the sum.
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
            (other, phase) => unreachable!("{other:?} makes no chunk in {phase:?}"),
        }
    }

    fn sum<'a>(&self, media: &'a mut Media) -> &'a mut Payload {
        media.buffers.at(Buffer::GcSum(self.number))
    }

    /// A chunk was made from the others, or could not be: its records are checked again.
    fn check_again(&mut self, chunk: u8, well: bool) {
        let bad = |live: &&mut Live| live.chunk == chunk && live.state == Checked::Bad;
        let state = if well { Checked::No } else { Checked::Gone };
        self.live.iter_mut().filter(bad).for_each(|live| live.state = state);
        self.cursor = 0;
    }
}

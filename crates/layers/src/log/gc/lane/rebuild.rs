//! Rebuilds a chunk of the victim's row from parity: what it is made from and is not here yet is
//! read at once, and then folded together.
//!
//! Invariant: the sum has a buffer of its own. What was read of the other chunks is what they are
//! made from when one of them turns out to be damaged too.

use hostftl_core::{Cause, Command, Few, MAX_PIECES, Payload, Target};

use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::gc::Needs;
use crate::log::gc::lane::{COMMANDS, Checked, Lane, Live, Phase, ROOM};
use crate::log::layout::At;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mend {
    /// The first sector of the chunk that is wanted, and how many.
    range: (u32, u32),
    chunk: u8,
    /// What is not in the sum yet.
    rebuild: Rebuild,
    stage: Stage,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What the sum is made of is to be read.
    Read,
    /// It is being read; whether all of it that came is well.
    Reading { well: bool },
    /// The next chunks are to be folded in, or are being folded in.
    Fold { asked: bool },
}

impl Lane {
    /// Begins to make a bad chunk from the others when nothing else can be done with the row.
    pub(super) fn mend_next(&mut self, with: &mut Needs) -> bool {
        if self.outstanding > 0 || self.cursor < self.live.len() {
            return false;
        }
        let Some(chunk) = self.chunks.begin_rebuild() else { return false };
        if !self.layout.parity {
            self.check_again(chunk, false);
            return true;
        }
        let range = self.live_range(chunk).expect("it has live records");
        let At { segment, slot, .. } = self.at;
        let (stripe, chunks) = (with.devices.stripe(segment), self.chunks.count());
        let rebuild = Rebuild::new(stripe, (segment, slot), Chunk::Data(chunk), chunks);
        self.go(Phase::Mending(Mend { range, chunk, rebuild, stage: Stage::Read }));
        true
    }

    /// The next step of making a chunk.
    pub(super) fn pump_mend(&mut self, mend: Mend, with: &mut Needs, cx: &mut Cx) -> bool {
        match mend.stage {
            Stage::Read => self.read_others(mend, with, cx),
            Stage::Fold { asked: false } => self.fold_others(mend, with, cx),
            Stage::Reading { .. } | Stage::Fold { asked: true } => false,
        }
    }

    /// Reads what the chunk is made from and is not here. The parity goes where the sum will be,
    /// the others where they are anyway.
    fn read_others(&mut self, mend: Mend, with: &mut Needs, cx: &mut Cx) -> bool {
        if cx.room() < ROOM || cx.command_room() < COMMANDS {
            return false;
        }
        let mut rebuild = mend.rebuild;
        while let (Some(chunk), Some(device)) = (rebuild.next(), rebuild.next_device()) {
            match chunk {
                // Whatever is made from it, it is not parity after that.
                Chunk::Parity if self.parity.take() == Some(mend.range) => {}
                Chunk::Parity => self.send_parity(device, mend.range, with, cx),
                Chunk::Data(chunk) if !self.chunks.has(chunk, mend.range) => {
                    self.read_chunk(chunk, mend.range, with, cx);
                }
                Chunk::Data(_) => {}
            }
            rebuild = rebuild.fold();
        }
        let mend = Mend { stage: Stage::Reading { well: true }, ..mend };
        self.go(Phase::Mending(mend));
        if self.outstanding == 0 {
            self.mend_read(mend, true);
        }
        true
    }

    /// Reads sectors of the parity before it is known that all of the others can be read.
    pub(super) fn read_parity(&mut self, range: (u32, u32), with: &mut Needs, cx: &mut Cx) {
        let At { segment, slot, .. } = self.at;
        let device = with.devices.stripe(segment).parity_device(segment, slot);
        self.parity = Some(range);
        self.send_parity(device, range, with, cx);
    }

    fn send_parity(
        &mut self,
        device: u8,
        (from, sectors): (u32, u32),
        with: &mut Needs,
        cx: &mut Cx,
    ) {
        let into = Target::Data(self.sum(with).view_mut_sectors(from, sectors));
        let lba = self.layout.lba(self.at) + u64::from(from);
        let command = Command::Read { device, lba, into, cause: Cause::Gc };
        self.outstanding += 1;
        with.devices.submit(Op::GcSum { lane: self.number }, command, cx);
    }

    /// Something that the chunk is made from was read, or can't be.
    pub(super) fn mend_read(&mut self, mend: Mend, is_well: bool) {
        let Stage::Reading { well } = mend.stage else {
            unreachable!("nothing was read: {mend:?}")
        };
        let well = well && is_well;
        match (self.outstanding == 0, well) {
            (false, _) => self.go(Phase::Mending(Mend { stage: Stage::Reading { well }, ..mend })),
            (true, true) => {
                assert_eq!(mend.rebuild.next(), Some(Chunk::Parity), "the sum begins with parity");
                let (rebuild, stage) = (mend.rebuild.fold(), Stage::Fold { asked: false });
                self.go(Phase::Mending(Mend { rebuild, stage, ..mend }));
            }
            (true, false) => {
                self.check_again(mend.chunk, false);
                self.go(Phase::Moving);
            }
        }
    }

    /// Folds the next chunks into the sum; when none is left, that is the chunk.
    fn fold_others(&mut self, mut mend: Mend, with: &mut Needs, cx: &mut Cx) -> bool {
        if cx.command_room() == 0 {
            return false;
        }
        let (first, sectors) = mend.range;
        let mut from = Few::new();
        while let Some(Chunk::Data(chunk)) = mend.rebuild.next().filter(|_| from.len() < MAX_PIECES)
        {
            let buffer = with.buffers.at(Buffer::Gc(self.number, chunk));
            from.push(buffer.view_sectors(first, sectors));
            mend.rebuild = mend.rebuild.fold();
        }
        if from.is_empty() {
            self.check_again(mend.chunk, true);
            with.gauges.repaired += 1;
            self.go(Phase::Moving);
            return true;
        }
        let into = self.sum(with).view_mut_sectors(first, sectors);
        self.outstanding += 1;
        self.go(Phase::Mending(Mend { stage: Stage::Fold { asked: true }, ..mend }));
        let op = Op::GcSum { lane: self.number };
        with.devices.submit(op, Command::Fold { from, into, keep: true }, cx);
        true
    }

    /// The parity was read, or more is in the sum.
    pub(super) fn sum_done(&mut self, command: Command, result: Ended, with: &mut Needs) {
        self.outstanding -= 1;
        match (command, self.phase) {
            (Command::Read { into: Target::Data(view), .. }, Phase::Mending(mend)) => {
                self.sum(with).repay_mut(view);
                self.mend_read(mend, result.is_ok());
            }
            (Command::Read { into: Target::Data(view), .. }, Phase::Reading { asked: true }) => {
                self.sum(with).repay_mut(view);
                self.parity = self.parity.filter(|_| result.is_ok());
                self.move_when_read();
            }
            (Command::Fold { from, into, .. }, Phase::Mending(mend)) => {
                for view in from {
                    with.buffers.repay_gc(self.number, view);
                }
                self.sum(with).repay_mut(into);
                self.go(Phase::Mending(Mend { stage: Stage::Fold { asked: false }, ..mend }));
            }
            (other, phase) => unreachable!("{other:?} makes no chunk in {phase:?}"),
        }
    }

    fn sum<'a>(&self, with: &'a mut Needs) -> &'a mut Payload {
        with.buffers.at(Buffer::GcSum(self.number))
    }

    /// A chunk was made from the others, or could not be: its records are checked again.
    fn check_again(&mut self, chunk: u8, well: bool) {
        let bad = |live: &&mut Live| live.chunk == chunk && live.state == Checked::Bad;
        let state = if well { Checked::No } else { Checked::Gone };
        self.live.iter_mut().filter(bad).for_each(|live| live.state = state);
        self.cursor = 0;
    }
}

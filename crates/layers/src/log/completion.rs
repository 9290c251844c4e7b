//! Hands a completed command to its owner.

use hostftl_core::{Command, Done, Nanos, Out, Piece, Token, Verdict, View, ViewMut};

use crate::log::Log;
use crate::log::ops::Op;

impl Log {
    /// A block is compressed.
    pub(in crate::log) fn end_pack(
        &mut self,
        now: Nanos,
        token: Token,
        views: (View, ViewMut),
        verdict: Verdict,
        out: &mut Out,
    ) {
        match self.ops.end(token) {
            Op::Block { index } => self.pack_done(now, index, views, verdict, out),
            other => unreachable!("{other:?} packs nothing"),
        }
    }

    /// Something is copied.
    pub(in crate::log) fn end_place(
        &mut self,
        now: Nanos,
        token: Token,
        (from, into): (View, ViewMut),
        out: &mut Out,
    ) {
        match self.ops.end(token) {
            Op::Block { index } => self.place_done(now, index, (from, into), out),
            op => {
                let command = Command::Place { from: Piece::Data(from), into };
                let done = Done { token, command, result: Ok(Verdict::default()) };
                self.disturb();
                self.finish(now, op, done, out);
            }
        }
    }

    // Not where it is called: what it works with is long.
    #[inline(never)]
    pub(in crate::log) fn done(&mut self, now: Nanos, done: Done, out: &mut Out) {
        if self.hung.has(done.token) {
            return self.late_done(now, done, out);
        }
        let op = self.ops.end(done.token);
        self.disturbed_by(op, &done);
        if self.layout.zoned {
            self.left_zone(now, &done.command, out);
        }
        if let Err(error) = done.result {
            self.judge(op, &done.command, error, out);
        }
        self.finish(now, op, done, out);
    }

    /// A command is over, sent or not.
    #[inline]
    pub(in crate::log) fn finish(&mut self, now: Nanos, op: Op, done: Done, out: &mut Out) {
        // Not taken apart for a block, of which there are many: it would be copied.
        if let Op::Block { index } = op {
            return self.block_done(now, index, done, out);
        }
        let Done { command, result, .. } = done;
        match op {
            Op::Block { .. } => unreachable!("it was a block's"),
            Op::Seal { row } => self.seal_done(row, command),
            Op::Chunk { row, .. } => self.chunk_done(row, command),
            Op::Flush => self.flush_done(out),
            Op::Images { chunk } => self.images_done(chunk, command),
            Op::GcHead => self.gc_head_done(command, result),
            Op::GcRead { chunk } => self.gc_read_done(chunk, command, result),
            Op::GcMend => self.gc_mend_done(now, command, result, out),
            Op::GcMove => self.gc_move_done(command, result),
            Op::Root { .. } => self.root_done(now, command, out),
            Op::Discard { segment } => self.discarded(now, segment, &command, result, out),
            Op::Fill { segment, device } => self.filled(now, segment, device, out),
            Op::Settle { segment } => self.settled(segment),
            Op::Turn => self.turned(now, &command, result, out),
            Op::Recover { index } => self.recover_done(now, index, command, result, out),
            Op::Load { index } => self.load_done(index, command, result, out),
            Op::Salvage => self.salvage_done(command, result, out),
            Op::Journal(part) => self.journal_done(now, part, command, result, out),
        }
    }
}

//! Hands a completed command to its owner.

use hostftl_core::Command;

use crate::kit::shell::Ended;
use crate::log::Engine;
use crate::log::ops::{Cx, Op};

impl Engine {
    /// A command is over: what its error means comes first.
    pub(in crate::log) fn command_done(
        &mut self,
        op: Op,
        command: Command,
        ended: Ended,
        cx: &mut Cx,
    ) {
        Self::disturbed_by(op, &command, ended, cx);
        if self.layout.zoned {
            self.devices.left_zone(&command, cx);
        }
        if let Err(error) = ended {
            self.judge(op, &command, error, cx);
        }
        self.finish(op, command, ended, cx);
    }

    /// A command is over, sent or not.
    #[inline]
    pub(in crate::log) fn finish(&mut self, op: Op, command: Command, result: Ended, cx: &mut Cx) {
        match op {
            Op::Block { index } => self.block_done(index, command, result, cx),
            Op::Seal { row } => self.seal_done(row, command),
            Op::Chunk { row, .. } => self.chunk_done(row, command, cx),
            Op::Flush => self.flush_done(cx),
            Op::Images { chunk } => self.images_done(chunk, command, cx),
            Op::GcHead => self.gc_head_done(command, result, cx),
            Op::GcRead { chunk } => self.gc_read_done(chunk, command, result),
            Op::GcMend => self.gc_mend_done(command, result, cx),
            Op::GcMove => self.gc_move_done(command, result, cx),
            Op::Root { .. } => self.root_done(command, cx),
            Op::Discard { segment } => {
                let (segments, devices) = (&mut self.segments, &mut self.devices);
                self.reclaim.done(segment, &command, result, segments, devices, cx);
            }
            Op::Fill { segment, device } => self.filled(segment, device, cx),
            Op::Settle { segment } => self.settled(segment, cx),
            Op::Turn => self.turned(&command, result, cx),
            Op::Recover { index } => self.recover_done(index, command, result, cx),
            Op::Load { index } => self.load_done(index, command, result, cx),
            Op::Salvage => self.salvage_done(command, result, cx),
            Op::Journal(part) => self.journal_done(part, command, result, cx),
        }
    }
    /// Zeros are in a zone, or could not be written: nothing is on its way to the segment for them.
    fn filled(&mut self, segment: u32, device: u8, cx: &mut Cx) {
        self.devices.filled(segment, device, cx);
        if !self.devices.zones().is_filled(segment) {
            self.segments.rests(segment);
        }
    }

    /// A device has flushed since a segment was closed.
    fn settled(&mut self, segment: u32, cx: &mut Cx) {
        if let Some(erased) = self.devices.zones_mut().settled(segment) {
            if erased {
                self.reclaim.end(segment, &mut self.segments, &mut self.devices, cx);
            }
            cx.wake();
        }
    }
}

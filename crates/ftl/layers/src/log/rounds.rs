//! Rounds of a step, in the order in which work advances.

use hostftl_core::DeviceError;

use crate::kit::Life;
use crate::log::Engine;
use crate::log::array::Array;
use crate::log::ops::{Cx, Op, has_room};

/// Outputs with which a round leaves nothing undone. Commands to all devices are deferred until
/// more room than for one round is available.
pub(super) const FULL_ROUND: usize = 40;

impl Engine {
    /// Performs a round of the fast path, in which only block operations advance.
    #[inline]
    pub(crate) fn pump_fast_path(&mut self, cx: &mut Cx) -> bool {
        let moved = self.blocks.pump_requests(&mut self.array, cx)
            | self.blocks.pump_blocks(&mut self.array, cx);
        let waits = self.waits_for_more(cx);
        if waits && !moved {
            cx.invalidate_fast_path();
        }
        waits || !self.is_fast_path_valid(cx)
    }

    // Not inlined, so that its caller stays short.
    #[inline(never)]
    pub(crate) fn pump_all(&mut self, cx: &mut Cx) -> bool {
        self.continue_without_devices(cx) | self.pump_running(cx)
    }

    /// Continues operations whose commands were not sent, or were abandoned.
    pub(crate) fn continue_without_devices(&mut self, cx: &mut Cx) -> bool {
        self.pump_unsent(cx) || self.pump_timed_out(cx)
    }

    /// Performs a full round. Progress at its beginning, or in writing stripes, requires another
    /// round only if operations still wait there.
    fn pump_running(&mut self, cx: &mut Cx) -> bool {
        self.begin_full_round(cx);
        let mut moved = self.array.pump_health(cx) | self.array.pump_committed(cx);
        moved |= self.blocks.pump_mapping(&mut self.array, cx);
        let began = self.blocks.pump_requests(&mut self.array, cx)
            | self.blocks.pump_blocks(&mut self.array, cx);
        let began = began | self.array.pump_media(cx);
        moved |= self.array.pump_metadata_repair(None, cx);
        moved |= self.array.pump_scrub(cx);
        moved |= self.array.pump_reclaim(cx);
        moved |= self.array.pump_checkpoint(cx);
        moved |= self.pump_warming(cx);
        moved |=
            began && (self.waits_for_more(cx) || cx.outputs_left() < FULL_ROUND || !has_room(cx));
        moved = moved || !began && self.refuse_when_full(cx);
        self.end_full_round(moved, cx);
        moved
    }

    /// Refuses requests that wait for space if no operation in progress can free any: unreadable
    /// data cannot be collected.
    fn refuse_when_full(&mut self, cx: &mut Cx) -> bool {
        let still = self.array.all_back(cx)
            && self.array.media.devices.is_quiet()
            && cx.life() == Life::Running;
        if !still || !self.waits_for_room(cx) {
            return false;
        }
        if cx.outputs_left() < FULL_ROUND {
            // The refusal needs a complete round, so it waits for room.
            cx.wake();
            return false;
        }
        let Array { media, mapping, background, .. } = &mut self.array;
        if background.collection.widen(media, mapping, cx) {
            return false;
        }
        // The reserve of the second checkpoint is used before any request is refused.
        self.array.background.collection.lend(&self.array.media.segments)
            || self.blocks.refuse_block(&mut self.array, cx)
            || self.blocks.refuse_trim(&mut self.array, cx)
    }

    /// Stops the layer when all data is durable and replay would find nothing; all other work has
    /// ended.
    pub(crate) fn pump_stop(&mut self, cx: &mut Cx) -> bool {
        if !cx.requests().is_empty() || !self.blocks.is_idle() {
            return false;
        }
        if !self.array.background.scrub.is_idle() {
            return false;
        }
        if !self.array.background.collection.is_idle() {
            let stuck = self.array.all_back(cx) && self.array.media.devices.is_quiet();
            let Array { media, mapping, background, .. } = &mut self.array;
            return stuck && background.collection.end(media, mapping, cx);
        }
        let opened = self.array.output.durability.opened();
        if !self.array.output.all_durable(opened) {
            return self.array.output.durability.want_all(opened);
        }
        // The last checkpoint records that the journal is not needed, so the journal is closed
        // first.
        if self.array.output.journal.close(&self.array.output.durability) {
            return true;
        }
        if !self.array.mapping.checkpoint.is_current(self.array.output.durability.next()) {
            return self.array.mapping.checkpoint.hurry();
        }
        let is_committed =
            self.array.media.devices.is_committed() && self.array.output.journal.is_committed();
        let over = self.array.all_back(cx) && self.array.media.devices.is_quiet() && is_committed;
        if over {
            cx.stopped();
        }
        over
    }

    /// Completes requests after a failure.
    pub(crate) fn pump_failed(&mut self, cx: &mut Cx) -> bool {
        let moved = self.blocks.pump_mapping(&mut self.array, cx)
            | self.array.pump_metadata_repair(None, cx);
        moved
            | self.blocks.pump_requests(&mut self.array, cx)
            | self.blocks.pump_blocks(&mut self.array, cx)
    }

    /// Returns whether a write waits for space.
    pub(crate) fn waits_for_room(&self, cx: &mut Cx) -> bool {
        self.blocks.any_waits_for_stripe() || cx.requests().first_write().is_some()
    }

    /// Reads map pages ahead while no write waits for space.
    fn pump_warming(&mut self, cx: &mut Cx) -> bool {
        let may = cx.life() == Life::Running && !self.waits_for_room(cx);
        may && self.array.pump_warming(cx)
    }

    /// Fails one command that was not sent.
    fn pump_unsent(&mut self, cx: &mut Cx) -> bool {
        let Some((op, command, error)) = self.array.media.devices.next_unsent() else {
            return false;
        };
        self.finish(op, command, Err(error), cx);
        true
    }

    /// Continues one operation whose command was abandoned.
    fn pump_timed_out(&mut self, cx: &mut Cx) -> bool {
        // Each is tried once; those that must wait keep their order.
        for _ in 0..self.array.output.timed_out.count() {
            let abandoned = self.array.output.timed_out.pop();
            let (_, op, device) = abandoned;
            if self.continue_without(op, device, cx) {
                return true;
            }
            self.array.output.timed_out.push_back(abandoned);
        }
        false
    }

    /// Fails `op` without its command. Returns false if that has to wait.
    fn continue_without(&mut self, op: Op, device: u8, cx: &mut Cx) -> bool {
        match op {
            Op::Block { index } => return self.blocks.move_block(index, &mut self.array, cx),
            Op::JointRead { joint } => {
                return self.blocks.abandon_joint(joint, &mut self.array, cx);
            }
            Op::Chunk { stripe, .. } => {
                let Array { media, output, .. } = &mut self.array;
                output.stripes.chunk_over(stripe, media, &mut output.durability, cx);
            }
            _ => {
                let Some(command) = self.array.stand_in(op, device) else { return false };
                self.finish(op, command, Err(DeviceError::Removed), cx);
            }
        }
        true
    }
}

//! Reclaim: lines in which nothing is live are erased and free again.
//!
//! Invariants
//! - A line is reset when what emptied it is durable, nobody reads from it, and no trim in it would
//!   be missed: replay begins behind the last one.
//! - A segment that fails to be reset is out of use.

use hostftl_core::{Command, DeviceError};

use super::Engine;
use super::lines::Line;
use super::ops::{Cx, Op, fail};
use crate::planted::{Bug, planted};

/// Lines being reset at once.
const RESETS: u32 = 2;

impl Engine {
    /// Resets a line that is out of use; asks for what holds it back when space is short.
    pub(super) fn pump_reclaim(&mut self, cx: &mut Cx) -> bool {
        if self.lines.empty_count() == 0 || self.lines.resetting() >= RESETS {
            return false;
        }
        if cx.room() < self.layout.width as usize + 4 && cx.room() < 24 || cx.command_room() < 256 {
            return false;
        }
        let replay_from = self.checkpoint.root.replay_from;
        let held = |it: &Line| it.is_pinned() && !planted(Bug::ZonesVictimNotPinned);
        let trims = |it: &Line| {
            let last = it.last_trim();
            last > 0 && last >= replay_from && !planted(Bug::ZonesTrimForgotten)
        };
        let durable = |it: &Line| {
            planted(Bug::ZonesEarlyReset) || self.durability.is_durable(it.emptied_by())
        };
        let ready = |(_, it): &(u32, &Line)| durable(it) && !trims(it) && !held(it);
        let first = self.lines.empty().find(ready).map(|(line, _)| line);
        if let Some(line) = first {
            self.begin_reset(line, cx);
            return true;
        }
        if !self.lines.is_short() {
            return false;
        }
        let last = self.lines.empty().map(|(_, it)| it.emptied_by()).max().unwrap_or(0);
        let trims = self.lines.empty().any(|(_, it)| trims(it));
        self.durability.want(last) || trims && self.checkpoint.hurry()
    }

    fn begin_reset(&mut self, line: u32, cx: &mut Cx) {
        self.lines.begin_reset(line);
        self.reset_more(line, cx);
    }

    /// Sends as many of the resets of a line as the step has room for.
    fn reset_more(&mut self, line: u32, cx: &mut Cx) {
        let room = cx.room().saturating_sub(8).min(cx.command_room().saturating_sub(128));
        for _ in 0..room {
            let Some(segment) = self.lines.next_reset(line) else { break };
            let sectors = u64::from(self.layout.device.size);
            let lba = self.layout.lba(segment, 0);
            let command = Command::Reset { device: 0, lba, sectors };
            cx.submit(Op::Reset { segment }, command);
        }
        if self.lines.end_reset(line) {
            cx.wake();
        }
    }

    /// A segment was reset, or was not.
    pub(super) fn reset_done(
        &mut self,
        segment: u32,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
    ) {
        let line = self.layout.line(segment);
        self.lines.reset_over(line);
        match result {
            Ok(()) => self.lines.segment_reset(segment, false),
            Err(DeviceError::Media) => {
                self.lines.segment_reset(segment, true);
                self.lines.lose_segment(segment, cx);
            }
            Err(error) => return fail(error, cx),
        }
        self.reset_more(line, cx);
    }
}

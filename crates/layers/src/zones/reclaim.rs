//! Reclaim: lines in which nothing is live are erased and free again.
//!
//! Invariants
//! - A line is reset when what emptied it is durable, nobody reads from it, and no trim in it would
//!   be missed: replay begins behind the last one.
//! - A segment that fails to be reset is out of use.

use hostftl_core::{Command, DeviceError};

use super::Engine;
use super::lines::State;
use super::ops::{Cx, Op, fail};
use crate::planted::{Bug, planted};

/// Lines being reset at once.
const RESETS: usize = 2;

impl Engine {
    /// Whether free lines are getting few.
    pub(super) fn is_short(&self) -> bool {
        self.lines.spare() < self.layout.reserve + 3
    }

    /// Resets a line that is out of use; asks for what holds it back when space is short.
    pub(super) fn pump_reclaim(&mut self, cx: &mut Cx) -> bool {
        if self.lines.empty() == 0 || self.resetting >= RESETS {
            return false;
        }
        if cx.room() < self.layout.width as usize + 4 && cx.room() < 24 || cx.command_room() < 256 {
            return false;
        }
        let replay_from = self.checkpoint.root.replay_from;
        let held = |line: &u32| {
            let it = self.lines.at(*line);
            it.reads > 0 && !planted(Bug::ZonesVictimNotPinned)
        };
        let undone = |line: &u32| !self.durability.is_durable(self.lines.at(*line).stamp);
        let trims = |line: &u32| {
            let last = self.lines.at(*line).last_trim;
            last > 0 && last >= replay_from && !planted(Bug::ZonesTrimForgotten)
        };
        let early = planted(Bug::ZonesEarlyReset);
        let ready = |line: &&u32| (early || !undone(line)) && !trims(line) && !held(line);
        if let Some(&line) = self.lines.empty.iter().find(ready) {
            self.begin_reset(line, cx);
            return true;
        }
        if !self.is_short() {
            return false;
        }
        let stamps = self.lines.empty.iter().map(|line| self.lines.at(*line).stamp);
        let last = stamps.max().unwrap_or(0);
        let trims = self.lines.empty.iter().any(trims);
        self.durability.want(last) || trims && self.checkpoint.hurry()
    }

    fn begin_reset(&mut self, line: u32, cx: &mut Cx) {
        self.lines.begin_reset(line);
        self.resetting += 1;
        self.reset_more(line, cx);
    }

    /// Sends as many of the resets of a line as the step has room for.
    fn reset_more(&mut self, line: u32, cx: &mut Cx) {
        let room = cx.room().saturating_sub(8).min(cx.command_room().saturating_sub(128));
        for _ in 0..room {
            let Some(segment) = self.lines.to_reset(line).next() else { break };
            self.lines.chunks.at_mut(segment).dirty = false;
            self.lines.at_mut(line).rows += 1;
            let sectors = u64::from(self.layout.device.size);
            let lba = self.layout.lba(segment, 0);
            let command = Command::Reset { device: 0, lba, sectors };
            cx.submit(Op::Reset { segment }, command);
        }
        if self.lines.at(line).rows == 0 && self.lines.to_reset(line).next().is_none() {
            self.resetting -= 1;
            self.lines.end_reset(line);
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
        assert_eq!(self.lines.at(line).state, State::Resetting);
        self.lines.at_mut(line).rows -= 1;
        match result {
            Ok(()) => self.lines.chunks.reset(segment, false),
            Err(DeviceError::Media) => {
                self.lines.chunks.reset(segment, true);
                self.lose_segment(segment, cx);
            }
            Err(error) => return fail(error, cx),
        }
        self.reset_more(line, cx);
    }
}

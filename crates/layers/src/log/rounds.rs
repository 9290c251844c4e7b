//! What a step does after its input: round by round, until nothing moves.

use hostftl_core::{Event, HostError, MAX_TOUCH, Nanos, Out, Output};

use crate::log::{Life, Log};

/// The most outputs that one round of the pump makes.
const ROUND_OUTPUTS: usize = 24;
/// With room for so many, nothing is left undone for want of room: what is sent to all devices at
/// once waits until there is more than for a round.
pub const FULL_ROUND: usize = 40;

impl Log {
    /// Does what can be done, round by round, until nothing moves or the step is full.
    pub(in crate::log) fn pump(&mut self, now: Nanos, out: &mut Out) {
        self.more = false;
        loop {
            if out.room() < ROUND_OUTPUTS || self.touched > MAX_TOUCH / 2 {
                self.more = true;
                return;
            }
            let moved = match self.is_calm() {
                true => self.pump_calm(now, out),
                false => self.pump_all(now, out),
            };
            if !moved {
                return;
            }
        }
    }

    /// A round while nothing but blocks moves.
    fn pump_calm(&mut self, now: Nanos, out: &mut Out) -> bool {
        let moved = self.pump_requests(now, out) | self.pump_blocks(out);
        let waits = self.waits_for_more();
        if waits && !moved {
            self.disturb();
        }
        waits || !self.is_calm()
    }

    // Not where it is called: that has to be short.
    #[inline(never)]
    fn pump_all(&mut self, now: Nanos, out: &mut Out) -> bool {
        let moved = self.pump_unsent(now, out) || self.pump_hung(now, out);
        moved
            | match (self.life, self.failed) {
                (_, Some(error)) => self.pump_failed(now, error, out),
                (Life::Over, _) => false,
                (Life::Recovering, _) => self.pump_recovery(now, out),
                (Life::Running, _) => self.pump_running(now, out),
                (Life::Stopping, _) => self.pump_running(now, out) || self.pump_stop(out),
            }
    }

    /// A round, in the order in which things move on. What moved at its beginning is no reason for
    /// another round when nothing waits there any more.
    fn pump_running(&mut self, now: Nanos, out: &mut Out) -> bool {
        self.begin_to_calm();
        let mut moved = self.pump_told(now, out) | self.pump_mapping(now, out);
        let began = self.pump_requests(now, out) | self.pump_blocks(out);
        moved |= began && self.waits_for_more();
        moved |= self.pump_writing(now, out);
        moved |= self.pump_collection(now, out) | self.pump_salvage(now, out);
        moved |= self.pump_reclaim(now, out);
        moved |= self.pump_checkpoint(now, out);
        moved |= self.pump_warming(now, out);
        moved = moved || self.refuse_when_full(out);
        self.calm_down(moved, out);
        moved
    }

    /// Refuses what waits for room when nothing is under way that could make any: what can't be
    /// read can't be collected.
    fn refuse_when_full(&mut self, out: &mut Out) -> bool {
        let still = self.all_back() && self.lost.is_quiet() && self.life == Life::Running;
        if !still || !self.waits_for_room() {
            return false;
        }
        if out.room() < FULL_ROUND {
            self.more = true; // Not before a round that lacks nothing.
            return false;
        }
        self.refuse_block(out) || self.refuse_trim(out)
    }

    /// Everything between an open row and a durable one.
    pub(in crate::log) fn pump_writing(&mut self, now: Nanos, out: &mut Out) -> bool {
        let mut moved = self.pump_commit();
        moved |= self.pump_rows(now, out);
        moved |= self.pump_journal(now, out);
        moved |= self.pump_flush(now, out);
        moved | self.answer_flushed(out)
    }

    /// Ends the layer when everything is durable and nothing would be replayed; nothing else moves.
    fn pump_stop(&mut self, out: &mut Out) -> bool {
        if !self.requests.is_empty() || !self.blocks.is_idle() {
            return false;
        }
        if !self.collection.is_idle() {
            return self.end_collection();
        }
        let opened = self.durability.opened();
        if !self.all_durable(opened) {
            return self.durability.want_all(opened);
        }
        if self.close_journal() {
            return true;
        }
        if !self.checkpoint.is_current(self.durability.next()) {
            return self.checkpoint.hurry();
        }
        let told = self.lost.is_told() && self.journal.is_told();
        if !(self.all_back() && self.lost.is_quiet() && told) {
            return false;
        }
        (self.life, self.more) = (Life::Over, false);
        out.push(Output::Event(Event::Stopped));
        true
    }

    /// After a failure only answering is left.
    fn pump_failed(&mut self, now: Nanos, error: HostError, out: &mut Out) -> bool {
        let mut moved = self.pump_mapping(now, out) | self.pump_salvage(now, out);
        moved |= self.pump_requests(now, out) | self.pump_blocks(out);
        if out.room() > ROUND_OUTPUTS / 2 {
            moved |= self.requests.answer_waiting(Err(error), out);
        }
        if self.abandoning {
            moved |= self.requests.abandon(out);
        }
        let quiet = self.requests.are_answered() && (self.all_back() || self.abandoning);
        if self.life == Life::Stopping && quiet {
            self.life = Life::Over;
            out.push(Output::Event(Event::Stopped));
        }
        moved
    }
}

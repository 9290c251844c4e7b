//! The victim is read once, as a whole; what of it goes home is laid over from there, and the rest
//! is copied within the hidden area, where that is wanted (`hatl-auto`): all of it, unless the area
//! is crowded or copying gains little. What is worth it goes home instead, see [`super::spill`].
//!
//! Invariants
//! - The buffer holds the victim from the end of its read until the next one begins.
//! - A copy is published only where the map still points at its source.

use hostftl_core::{Cause, Command, Payload, Piece, Target};

use crate::vsp::Machine;
use crate::vsp::layout::FLOOR;

use super::ops::Op;
use super::{Hidden, HiddenMap};
use crate::vsp::ops::{Cx, Op::Own};

/// Thousandths of the hidden area from which on everything in the victim goes home.
const CROWDED: u64 = 880;

/// See the module text.
#[derive(Debug)]
pub struct Forward {
    buffer: Option<Payload>,
    /// The superpage that the buffer holds.
    holds: Option<u32>,
    reading: bool,
    copying: u32,
    /// Whether copying all of what it holds would gain much.
    pays: bool,
}

impl Forward {
    /// Nothing read yet.
    pub fn new(buffer: Payload) -> Self {
        Forward { buffer: Some(buffer), holds: None, reading: false, copying: 0, pays: false }
    }

    /// Whether commands are under way.
    pub fn is_busy(&self) -> bool {
        self.reading || self.copying > 0
    }

    /// Whether the victim is being read.
    pub fn is_reading(&self) -> bool {
        self.reading
    }

    /// Whether the buffer holds a superpage.
    pub fn holds(&self, vsp: u32) -> bool {
        !self.reading && self.holds == Some(vsp)
    }

    /// The buffer that the victim is read into.
    pub fn buffer(&mut self) -> &mut Payload {
        self.buffer.as_mut().expect("the buffer stays here")
    }

    /// The power is off.
    pub fn void(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            buffer.void();
        }
    }
}

impl<M: HiddenMap> Machine<Hidden<M>> {
    /// Reads a new victim.
    pub(super) fn read_victim(&mut self, victim: u32, cx: &mut Cx<Op>) {
        let sp = self.layout.superpage;
        let forward = &mut self.scheme.forward;
        (forward.reading, forward.holds) = (true, Some(victim));
        forward.pays = 4 * self.pool.weight(victim) <= 3 * sp;
        let into = Target::Data(forward.buffer().view_mut_sectors(0, sp));
        self.pool.begin_read(victim);
        let lba = self.layout.data_at(victim);
        let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
        cx.submit(Own(Op::Bounce { vsp: victim }), command);
    }

    /// Whether what the victim has of an LSP stays hidden.
    pub(super) fn stays(&mut self, lsp: u32, victim: u32) -> bool {
        let forward = &self.scheme.forward;
        if !self.table.copies() || !forward.holds(victim) || !forward.pays {
            return false;
        }
        let slots = self.hidden_slots();
        let crowded = self.table.mapped() * 1000 > CROWDED * slots;
        if crowded || self.free.len() <= FLOOR as usize + 1 || !self.admits() {
            return false;
        }
        !self.table.is_full(slots) || !self.is_worth_it(lsp)
    }

    /// Copies at most `left` live slots of the victim, from `slot` on, into the filling stage. How
    /// many.
    pub(super) fn copy_run(&mut self, from: u32, left: u32, cx: &mut Cx<Op>) -> u32 {
        let lsn = self.table.live(from).expect("what is copied is live");
        let follows = |i: &u32| self.table.live(from + i) == Some(lsn + u64::from(*i));
        let run = 1 + (1..left).take_while(follows).count() as u32;
        cx.touch(run as usize);
        let Some((stage, slot, len)) = self.take_slots(lsn, run, Cause::Gc) else { return 0 };
        let forward = &mut self.scheme.forward;
        forward.copying += 1;
        let view = forward.buffer().view_sectors(from % self.layout.superpage, len);
        let into = self.stages[stage as usize].buffer().view_mut_sectors(slot, len);
        let op = Op::Forward { stage, from, slot, len };
        cx.submit(Own(op), Command::Place { from: Piece::Data(view), into });
        cx.counters().gc_copied += u64::from(len);
        self.close_if_full();
        len
    }

    /// A command that fills or uses the buffer is over.
    pub(super) fn forward_done(&mut self, op: Op, command: Command, ok: bool, cx: &mut Cx<Op>) {
        match (op, command) {
            (Op::Bounce { vsp }, Command::Read { into: Target::Data(into), .. }) => {
                self.pool.end_read(vsp);
                let forward = &mut self.scheme.forward;
                forward.reading = false;
                forward.buffer().repay_mut(into);
                if !ok {
                    forward.holds = None;
                }
            }
            (Op::OverlayBounce { mover }, Command::Place { from: Piece::Data(from), into }) => {
                self.scheme.forward.buffer().repay(from);
                self.scheme.movers.repay(mover, into);
            }
            (
                Op::Forward { stage, from, slot, len },
                Command::Place { from: Piece::Data(view), into },
            ) => {
                let forward = &mut self.scheme.forward;
                forward.copying -= 1;
                forward.buffer().repay(view);
                self.stage_placed(stage, into);
                for i in 0..len {
                    if let Some(lsn) = self.table.live(from + i) {
                        self.publish(stage, lsn, slot + i, cx);
                    }
                }
            }
            (op, command) => unreachable!("{op:?} came back with {command:?}"),
        }
    }
}

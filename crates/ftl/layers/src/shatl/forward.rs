//! The victim is read once, as a whole; what of it goes home is laid over from there, and the rest
//! is copied within the hidden area, where that is wanted (`hatl-auto`): all of it, unless the area
//! is crowded or copying gains little. What is worth it goes home instead, see [`super::spill`].
//!
//! Invariants
//! - The buffer holds the victim from the end of its read until the next one begins.
//! - A copy is published only where the map still points at its source.

use hostftl_core::{Cause, Command, Payload, Piece, Target, ViewMut};

use crate::vsp::Area;
use crate::vsp::layout::FLOOR;

use super::hidden::HiddenMap;
use super::kills;
use super::ops::Op;
use super::spill::Spill;
use crate::vsp::ops::{Cx, Op::Own};

/// Thousandths of the hidden area from which on everything in the victim goes home.
const CROWDED: u64 = 880;

#[derive(Debug)]
pub(super) struct Forward {
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
    pub(super) fn new(buffer: Payload) -> Self {
        Forward { buffer: Some(buffer), holds: None, reading: false, copying: 0, pays: false }
    }

    /// Whether commands are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.reading || self.copying > 0
    }

    /// Whether the victim is being read.
    pub(super) fn is_reading(&self) -> bool {
        self.reading
    }

    /// Whether the buffer holds a superpage.
    pub(super) fn holds(&self, vsp: u32) -> bool {
        !self.reading && self.holds == Some(vsp)
    }

    /// The buffer that the victim is read into.
    pub(super) fn buffer(&mut self) -> &mut Payload {
        self.buffer.as_mut().expect("the buffer stays here")
    }

    /// The power is off.
    pub(super) fn void(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            buffer.void();
        }
    }

    /// Reads a new victim.
    pub(super) fn read_victim<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        victim: u32,
        cx: &mut Cx<Op>,
    ) {
        let sp = area.layout.superpage;
        assert!(!self.is_busy(), "the buffer holds one victim");
        (self.reading, self.holds) = (true, Some(victim));
        self.pays = 4 * area.pool.weight(victim) <= 3 * sp;
        let into = Target::Data(self.buffer().view_mut_sectors(0, sp));
        area.pool.begin_read(victim);
        let lba = area.layout.data_at(victim);
        let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
        cx.submit(Own(Op::Bounce { vsp: victim }), command);
    }

    /// Whether what the victim has of an LSP stays hidden.
    pub(super) fn stays<M: HiddenMap>(
        &self,
        area: &mut Area<M>,
        spill: &Spill,
        (lsp, victim): (u32, u32),
    ) -> bool {
        if !area.table.copies() || !self.holds(victim) || !self.pays {
            return false;
        }
        let slots = kills::hidden_slots(area);
        let crowded = area.table.mapped() * 1000 > CROWDED * slots;
        if crowded || area.pool.free() <= FLOOR as usize + 1 || !kills::admits(area) {
            return false;
        }
        !area.table.is_full(slots) || !spill.is_worth_it(area, lsp)
    }

    /// Copies at most `left` live slots of the victim, from `slot` on, into the filling stage. How
    /// many.
    pub(super) fn copy_run<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        from: u32,
        left: u32,
        cx: &mut Cx<Op>,
    ) -> u32 {
        assert!(self.holds(area.pool.superpage_of(from)), "what is copied was read");
        let lsn = area.table.live(from).expect("what is copied is live");
        let follows = |i: &u32| area.table.live(from + i) == Some(lsn + u64::from(*i));
        let run = 1 + (1..left).take_while(follows).count() as u32;
        cx.touch(run as usize);
        let Some((stage, slot, len)) = area.take_slots(lsn, run, Cause::Gc) else { return 0 };
        self.copying += 1;
        let view = self.buffer().view_sectors(from % area.layout.superpage, len);
        let into = area.stages.buffer(stage).view_mut_sectors(slot, len);
        let op = Op::Forward { stage, from, slot, len };
        cx.submit(Own(op), Command::Place { from: Piece::Data(view), into });
        cx.counters().gc_copied += u64::from(len);
        area.close_if_full();
        len
    }

    /// Slots of the victim were laid over what a mover moves: where.
    pub(super) fn laid(&mut self, command: Command) -> ViewMut {
        let Command::Place { from: Piece::Data(from), into } = command else {
            unreachable!("slots of the victim are copied")
        };
        self.buffer().repay(from);
        into
    }

    /// A command that fills or uses the buffer is over.
    pub(super) fn forward_done<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        op: Op,
        command: Command,
        ok: bool,
        cx: &mut Cx<Op>,
    ) {
        match (op, command) {
            (Op::Bounce { vsp }, Command::Read { into: Target::Data(into), .. }) => {
                area.pool.end_read(vsp);
                self.reading = false;
                self.buffer().repay_mut(into);
                if !ok {
                    self.holds = None;
                }
            }
            (
                Op::Forward { stage, from, slot, len },
                Command::Place { from: Piece::Data(view), into },
            ) => {
                self.copying -= 1;
                self.buffer().repay(view);
                area.stages.at(stage).arrived(into);
                for i in 0..len {
                    if let Some(lsn) = area.table.live(from + i) {
                        area.publish(stage, lsn, slot + i, cx);
                    }
                }
            }
            (op, command) => unreachable!("{op:?} came back with {command:?}"),
        }
    }
}

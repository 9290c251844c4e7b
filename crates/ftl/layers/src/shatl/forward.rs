//! The buffer of the victim, which is read once as a whole.
//!
//! LSPs that go home take their sectors from this buffer. In `hatl-auto` the remaining sectors are
//! copied within the hidden area, unless the area is crowded or copying gains little. LSPs that are
//! worth it go home instead ([`super::spill`]).
//!
//! Invariants
//! - The buffer holds the victim from the end of its read until the next read starts.
//! - A copy is published only where the map still points at its source.

use hostftl_core::{Cause, Command, Payload, Piece, Target, ViewMut};

use crate::vsp::Area;
use crate::vsp::layout::FLOOR;

use super::hidden::HiddenMap;
use super::kills;
use super::ops::Op;
use super::spill::Spill;
use crate::vsp::ops::{Cx, Op::Own};

/// Share of valid slots, in thousandths, beyond which all data of a victim goes home.
const CROWDED: u64 = 880;

#[derive(Debug)]
pub(super) struct Forward {
    buffer: Option<Payload>,
    /// The superpage in the buffer.
    holds: Option<u32>,
    reading: bool,
    copying: u32,
    /// Whether copying all its valid data would gain enough.
    pays: bool,
}

impl Forward {
    /// Creates an empty buffer.
    pub(super) fn new(buffer: Payload) -> Self {
        Forward { buffer: Some(buffer), holds: None, reading: false, copying: 0, pays: false }
    }

    /// Returns whether commands are in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.reading || self.copying > 0
    }

    /// Returns whether the victim is being read.
    pub(super) fn is_reading(&self) -> bool {
        self.reading
    }

    /// Returns whether the buffer holds a superpage.
    pub(super) fn holds(&self, vsp: u32) -> bool {
        !self.reading && self.holds == Some(vsp)
    }

    /// Returns the buffer of the victim.
    pub(super) fn buffer(&mut self) -> &mut Payload {
        self.buffer.as_mut().expect("the buffer is present")
    }

    /// Discards the buffer after a power cut.
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

    /// Returns whether the victim's data of an LSP stays hidden.
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

    /// Copies at most `left` valid slots of the victim, from virtual sector `from` on, into the
    /// filling stage. Returns the number of slots copied.
    pub(super) fn copy_run<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        from: u64,
        left: u32,
        cx: &mut Cx<Op>,
    ) -> u32 {
        assert!(self.holds(area.pool.superpage_at(from)), "a copied slot was read");
        let lsn = area.table.valid(from).expect("a copied slot is valid");
        let follows = |i: &u32| area.table.valid(from + u64::from(*i)) == Some(lsn + u64::from(*i));
        let run = 1 + (1..left).take_while(follows).count() as u32;
        cx.touch(run as usize);
        let Some((stage, slot, len)) = area.take_slots(lsn, run, Cause::Gc) else { return 0 };
        self.copying += 1;
        let at = (from % u64::from(area.layout.superpage)) as u32;
        let view = self.buffer().view_sectors(at, len);
        let into = area.stages.buffer(stage).view_mut_sectors(slot, len);
        let op = Op::Forward { stage, from, slot, len };
        cx.submit(Own(op), Command::Place { from: Piece::Data(view), into });
        cx.counters().gc_copied += u64::from(len);
        area.close_if_full();
        len
    }

    /// Takes back the buffer's view after a copy into a mover's buffer. Returns the view of the
    /// mover.
    pub(super) fn laid(&mut self, command: Command) -> ViewMut {
        let Command::Place { from: Piece::Data(from), into } = command else {
            unreachable!("slots of the victim are copied")
        };
        self.buffer().repay(from);
        into
    }

    /// Handles the completion of a command that fills or uses the buffer.
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
                area.publish_copies(stage, (from, slot, len), cx);
            }
            (op, command) => unreachable!("{op:?} completed with {command:?}"),
        }
    }
}

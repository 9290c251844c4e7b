//! The end of hidden copies that a write at home replaced, and the room that there is in the area.

use crate::vsp::Area;
use crate::vsp::ops::Cx;
use crate::vsp::pool::{Lost, State};

use super::hidden::HiddenMap;
use super::ops::Op;

impl<M: HiddenMap> Area<M> {
    /// Slots of the hidden self.
    pub fn hidden_slots(&mut self) -> u64 {
        let gone = self.table.loans().map_or(0, |loans| loans.gone());
        u64::from(self.layout.count - gone) * u64::from(self.layout.superpage)
    }

    /// Whether the map has room for what one more run may need.
    pub fn admits(&self) -> bool {
        self.table.admits(self.stages.placing())
    }

    /// How many slots from one on hold sectors of an LSP.
    pub fn run_of(&mut self, slot: u32, lsp: u32) -> u32 {
        let sp = self.layout.superpage;
        let same = |i: &u32| self.table.live(slot + i).is_some_and(|l| self.table.lsp(l) == lsp);
        1 + (1..sp - slot % sp).take_while(same).count() as u32
    }

    /// Whether all copies of an LSP may be killed now; asks for what makes room if not.
    pub fn room_for_kills(&mut self) -> bool {
        let room = self.direct.room() >= self.layout.superpage as usize;
        if !room {
            // What is open is closed too: its pad carries the log where no superpage is left.
            self.wishes.press(self.mark_all());
        }
        room
    }

    /// Kills the hidden copies of the sectors `low..end` of an LSP.
    pub fn kill_copies(&mut self, lsp: u32, low: u64, end: u64, cx: &mut Cx<Op>) {
        loop {
            let held = |(_, lsn): &(u32, u64)| (low..end).contains(lsn);
            let found = self.table.hidden(lsp).find(held);
            let Some((slot, _)) = found else { break };
            self.kill_slot(slot, cx);
        }
        self.end_kills();
    }

    /// Kills what a slot holds; `end_kills` ends the event.
    pub fn kill_slot(&mut self, slot: u32, cx: &mut Cx<Op>) {
        let lsn = self.table.holds(slot).expect("a slot that dies holds a sector");
        let vsp = self.pool.superpage_of(slot);
        let stamp = match self.pool.state(vsp) {
            State::Staged(index) => self.stages.get(index).stamp().max(self.log.sealed()),
            _ => self.log.sealed(),
        };
        cx.touch(1);
        self.direct.kill(slot, stamp);
        self.checkpoint.changed(slot.into());
        if let Lost::Last(vsp) = self.table.kill(&mut self.pool, lsn) {
            self.pool.push_limbo(vsp);
        }
    }

    /// Ends an event of kills.
    pub fn end_kills(&mut self) {
        self.direct.end_event();
        let mark = self.mark_all();
        self.pool.mark_limbo(mark);
    }
}

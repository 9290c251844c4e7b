//! Which LSPs go home where memory is short although superpages are free (`hatl-auto`).
//!
//! A hand goes round the hidden area. What an LSP is worth is the sum of the ages of its runs: many
//! runs are moved at the price of one, and what was not written for long will not be written soon.
//! How much is enough follows what is found: it rises with each LSP that goes home, and sinks with
//! each that stays.

use crate::vsp::Machine;
use crate::vsp::pool::State;

use super::ops::Op;
use super::{Hidden, HiddenMap};
use crate::vsp::ops::Cx;

/// Superpages that are looked at in one go.
const LOOK: u32 = 64;
/// The least that is enough.
const LEAST: u32 = 64;

/// See the module text.
#[derive(Debug)]
pub struct Spill {
    hand: u32,
    /// From this worth on, in 64ths, an LSP goes home.
    enough: u32,
    /// Superpages passed over since one could be looked at.
    idle: u32,
    /// Whether it is not the turn of a victim that frees a superpage.
    turn: bool,
}

impl Spill {
    /// The hand stands at the first superpage.
    pub fn new() -> Self {
        Spill { hand: 0, enough: LEAST, idle: 0, turn: false }
    }

    /// Whether the next victim may be one that is worth going home; every other time it is.
    pub fn has_turn(&mut self) -> bool {
        self.turn = !self.turn;
        self.turn
    }

    fn take(&mut self) {
        self.enough = self.enough.saturating_add(self.enough / 8);
    }

    fn leave(&mut self) {
        self.enough = (self.enough - self.enough / 32).max(LEAST);
    }
}

impl<M: HiddenMap> Machine<Hidden<M>> {
    /// Slots of the hidden area.
    pub(super) fn hidden_slots(&mut self) -> u64 {
        let gone = self.table.loans().map_or(0, |loans| loans.gone());
        u64::from(self.layout.count - gone) * u64::from(self.layout.superpage)
    }

    /// Whether an LSP is worth going home although superpages are free.
    pub(super) fn is_worth_it(&self, lsp: u32) -> bool {
        u64::from(self.table.worth(lsp)) * 64 >= u64::from(self.scheme.spill.enough)
    }

    /// The next superpage with an LSP that should go home.
    pub(super) fn spilled(&mut self, cx: &mut Cx<Op>) -> Option<u32> {
        for _ in 0..LOOK.min(self.layout.count) {
            let vsp = self.scheme.spill.hand;
            self.scheme.spill.hand = (vsp + 1) % self.layout.count;
            if self.pool.state(vsp) != State::Full || self.pool.pinned(vsp) {
                self.scheme.spill.idle += 1;
                continue;
            }
            self.scheme.spill.idle = 0;
            let (mut last, mut looked) = (None, 0);
            for lsp in self.table.lsps_in(vsp) {
                looked += self.layout.superpage as usize / 8;
                if last.replace(lsp) == Some(lsp) {
                    continue;
                }
                if self.is_worth_it(lsp) {
                    cx.touch(looked);
                    return Some(vsp);
                }
                self.scheme.spill.leave();
            }
            cx.touch(looked);
            if cx.touched() > 16 * 1024 {
                break;
            }
        }
        if self.scheme.spill.idle < self.layout.count {
            cx.wake();
        } else if !self.admits() {
            // Nothing can go home before what is open or pinned is not.
            self.checkpoint.hurry();
            if self.filling.is_some() {
                self.close_filling();
            }
        }
        None
    }

    /// Whether the map has room for what one more run may need.
    pub(super) fn admits(&self) -> bool {
        let placing: u32 = self.stages.iter().map(|stage| stage.placing).sum();
        self.table.admits(placing)
    }

    /// Begins to move the LSP home if it is worth it; how many slots to go on, if it went on.
    pub(super) fn spill_lsp(&mut self, (slot, lsp): (u32, u32), cx: &mut Cx<Op>) -> Option<u32> {
        cx.touch(self.layout.superpage as usize / 4);
        if !self.is_worth_it(lsp) {
            return Some(self.run_of(slot, lsp));
        }
        self.begin_move(lsp, cx).then(|| {
            self.scheme.spill.take();
            self.run_of(slot, lsp)
        })
    }

    /// How many slots from one on hold sectors of an LSP.
    fn run_of(&mut self, slot: u32, lsp: u32) -> u32 {
        let sp = self.layout.superpage;
        let same = |i: &u32| self.table.live(slot + i).is_some_and(|l| self.table.lsp(l) == lsp);
        1 + (1..sp - slot % sp).take_while(same).count() as u32
    }
}

//! Which LSPs go home where memory is short although superpages are free (`hatl-auto`).
//!
//! A hand goes round the hidden area. What an LSP is worth is the sum of the ages of its runs: many
//! runs are moved at the price of one, and what was not written for long will not be written soon.
//! How much is enough follows what is found: it rises with each LSP that goes home, and sinks with
//! each that stays.

use crate::vsp::Area;
use crate::vsp::pool::State;

use super::hidden::HiddenMap;
use super::kills;
use super::ops::Op;
use crate::vsp::ops::Cx;

/// Superpages that are looked at in one go.
const LOOK: u32 = 64;
/// The least that is enough.
const LEAST: u32 = 64;

#[derive(Debug)]
pub(super) struct Spill {
    hand: u32,
    /// From this worth on, in 64ths, an LSP goes home.
    enough: u32,
    /// Superpages passed over since one could be looked at.
    idle: u32,
}

impl Spill {
    /// The hand stands at the first superpage.
    pub(super) fn new() -> Self {
        Spill { hand: 0, enough: LEAST, idle: 0 }
    }

    /// An LSP goes home: the next must be worth more.
    pub(super) fn take(&mut self) {
        self.enough = self.enough.saturating_add(self.enough / 8);
    }

    fn leave(&mut self) {
        self.enough = (self.enough - self.enough / 32).max(LEAST);
    }

    /// Whether an LSP is worth going home although superpages are free.
    pub(super) fn is_worth_it<M: HiddenMap>(&self, area: &Area<M>, lsp: u32) -> bool {
        u64::from(area.table.worth(lsp)) * 64 >= u64::from(self.enough)
    }

    /// The next superpage with an LSP that should go home.
    pub(super) fn spilled<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        cx: &mut Cx<Op>,
    ) -> Option<u32> {
        for _ in 0..LOOK.min(area.layout.count) {
            let vsp = self.hand;
            self.hand = (vsp + 1) % area.layout.count;
            if area.pool.state(vsp) != State::Full || area.pool.pinned(vsp) {
                self.idle += 1;
                continue;
            }
            self.idle = 0;
            let (mut last, mut looked) = (None, 0);
            for lsp in area.table.lsps_in(vsp) {
                looked += area.layout.superpage as usize / 8;
                if last.replace(lsp) == Some(lsp) {
                    continue;
                }
                if self.is_worth_it(area, lsp) {
                    cx.touch(looked);
                    return Some(vsp);
                }
                self.leave();
            }
            cx.touch(looked);
            if cx.touched() > 16 * 1024 {
                break;
            }
        }
        if self.idle < area.layout.count {
            cx.wake();
        } else if !kills::admits(area) {
            // Nothing can go home before what is open or pinned is not.
            area.checkpoint.hurry();
            if area.stages.filling().is_some() {
                area.stages.close_filling();
            }
        }
        None
    }
}

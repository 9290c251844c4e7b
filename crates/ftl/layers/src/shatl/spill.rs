//! Selection of LSPs that go home because memory is short although superpages are free
//! (`hatl-auto`).
//!
//! A clock hand passes over the hidden area. The worth of an LSP is the sum of the ages of its
//! runs: many runs move at the price of one, and data that was not written for long is unlikely to
//! be written soon. The threshold follows the supply: it rises with each LSP that goes home, and
//! falls with each that stays.

use crate::vsp::Area;
use crate::vsp::pool::State;

use super::hidden::HiddenMap;
use super::kills;
use super::ops::Op;
use crate::vsp::ops::Cx;

/// Superpages that the hand examines in one step.
const SCAN: u32 = 64;
/// Minimum of the threshold.
const LEAST: u32 = 64;

#[derive(Debug)]
pub(super) struct Spill {
    hand: u32,
    /// Threshold of the worth of an LSP, in 64ths.
    enough: u32,
    /// Superpages skipped in a row because they are not full or are pinned.
    idle: u32,
}

impl Spill {
    /// Creates the state with the hand at the first superpage.
    pub(super) fn new() -> Self {
        Spill { hand: 0, enough: LEAST, idle: 0 }
    }

    /// Raises the threshold after an LSP went home.
    pub(super) fn take(&mut self) {
        self.enough = self.enough.saturating_add(self.enough / 8);
    }

    fn leave(&mut self) {
        self.enough = (self.enough - self.enough / 32).max(LEAST);
    }

    /// Returns whether an LSP is worth moving home although superpages are free.
    pub(super) fn is_worth_it<M: HiddenMap>(&self, area: &Area<M>, lsp: u32) -> bool {
        u64::from(area.table.worth(lsp)) * 64 >= u64::from(self.enough)
    }

    /// Returns the next superpage with an LSP that should go home.
    pub(super) fn spilled<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        cx: &mut Cx<Op>,
    ) -> Option<u32> {
        for _ in 0..SCAN.min(area.layout.count) {
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
            // Data in open or pinned superpages cannot go home, so these are closed and unpinned.
            area.checkpoint.hurry();
            if area.stages.filling().is_some() {
                area.stages.close_filling();
            }
        }
        None
    }
}

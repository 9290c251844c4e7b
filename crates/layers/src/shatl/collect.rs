//! sVGC: which superpages of the hidden area are emptied, and when.
//!
//! The victim is the full superpage whose sectors touch the fewest LSPs; each of these goes home
//! ([`super::moves`]). In the mode `ressd` all LSPs that the hidden area holds anything of are
//! moved in one batch, in the order of their addresses.

use hostftl_core::Event;

use crate::config::LayerConfig;
use crate::vsp::Machine;
use crate::vsp::layout::FLOOR;
use crate::vsp::ops::{Cx, OWN_OPS};
use crate::vsp::pool::State;

use super::ops::Op;
use super::params::Reclaim;
use super::{Hidden, HiddenMap};

/// Superpages that are kept free or soon free beside the reserve.
const MARGIN: u32 = 8;
/// The same where the area is roomy, as a share of what is not lent: log is written seldom.
const MARGIN_SHARE: u32 = 24;
/// LSPs that a batch looks at in one go.
const LOOK: u32 = 4096;

/// The victim under way. See the module text.
#[derive(Debug)]
pub struct Victims {
    reclaim: Reclaim,
    victim: Option<u32>,
    /// The next slot of the victim, or the next LSP of the batch.
    cursor: u32,
    /// Whether part of the victim could not be moved.
    pub failed: bool,
    /// Whether the victim was chosen for what it holds, and is not to be emptied.
    spilling: bool,
}

impl Victims {
    /// None under way.
    pub fn new(config: &LayerConfig) -> Self {
        let reclaim = config.shatl.reclaim;
        Victims { reclaim, victim: None, cursor: 0, failed: false, spilling: false }
    }

    /// Whether a superpage is the victim.
    pub fn is(&self, vsp: u32) -> bool {
        self.victim == Some(vsp)
    }
}

impl<M: HiddenMap> Machine<Hidden<M>> {
    /// Gives idle movers work.
    pub(super) fn pump_victims(&mut self, cx: &mut Cx<Op>) -> bool {
        match self.scheme.victims.victim {
            _ if !cx.is_running() || cx.command_room() <= OWN_OPS / 2 => false,
            _ if self.scheme.forward.is_reading() => false,
            None => self.choose(cx),
            Some(victim) if self.scheme.victims.reclaim == Reclaim::Fewest => {
                self.feed_victim(victim, cx)
            }
            Some(_) => self.feed_batch(cx),
        }
    }

    /// Chooses a victim, or begins a batch, when few superpages are free.
    fn choose(&mut self, cx: &mut Cx<Op>) -> bool {
        let free = self.free.len() as u32;
        let reserve = self.layout.reserve;
        let own = self.layout.count - self.layout.lent;
        let margin = MARGIN + if self.layout.roomy { own / MARGIN_SHARE } else { 0 };
        if free <= reserve + MARGIN {
            self.press_limbo(true);
        }
        let leaving = self.leaving_victim();
        let enough = free + self.discarding + self.limbo.len() as u32 > reserve + margin;
        if leaving.is_none() && (enough || free > reserve && self.scheme.spill.has_turn()) {
            let slots = self.hidden_slots();
            if self.table.is_full(slots)
                && let Some(victim) = self.spilled(cx)
            {
                self.begin_victim(victim, true, cx);
                return true;
            }
            // A host that fills a stage brings the log along; others wait for superpages.
            let stuck = free <= FLOOR || self.scheme.route.waits;
            if enough {
                return free <= reserve && stuck && self.press_limbo(false);
            }
        }
        let victim = leaving.or_else(|| self.pool.victim(self.layout.superpage + 1));
        let Some(victim) = victim else { return self.press_limbo(false) };
        self.begin_victim(victim, false, cx);
        true
    }

    fn begin_victim(&mut self, victim: u32, spilling: bool, cx: &mut Cx<Op>) {
        let victims = &mut self.scheme.victims;
        (victims.victim, victims.cursor, victims.failed) = (Some(victim), 0, false);
        victims.spilling = spilling;
        if victims.reclaim == Reclaim::Fewest {
            self.pool.become_(victim, State::Victim, false);
            self.read_victim(victim, cx);
        }
        cx.counters().gc_runs += 1;
        cx.tell(Event::GcStarted);
    }

    /// Begins to move the next LSP that the victim holds a sector of, or ends with the victim.
    fn feed_victim(&mut self, victim: u32, cx: &mut Cx<Op>) -> bool {
        let sp = self.layout.superpage;
        let from = self.scheme.victims.cursor;
        let first = victim * sp;
        let next = (from..sp).find(|slot| self.table.live(first + slot).is_some());
        cx.touch((next.unwrap_or(sp) - from) as usize);
        self.scheme.victims.cursor = next.unwrap_or(sp);
        let Some(slot) = next else {
            let busy = self.scheme.movers.is_busy() || self.scheme.forward.is_busy();
            return !busy && self.end_victim(victim);
        };
        let lsn = self.table.live(first + slot).expect("it was live just now");
        let lsp = self.table.lsp(lsn);
        if self.scheme.movers.any(|other| other == lsp) {
            self.scheme.victims.cursor += 1;
            return true;
        }
        if self.scheme.victims.spilling {
            let passed = self.spill_lsp((first + slot, lsp), cx);
            self.scheme.victims.cursor += passed.unwrap_or(0);
            return passed.is_some();
        }
        if self.stays(lsp, victim) {
            let copied = self.copy_run(first + slot, sp - slot, cx);
            self.scheme.victims.cursor += copied;
            return copied > 0;
        }
        let begun = self.begin_move(lsp, cx);
        self.scheme.victims.cursor += u32::from(begun);
        begun
    }

    fn end_victim(&mut self, victim: u32) -> bool {
        self.scheme.victims.victim = None;
        if self.pool.valid(victim) == 0 {
            self.pool.become_(victim, State::Limbo, false);
            self.send_to_limbo(victim);
        } else if self.scheme.victims.failed || self.table.holds_lost(victim) {
            self.pool.become_(victim, State::Stuck, false);
            self.note_salvaged(victim, true);
        } else {
            self.pool.become_(victim, State::Full, false);
        }
        true
    }

    /// Begins to move the next LSP of the batch, or ends the batch.
    fn feed_batch(&mut self, cx: &mut Cx<Op>) -> bool {
        let lsps = self.table.lsps();
        let from = self.scheme.victims.cursor;
        let end = (from + LOOK).min(lsps);
        let movers = &self.scheme.movers;
        let next =
            (from..end).find(|lsp| !self.table.is_home(*lsp) && !movers.any(|other| other == *lsp));
        cx.touch((next.unwrap_or(end) - from) as usize);
        self.scheme.victims.cursor = next.unwrap_or(end);
        if let Some(lsp) = next {
            let begun = self.begin_move(lsp, cx);
            self.scheme.victims.cursor += u32::from(begun);
            return begun;
        }
        if end == lsps && !self.scheme.movers.is_busy() {
            self.scheme.victims.victim = None;
            return true;
        }
        end > from
    }
}

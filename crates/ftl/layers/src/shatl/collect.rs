//! sVGC: choice of the victims in the hidden area, and its schedule.
//!
//! The victim is the full superpage whose sectors touch the fewest LSPs; each of these LSPs goes
//! home ([`super::moves`]). In the mode `ressd` all LSPs with hidden sectors are moved in one
//! batch, in address order.

use hostftl_core::Event;

use crate::config::LayerConfig;
use crate::vsp::Area;
use crate::vsp::layout::FLOOR;
use crate::vsp::ops::{Cx, OWN_OPS};
use crate::vsp::pool::State;

use super::forward::Forward;
use super::hidden::HiddenMap;
use super::kills;
use super::lend;
use super::moves::Movers;
use super::ops::Op;
use super::params::Reclaim;
use super::route::Route;
use super::spill::Spill;

/// Superpages that are kept free, or about to be free, beyond the reserve.
const MARGIN: u32 = 8;
/// Divisor of the superpages that are not lent: the same margin for a roomy area, so that log
/// writes are rare.
const MARGIN_SHARE: u32 = 24;
/// LSPs that a batch examines in one step.
const SCAN: u32 = 4096;

/// Parts that take part in emptying a victim.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    movers: &'a mut Movers,
    forward: &'a mut Forward,
    spill: &'a mut Spill,
    route: &'a Route,
}

impl<'a> Parts<'a> {
    /// Bundles the parts.
    pub(super) fn new(
        movers: &'a mut Movers,
        forward: &'a mut Forward,
        spill: &'a mut Spill,
        route: &'a Route,
    ) -> Self {
        Parts { movers, forward, spill, route }
    }
}

/// The victim in progress.
#[derive(Debug)]
pub(super) struct Victims {
    reclaim: Reclaim,
    victim: Option<u32>,
    /// Next slot of the victim, or next LSP of the batch.
    cursor: u32,
    /// Whether part of the victim could not be moved.
    failed: bool,
    /// Whether only the LSPs that are worth it leave the victim.
    spilling: bool,
}

impl Victims {
    /// Creates the state without a victim.
    pub(super) fn new(config: &LayerConfig) -> Self {
        let reclaim = config.shatl.reclaim;
        Victims { reclaim, victim: None, cursor: 0, failed: false, spilling: false }
    }

    /// Returns the victim in progress.
    pub(super) fn victim(&self) -> Option<u32> {
        self.victim
    }

    /// Notes that part of the victim is unreadable.
    pub(super) fn note_failed(&mut self) {
        self.failed = true;
    }

    /// Assigns work to idle movers. Returns whether anything moved.
    pub(super) fn pump_victims<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        with: &mut Parts,
        cx: &mut Cx<Op>,
    ) -> bool {
        match self.victim {
            _ if !cx.is_running() || cx.commands_left() <= OWN_OPS / 2 => false,
            _ if with.forward.is_reading() => false,
            None => self.choose(area, with, cx),
            Some(victim) if self.reclaim == Reclaim::Fewest => {
                self.feed_victim(area, with, victim, cx)
            }
            Some(_) => self.feed_batch(area, with, cx),
        }
    }

    /// Chooses a victim, or starts a batch, when few superpages are free.
    fn choose<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        with: &mut Parts,
        cx: &mut Cx<Op>,
    ) -> bool {
        let free = area.pool.free() as u32;
        let reserve = area.layout.reserve;
        let own = area.layout.count - area.layout.lent;
        let more = if area.layout.is_roomy() { own / MARGIN_SHARE } else { area.layout.company() };
        let margin = MARGIN + more;
        if free <= reserve + MARGIN {
            area.request_limbo(true);
        }
        let leaving = lend::leaving_victim(area);
        let soon = free + area.pool.discarding() + area.pool.limbo().len() as u32;
        let enough = soon > reserve + margin;
        // A victim that is at most half valid frees space, even if few superpages remain.
        let early = (enough && soon <= kills::left_free(area))
            .then(|| area.pool.victim(area.layout.superpage / 2 + 1))
            .flatten();
        let now = enough && early.is_none();
        let spills = leaving.is_none() && (now || free > reserve);
        // To step aside is to make room for the drive, which takes the fewest moves this way.
        let first = early.filter(|_| area.table.homes().is_some_and(|homes| homes.is_aside()));
        if spills && first.is_none() && self.spill(area, with, cx) {
            return true;
        }
        if leaving.is_none() && now {
            // A host that fills a stage writes the log in passing; a direct write waits for
            // superpages and does not.
            let stuck = free <= FLOOR || with.route.waits;
            return free <= reserve && stuck && area.request_limbo(false);
        }
        let victim = leaving.or(early).or_else(|| area.pool.victim(area.layout.superpage + 1));
        let Some(victim) = victim else { return area.request_limbo(false) };
        self.begin_victim(area, with, victim, false, cx);
        true
    }

    /// Starts with a superpage that contains an LSP worth moving home. Returns whether there is
    /// one.
    fn spill<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        with: &mut Parts,
        cx: &mut Cx<Op>,
    ) -> bool {
        let slots = kills::hidden_slots(area);
        if !area.table.is_full(slots) {
            return false;
        }
        let victim = with.spill.spilled(area, cx);
        if let Some(victim) = victim {
            self.begin_victim(area, with, victim, true, cx);
        }
        victim.is_some()
    }

    fn begin_victim<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        with: &mut Parts,
        victim: u32,
        spilling: bool,
        cx: &mut Cx<Op>,
    ) {
        (self.victim, self.cursor, self.failed) = (Some(victim), 0, false);
        self.spilling = spilling;
        if self.reclaim == Reclaim::Fewest {
            area.pool.become_(victim, State::Victim, false);
            with.forward.read_victim(area, victim, cx);
        }
        cx.counters().gc_runs += 1;
        cx.report(Event::GcStarted);
    }

    /// Starts to move the next LSP with a sector in the victim, or finishes the victim.
    fn feed_victim<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        with: &mut Parts,
        victim: u32,
        cx: &mut Cx<Op>,
    ) -> bool {
        let sp = area.layout.superpage;
        let from = self.cursor;
        let first = area.pool.slots(victim).start;
        let next = (from..sp).find(|slot| area.table.valid(first + u64::from(*slot)).is_some());
        cx.touch((next.unwrap_or(sp) - from) as usize);
        self.cursor = next.unwrap_or(sp);
        let Some(slot) = next else {
            let busy = with.movers.is_busy() || with.forward.is_busy();
            return !busy && self.end_victim(area, victim);
        };
        let at = first + u64::from(slot);
        let lsn = area.table.valid(at).expect("the slot is valid");
        let lsp = area.table.lsp(lsn);
        if with.movers.any(|other| other == lsp) {
            self.cursor += 1;
            return true;
        }
        if self.spilling {
            let passed = self.spill_lsp(area, with, (at, lsp), cx);
            self.cursor += passed.unwrap_or(0);
            return passed.is_some();
        }
        if with.forward.stays(area, with.spill, (lsp, victim)) {
            let copied = with.forward.copy_run(area, at, sp - slot, cx);
            self.cursor += copied;
            return copied > 0;
        }
        let begun = with.movers.begin_move(area, with.route, lsp, cx);
        self.cursor += u32::from(begun);
        begun
    }

    fn end_victim<M: HiddenMap>(&mut self, area: &mut Area<M>, victim: u32) -> bool {
        self.victim = None;
        if area.pool.valid(victim) == 0 {
            area.pool.become_(victim, State::Limbo, false);
            area.send_to_limbo(victim);
        } else if self.failed || area.table.holds_lost(victim) {
            area.pool.become_(victim, State::Stuck, false);
            lend::note_evacuated(area, victim, true);
        } else {
            area.pool.become_(victim, State::Full, false);
        }
        true
    }

    /// Starts to move the next LSP of the batch, or finishes the batch.
    fn feed_batch<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        with: &mut Parts,
        cx: &mut Cx<Op>,
    ) -> bool {
        let lsps = area.table.lsps();
        let from = self.cursor;
        let end = (from + SCAN).min(lsps);
        let movers = &with.movers;
        let next =
            (from..end).find(|lsp| !area.table.is_home(*lsp) && !movers.any(|other| other == *lsp));
        cx.touch((next.unwrap_or(end) - from) as usize);
        self.cursor = next.unwrap_or(end);
        if let Some(lsp) = next {
            let begun = with.movers.begin_move(area, with.route, lsp, cx);
            self.cursor += u32::from(begun);
            return begun;
        }
        if end == lsps && !with.movers.is_busy() {
            self.victim = None;
            return true;
        }
        end > from
    }

    /// Starts to move an LSP home if it is worth it. Returns the number of slots to skip, or `None`
    /// if the move cannot start now.
    pub(super) fn spill_lsp<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        with: &mut Parts,
        (slot, lsp): (u64, u32),
        cx: &mut Cx<Op>,
    ) -> Option<u32> {
        cx.touch(area.layout.superpage as usize / 4);
        if !with.spill.is_worth_it(area, lsp) {
            return Some(kills::run_length(area, slot, lsp));
        }
        with.movers.begin_move(area, with.route, lsp, cx).then(|| {
            with.spill.take();
            kills::run_length(area, slot, lsp)
        })
    }
}

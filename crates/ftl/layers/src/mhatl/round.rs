//! Schedule of gathering (mVGC), and targets of writes.
//!
//! Invariants
//! - A round starts when there are more leaves than the cap. It ends at nine tenths of the cap, or
//!   after [`FUTILE`] consecutive victims that saved no further leaves. After such a futile round,
//!   none starts before the number of leaves has grown.
//! - Beyond the cap a small write either waits for the round, or gathers its whole LSP, so that it
//!   adds no leaf.

use hostftl_core::{Cause, Event};

use crate::config::LayerConfig;
use crate::vsp::Area;
use crate::vsp::layout::FLOOR;
use crate::vsp::ops::{Cx, OWN_OPS};

use super::Buddies;
use super::map::Map;
use super::ops::Op;
use super::params::Gather;

/// Superpages that gathering leaves free for GC.
const KEPT_FREE: usize = FLOOR as usize + 8;
/// Leaves that host writes leave free, in multiples of a superpage's sectors.
const KEPT_LEAVES: u32 = 32;
/// Leaves that are examined to find an LSP.
const SCAN: u32 = 8192;
/// Number of consecutive victims without gain after which a round ends.
const FUTILE: u32 = 64;

/// The round of gathering in progress.
#[derive(Debug)]
pub(super) struct Round {
    /// Cap on the number of leaves.
    pub cap: u32,
    gather: Gather,
    under_way: bool,
    victim: Option<u32>,
    /// LSPs of the victim whose gathering has started.
    begun: u32,
    /// Maximum of the leaves saved at the start of the round and after each victim.
    saved: i64,
    futile: u32,
    /// After a futile round: the number of leaves above which the next round starts.
    rest: u32,
}

impl Round {
    /// Creates the state without a round.
    pub(super) fn new(config: &LayerConfig) -> Self {
        Round {
            cap: config.mhatl.leaves,
            gather: config.mhatl.gather,
            under_way: false,
            victim: None,
            begun: 0,
            saved: 0,
            futile: 0,
            rest: 0,
        }
    }
}

impl Buddies {
    /// Returns whether the host may add leaves.
    pub(super) fn leaves_fit(&mut self, area: &mut Area<Map>) -> bool {
        let fit = area.table.leaves.room() > KEPT_LEAVES * area.layout.superpage;
        if !fit {
            self.round.rest = 0;
        }
        fit
    }

    /// Advances the round, or starts one. Returns whether anything moved.
    pub(super) fn pump_round(&mut self, area: &mut Area<Map>, cx: &mut Cx<Op>) -> bool {
        let count = area.table.leaves.count();
        let round = &mut self.round;
        if !cx.is_running() {
            round.victim = None;
            return false;
        }
        if !round.under_way {
            round.under_way = count > round.cap.max(round.rest);
            (round.futile, round.victim, round.saved) = (0, None, self.jobs.saved);
            return round.under_way;
        }
        if round.victim.is_none() && u64::from(count) * 10 <= u64::from(round.cap) * 9 {
            (round.under_way, round.rest) = (false, 0);
            return true;
        }
        match round.victim {
            None => self.choose_leaves(area, cx),
            Some(victim) => self.feed_jobs(area, victim, cx),
        }
    }

    fn choose_leaves(&mut self, area: &mut Area<Map>, cx: &mut Cx<Op>) -> bool {
        let Some(victim) = area.table.victim() else { return self.end_round(area) };
        let round = &mut self.round;
        (round.victim, round.begun) = (Some(victim), 0);
        self.jobs.failed = false;
        cx.counters().gc_runs += 1;
        cx.report(Event::GcStarted);
        true
    }

    fn end_round(&mut self, area: &mut Area<Map>) -> bool {
        let round = &mut self.round;
        round.under_way = false;
        round.rest = area.table.leaves.count() + area.layout.superpage;
        true
    }

    /// Starts to gather the next LSP with sectors in the victim, or finishes the victim.
    fn feed_jobs(&mut self, area: &mut Area<Map>, victim: u32, cx: &mut Cx<Op>) -> bool {
        // Only gathering a whole LSP is certain to save leaves, and the host waits for them when
        // they are scarce.
        let scarce = area.table.leaves.room() <= 2 * KEPT_LEAVES * area.layout.superpage;
        let of_vsp = self.round.gather == Gather::Vsp && !scarce;
        let most = if of_vsp { 1 } else { area.layout.superpage };
        let more = self.round.begun < most && !self.jobs.failed;
        let Some(lsp) = self.parted_lsp(area, victim, cx).filter(|_| more) else {
            return !self.jobs.is_busy() && self.end_leaves(area, victim);
        };
        // GC is below its reserve then, and requests superpages itself. Requests from here would
        // close the stage of GC after each victim, so that GC would gain nothing.
        if cx.commands_left() <= OWN_OPS / 2 || area.pool.free() <= KEPT_FREE {
            return false;
        }
        let begun = if of_vsp {
            self.gather_vsp(area, victim, cx)
        } else {
            self.gather_lsp(area, lsp, (0, 0), cx).is_some()
        };
        self.round.begun += u32::from(begun);
        begun
    }

    /// Returns an LSP with sectors in `vsp` that would need fewer leaves if it were gathered, and
    /// that no job is gathering.
    fn parted_lsp(&mut self, area: &mut Area<Map>, vsp: u32, cx: &mut Cx<Op>) -> Option<u32> {
        let (leaves, jobs) = (&area.table.leaves, &self.jobs);
        let looks = (SCAN / area.layout.superpage).max(8);
        cx.touch((looks * area.layout.superpage) as usize);
        let lsps = leaves.in_superpage(vsp).map(|leaf| leaves.lsp(leaf.lsn));
        let mut lsps = lsps.take(looks as usize);
        lsps.find(|lsp| !jobs.has(*lsp) && leaves.surplus(*lsp) > 0)
    }

    fn end_leaves(&mut self, area: &mut Area<Map>, victim: u32) -> bool {
        let saved = self.jobs.saved;
        let round = &mut self.round;
        round.victim = None;
        if saved > round.saved {
            (round.futile, round.saved) = (0, saved);
            return true;
        }
        round.futile += 1;
        let over = round.futile == FUTILE;
        area.table.touch(victim);
        if over { self.end_round(area) } else { true }
    }

    /// Advances a write. Returns whether anything moved.
    pub(super) fn write_leaves(&mut self, area: &mut Area<Map>, req: u16, cx: &mut Cx<Op>) -> bool {
        if !self.leaves_fit(area) || !area.may_gather() || cx.commands_left() <= OWN_OPS {
            return false;
        }
        let sp = u64::from(area.layout.superpage);
        let active = cx.request(req);
        let (lsn, left) = (active.lba + active.cursor, active.sectors - active.cursor);
        let (offset, lsp) = (lsn % sp, area.table.leaves.lsp(lsn));
        // A whole superpage becomes one leaf in a stage of its own.
        if offset == 0 && left >= sp {
            let Some(stage) = area.own_stage(cx) else { return false };
            return self.put_into(area, req, (stage, 0, sp as u32), cx);
        }
        let part = left.min(sp - offset);
        let wait = self.round.under_way;
        if area.table.leaves.count() <= self.round.cap
            || wait
            || area.table.leaves.in_lsp(lsp).next().is_none()
        {
            // Stops at the boundary if a whole superpage follows, which then needs one leaf.
            let most = if left >= 2 * sp - offset { part } else { left };
            return (!wait || self.room_past_cap(area)) && area.gather(req, most, cx);
        }
        if self.jobs.has(lsp) {
            return false;
        }
        let host = (offset as u32, part as u32);
        let Some(stage) = self.gather_lsp(area, lsp, host, cx) else { return false };
        self.put_into(area, req, (stage, host.0, host.1), cx)
    }

    /// Returns whether the number of leaves allows another small write during a round.
    fn room_past_cap(&self, area: &Area<Map>) -> bool {
        let (count, cap) = (area.table.leaves.count(), self.round.cap);
        u64::from(count) <= u64::from(cap) + u64::from(cap / 20)
    }

    /// Copies the next part of a write into a stage of its own.
    fn put_into(
        &mut self,
        area: &mut Area<Map>,
        req: u16,
        at: (u8, u32, u32),
        cx: &mut Cx<Op>,
    ) -> bool {
        let (index, _, len) = at;
        let stage = area.stages.at(index);
        stage.expect(Cause::Host, len);
        area.send_to_stage(req, at, cx);
        if len == area.layout.superpage {
            area.stages.at(index).close_at(len);
        }
        true
    }
}

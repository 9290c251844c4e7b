//! When leaves are gathered (mVGC), and where a write goes.
//!
//! Invariants
//! - A round begins when there are more leaves than the cap. It ends at nine tenths of the cap, or
//!   after [`FUTILE`] victims in a row with which it saved no more leaves than before: then no
//!   other begins until more leaves came.
//! - Past the cap a small write either waits for the round, or goes to its LSP in full, so that it
//!   adds no leaf.

use hostftl_core::{Cause, Event};

use crate::config::LayerConfig;
use crate::vsp::Machine;
use crate::vsp::layout::FLOOR;
use crate::vsp::ops::{Cx, OWN_OPS};

use super::Buddies;
use super::ops::Op;
use super::params::Gather;

/// Superpages that gathering leaves free for collection.
const KEPT_FREE: usize = FLOOR as usize + 8;
/// Leaves that the host leaves free, in sectors of a superpage.
const KEPT_LEAVES: u32 = 32;
/// Leaves that are looked at to find an LSP.
const LOOK: u32 = 8192;
/// Victims in a row of which nothing is gained, after which a round ends.
const FUTILE: u32 = 64;

/// See the module text.
#[derive(Debug)]
pub struct Round {
    /// Leaves that are wanted at the most.
    pub cap: u32,
    gather: Gather,
    under_way: bool,
    victim: Option<u32>,
    /// LSPs of the victim that were begun.
    begun: u32,
    /// The most that jobs had saved at the end of a victim of this round, or at its beginning.
    saved: i64,
    futile: u32,
    /// Since a futile round: begin none before there are more leaves than this.
    rest: u32,
}

impl Round {
    /// None under way.
    pub fn new(config: &LayerConfig) -> Self {
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

impl Machine<Buddies> {
    /// Whether a host may add leaves at all.
    pub(super) fn leaves_fit(&mut self) -> bool {
        let fit = self.table.leaves.room() > KEPT_LEAVES * self.layout.superpage;
        if !fit {
            self.scheme.round.rest = 0;
        }
        fit
    }

    /// Moves a round on, or begins one.
    pub(super) fn pump_round(&mut self, cx: &mut Cx<Op>) -> bool {
        let count = self.table.leaves.count();
        let round = &mut self.scheme.round;
        if !cx.is_running() {
            round.victim = None;
            return false;
        }
        if !round.under_way {
            round.under_way = count > round.cap.max(round.rest);
            (round.futile, round.victim, round.saved) = (0, None, self.scheme.jobs.saved);
            return round.under_way;
        }
        if round.victim.is_none() && u64::from(count) * 10 <= u64::from(round.cap) * 9 {
            (round.under_way, round.rest) = (false, 0);
            return true;
        }
        match round.victim {
            None => self.choose_leaves(cx),
            Some(victim) => self.feed_jobs(victim, cx),
        }
    }

    fn choose_leaves(&mut self, cx: &mut Cx<Op>) -> bool {
        let Some(victim) = self.table.victim() else { return self.end_round() };
        let round = &mut self.scheme.round;
        (round.victim, round.begun) = (Some(victim), 0);
        self.scheme.jobs.failed = false;
        cx.counters().gc_runs += 1;
        cx.tell(Event::GcStarted);
        true
    }

    fn end_round(&mut self) -> bool {
        let round = &mut self.scheme.round;
        round.under_way = false;
        round.rest = self.table.leaves.count() + self.layout.superpage;
        true
    }

    /// Begins to gather the next LSP that the victim holds part of, or ends with the victim.
    fn feed_jobs(&mut self, victim: u32, cx: &mut Cx<Op>) -> bool {
        // Only an LSP that is gathered has fewer leaves for certain, which the host waits for when
        // there is no room for more.
        let scarce = self.table.leaves.room() <= 2 * KEPT_LEAVES * self.layout.superpage;
        let of_vsp = self.scheme.round.gather == Gather::Vsp && !scarce;
        let most = if of_vsp { 1 } else { self.layout.superpage };
        let more = self.scheme.round.begun < most && !self.scheme.jobs.failed;
        let Some(lsp) = self.parted_lsp(victim, cx).filter(|_| more) else {
            return !self.scheme.jobs.is_busy() && self.end_leaves(victim);
        };
        if cx.command_room() <= OWN_OPS / 2 || self.free.len() <= KEPT_FREE {
            return self.press_limbo(false);
        }
        let begun = match of_vsp {
            true => self.gather_vsp(victim, cx),
            false => self.gather_lsp(lsp, (0, 0), cx).is_some(),
        };
        self.scheme.round.begun += u32::from(begun);
        begun
    }

    /// An LSP that gathering gives fewer leaves, one of them in a superpage, and that is not being
    /// gathered.
    fn parted_lsp(&mut self, vsp: u32, cx: &mut Cx<Op>) -> Option<u32> {
        let (leaves, jobs) = (&self.table.leaves, &self.scheme.jobs);
        let looks = (LOOK / self.layout.superpage).max(8);
        cx.touch((looks * self.layout.superpage) as usize);
        let lsps = leaves.in_superpage(vsp).map(|leaf| leaves.lsp(leaf.lsn));
        let mut lsps = lsps.take(looks as usize);
        lsps.find(|lsp| !jobs.has(*lsp) && leaves.surplus(*lsp) > 0)
    }

    fn end_leaves(&mut self, victim: u32) -> bool {
        let saved = self.scheme.jobs.saved;
        let round = &mut self.scheme.round;
        round.victim = None;
        if saved > round.saved {
            (round.futile, round.saved) = (0, saved);
            return true;
        }
        round.futile += 1;
        let over = round.futile == FUTILE;
        self.table.touch(victim);
        if over { self.end_round() } else { true }
    }

    /// Moves a write on.
    pub(super) fn write_leaves(&mut self, req: u16, cx: &mut Cx<Op>) -> bool {
        if !self.leaves_fit() || !self.may_gather() || cx.command_room() <= OWN_OPS {
            return false;
        }
        let sp = u64::from(self.layout.superpage);
        let active = cx.request(req);
        let (lsn, left) = (active.lba + active.cursor, active.sectors - active.cursor);
        let (offset, lsp) = (lsn % sp, self.table.leaves.lsp(lsn as u32));
        if offset == 0 && left >= sp {
            let Some(stage) = self.own_stage(cx) else { return false };
            return self.put_into(req, (stage, 0, sp as u32), cx);
        }
        let part = left.min(sp - offset);
        let wait = self.scheme.round.under_way;
        if self.table.leaves.count() <= self.scheme.round.cap
            || wait
            || self.table.leaves.of(lsp).next().is_none()
        {
            let most = if left >= 2 * sp - offset { part } else { left };
            return (!wait || self.room_past_cap()) && self.gather(req, most, cx);
        }
        if self.scheme.jobs.has(lsp) {
            return false;
        }
        let host = (offset as u32, part as u32);
        let Some(stage) = self.gather_lsp(lsp, host, cx) else { return false };
        self.put_into(req, (stage, host.0, host.1), cx)
    }

    /// Whether a round is close enough behind for one more small write.
    fn room_past_cap(&self) -> bool {
        let (count, cap) = (self.table.leaves.count(), self.scheme.round.cap);
        u64::from(count) <= u64::from(cap) + u64::from(cap / 20)
    }

    /// Puts the next part of a write into a stage of its own.
    fn put_into(&mut self, req: u16, at: (u8, u32, u32), cx: &mut Cx<Op>) -> bool {
        let (index, _, len) = at;
        let stage = &mut self.stages[index as usize];
        stage.placing += 1;
        stage.tally.add(Cause::Host, len);
        self.send_to_stage(req, at, cx);
        if len == self.layout.superpage {
            self.close_own(index, len);
        }
        true
    }
}

//! Where a write goes, and writes that go home.
//!
//! A direct write or a trim is one command. When it is over, the hidden copies that it replaced
//! die, LSP by LSP, and then it is answered.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Gather, Piece, Tally};

use crate::config::LayerConfig;
use crate::kit::requests::{Kind, SLOTS};
use crate::planted::{Bug, planted};
use crate::vsp::Machine;
use crate::vsp::ops::{Cx, OWN_OPS, Op::Own};
use crate::vsp::pool::{Lost, State};

use super::ops::Op;
use super::params::Reclaim;
use super::{Hidden, HiddenMap};

/// Streams whose ends are known.
const STREAMS: usize = 8;
/// LSPs that are looked at in one go.
const LOOK: u32 = 1024;

/// See the module text.
#[derive(Debug)]
pub struct Route {
    threshold: u64,
    /// Where the last writes ended, when writes that go on there go home.
    streams: Option<[u64; STREAMS]>,
    oldest: usize,
    /// Whether a direct write or a trim waits for free superpages.
    pub waits: bool,
    /// Commands under way for each request that goes home.
    homeward: Vec<u32>,
    /// All of them.
    under_way: u32,
    /// Those that are over but for the copies that they replaced: request, first sector and end.
    killing: VecDeque<(u16, u64, u64)>,
}

impl Route {
    /// Nothing under way.
    pub fn new(config: &LayerConfig) -> Self {
        let batch = config.shatl.reclaim == Reclaim::Batch;
        Route {
            threshold: config.shatl.direct_from(config.superpage).into(),
            streams: batch.then_some([u64::MAX; STREAMS]),
            oldest: 0,
            waits: false,
            homeward: vec![0; SLOTS],
            under_way: 0,
            killing: VecDeque::with_capacity(SLOTS),
        }
    }

    fn goes_home(&self, lba: u64, sectors: u64) -> bool {
        let follows = || self.streams.is_some_and(|ends| ends.contains(&lba));
        sectors >= self.threshold || follows()
    }

    /// Notes where a write ended.
    fn note(&mut self, lba: u64, end: u64) {
        let Some(ends) = &mut self.streams else { return };
        match ends.iter_mut().find(|at| **at == lba) {
            Some(at) => *at = end,
            None => {
                ends[self.oldest] = end;
                self.oldest = (self.oldest + 1) % STREAMS;
            }
        }
    }
}

impl<M: HiddenMap> Machine<Hidden<M>> {
    /// Moves the first write or trim on.
    pub fn route(&mut self, req: u16, cx: &mut Cx<Op>) -> bool {
        let active = cx.request(req);
        let (lba, sectors, kind, begun) =
            (active.lba, active.sectors, active.kind, active.cursor > 0);
        let end = lba + sectors;
        if kind == Kind::Trim {
            return self.trim_home(req, cx);
        }
        if !begun && !self.owns_homes(self.table.lsp(lba)..=self.table.lsp(end - 1), cx) {
            return false;
        }
        if self.scheme.route.goes_home(lba, sectors) && !begun {
            let ready = self.may_write_home(req, lba, end, cx);
            if ready {
                self.write_home(req, sectors, cx);
            }
            return ready;
        }
        if self.is_direct(lba, end, cx) || !self.admits() {
            return false;
        }
        let moved = self.gather(req, u64::MAX, cx);
        if moved && !begun {
            self.scheme.route.note(lba, end);
        }
        moved
    }

    /// Trims what comes next that is not lent. What is lent reads zeros.
    fn trim_home(&mut self, req: u16, cx: &mut Cx<Op>) -> bool {
        let sp = u64::from(self.layout.superpage);
        let active = cx.request(req);
        let (from, end) = (active.lba + active.cursor, active.lba + active.sectors);
        let (lsp, last) = (self.table.lsp(from), self.table.lsp(end - 1));
        let (lent, run) = match self.table.loans() {
            Some(loans) => (loans.has(lsp), loans.run(lsp, last + 1 - lsp)),
            None => (false, last + 1 - lsp),
        };
        let upto = end.min(u64::from(lsp + run) * sp);
        if lent {
            cx.request(req).cursor += upto - from;
            return true;
        }
        let ready = self.may_write_home(req, from, upto, cx);
        if ready {
            self.write_home(req, upto - from, cx);
        }
        ready
    }

    /// Whether sectors can be written or trimmed at home now.
    fn may_write_home(&mut self, req: u16, from: u64, end: u64, cx: &mut Cx<Op>) -> bool {
        // What dies by it needs log, and the superpages left are for collection.
        let log = self.free.len() > self.layout.reserve as usize;
        self.scheme.route.waits = !log;
        let few = (self.scheme.route.under_way as usize) < SLOTS;
        log && few && cx.command_room() > OWN_OPS && !self.is_taken(req, from, end, cx)
    }

    /// Whether something under way keeps a request from going home.
    fn is_taken(&mut self, req: u16, lba: u64, end: u64, cx: &mut Cx<Op>) -> bool {
        let lsps = self.table.lsp(lba)..=self.table.lsp(end - 1);
        let moved = self.scheme.movers.any(|lsp| lsps.contains(&lsp));
        let moved = moved && !planted(Bug::DirectOverMove);
        moved || self.changing(lba, end, cx).any(|other| other != req)
    }

    /// The writes and trims under way of any of the sectors `lba..end`.
    fn changing(&self, lba: u64, end: u64, cx: &mut Cx<Op>) -> impl Iterator<Item = u16> {
        let all = cx.requests().changing();
        let there = all.filter(move |(_, it)| it.lba < end && lba < it.lba + it.sectors);
        there.map(|(req, _)| req)
    }

    /// Whether a direct write or trim of any of the sectors `lba..end` is under way.
    pub(super) fn is_direct(&self, lba: u64, end: u64, cx: &mut Cx<Op>) -> bool {
        let route = &self.scheme.route;
        route.under_way > 0
            && self.changing(lba, end, cx).any(|req| route.homeward[usize::from(req)] > 0)
    }

    /// Sends the next `sectors` of a request home.
    fn write_home(&mut self, req: u16, sectors: u64, cx: &mut Cx<Op>) {
        let active = cx.request(req);
        let (at, first) = (active.cursor, active.lba + active.cursor);
        active.cursor += sectors;
        active.outstanding += 1;
        let lba = self.layout.home(first).expect("every sector has a home");
        let command = match &mut active.data {
            None => Command::Reset { device: 0, lba, sectors },
            Some(data) => {
                let view = data.view_sectors(at as u32, sectors as u32);
                let gather = Gather::from_iter([Piece::Data(view)]);
                let tally = Tally::of(Cause::Host, sectors as u32);
                Command::Program { device: 0, lba, gather, tally, placement: 0 }
            }
        };
        self.scheme.route.under_way += 1;
        self.scheme.route.homeward[usize::from(req)] += 1;
        if matches!(command, Command::Program { .. }) {
            self.scheme.route.note(first, first + sectors);
        }
        cx.submit(Own(Op::Direct { req, lsn: first, sectors }), command);
    }

    /// A direct write or trim is over on the device.
    pub fn direct_done(
        &mut self,
        (req, from, end): (u16, u64, u64),
        command: Command,
        ok: bool,
        cx: &mut Cx<Op>,
    ) {
        if let Command::Program { gather, .. } = command {
            for piece in gather {
                if let Piece::Data(view) = piece {
                    cx.requests().data(req).repay(view);
                }
            }
        }
        if ok && cx.is_good() {
            self.scheme.route.killing.push_back((req, from, end));
        } else {
            self.end_direct(req, cx);
        }
    }

    fn end_direct(&mut self, req: u16, cx: &mut Cx<Op>) {
        self.scheme.route.under_way -= 1;
        self.scheme.route.homeward[usize::from(req)] -= 1;
        cx.requests().part_over(req, true);
        self.complete_if_over(req, cx);
    }

    /// The device failed: nothing more dies.
    pub fn end_killing(&mut self, cx: &mut Cx<Op>) -> bool {
        let Some((req, ..)) = self.scheme.route.killing.pop_front() else { return false };
        self.end_direct(req, cx);
        true
    }

    /// Kills hidden copies that the first of the finished direct writes replaced.
    pub fn pump_killing(&mut self, cx: &mut Cx<Op>) -> bool {
        let Some(&(req, first, end)) = self.scheme.route.killing.front() else { return false };
        let sp = u64::from(self.layout.superpage);
        let from = self.table.lsp(first);
        let last = self.table.lsp(end - 1).min(from + LOOK);
        let busy = (from..=last).find(|lsp| !self.table.is_home(*lsp));
        cx.touch((busy.unwrap_or(last) - from + 1) as usize);
        let lsp = busy.unwrap_or(last);
        if busy.is_some() {
            if !self.room_for_kills() {
                return false;
            }
            let low = first.max(u64::from(lsp) * sp);
            self.kill_copies(lsp, low, end, cx);
        }
        let stop = end.min((u64::from(lsp) + 1) * sp);
        if stop < end {
            self.scheme.route.killing[0].1 = stop;
            return true;
        }
        self.scheme.route.killing.pop_front();
        self.direct.end_event();
        self.direct.host = self.direct.done;
        self.end_direct(req, cx);
        true
    }

    /// Whether all copies of an LSP may be killed now; asks for what makes room if not.
    pub fn room_for_kills(&mut self) -> bool {
        let room = self.direct.room() >= self.layout.superpage as usize;
        if !room {
            // What is open is closed too: its pad carries the log where no superpage is left.
            self.commit = self.commit.max(self.mark_all());
        }
        room
    }

    /// Kills the hidden copies of the sectors `low..end` of an LSP.
    fn kill_copies(&mut self, lsp: u32, low: u64, end: u64, cx: &mut Cx<Op>) {
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
            State::Staged(index) => self.stages[index as usize].stamp.max(self.log.sealed),
            _ => self.log.sealed,
        };
        cx.touch(1);
        self.direct.kill(slot, stamp);
        self.checkpoint.changed(slot.into());
        if let Lost::Last(vsp) = self.table.kill(&mut self.pool, lsn) {
            self.limbo.push(&mut self.pool, vsp);
        }
    }

    /// Ends an event of kills.
    pub fn end_kills(&mut self) {
        self.direct.end_event();
        let mark = self.mark_all();
        self.limbo.mark(mark);
    }
}

//! Choice between home and hidden area for each write, and the writes to homes.
//!
//! A direct write or a trim is one command. After its completion the hidden copies that it replaced
//! are killed, LSP by LSP, and then the request is acknowledged.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Gather, Piece, Tally};

use crate::config::LayerConfig;
use crate::kit::requests::{Kind, SLOTS};
use crate::planted::{Bug, planted};
use crate::vsp::Area;
use crate::vsp::layout::Layout;
use crate::vsp::ops::{Cx, OWN_OPS, Op::Own};

use super::hidden::HiddenMap;
use super::kills;
use super::lend;
use super::moves::Movers;
use super::ops::Op;
use super::params::Reclaim;
use super::price::Price;

/// Number of streams whose ends are tracked.
const STREAMS: usize = 8;
/// LSPs that one step scans for replaced copies.
const SCAN: u32 = 1024;

/// Targets of writes, and the direct writes in flight.
#[derive(Debug)]
pub(super) struct Route {
    threshold: u64,
    /// Costs of small writes at home and in the hidden area.
    price: Price,
    /// Ends of the last writes, if a write that continues one of them goes home.
    streams: Option<[u64; STREAMS]>,
    oldest: usize,
    /// Whether a direct write or a trim waits for free superpages.
    pub waits: bool,
    /// Number of direct commands in flight for each request.
    homeward: Vec<u32>,
    /// Sum of `homeward`.
    under_way: u32,
    /// Completed commands whose replaced copies are not killed yet: request, first sector and end.
    killing: VecDeque<(u16, u64, u64)>,
}

impl Route {
    pub(super) fn new(config: &LayerConfig, layout: &Layout) -> Self {
        let batch = config.shatl.reclaim == Reclaim::Batch;
        let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
        Route {
            threshold: config.shatl.direct_from(config.superpage).into(),
            price: Price::new(layout.unit, layout.superpage, lsps),
            streams: batch.then_some([u64::MAX; STREAMS]),
            oldest: 0,
            waits: false,
            homeward: vec![0; SLOTS],
            under_way: 0,
            killing: VecDeque::with_capacity(SLOTS),
        }
    }

    fn is_for_home<M: HiddenMap>(&self, area: &Area<M>, lba: u64, sectors: u64) -> bool {
        let follows = || self.streams.is_some_and(|ends| ends.contains(&lba));
        let (first, last) = (area.table.lsp(lba), area.table.lsp(lba + sectors - 1));
        let is_home = || (first..=last).all(|lsp| area.table.is_home(lsp));
        self.is_large(lba, sectors) || self.price.is_aside() && is_home() || follows()
    }

    /// Returns whether a write costs no more than its own length at home.
    fn is_large(&self, lba: u64, sectors: u64) -> bool {
        sectors >= self.threshold || self.price.is_whole(lba, sectors)
    }

    /// Counts a write, and decides at the end of a window how the next ones are treated. `direct`
    /// states whether it goes home.
    fn count<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        (lba, sectors): (u64, u64),
        direct: bool,
        cx: &mut Cx<Op>,
    ) {
        if self.is_large(lba, sectors) {
            self.price.note_large(sectors);
        } else {
            self.price.note_small((lba, sectors), area.is_protected(), direct);
        }
        let counters = cx.counters();
        let log = counters.padded + counters.map_written + counters.checkpoint_written;
        let Some([hidden, home]) = area.table.homes().map(|homes| homes.total()) else { return };
        let programs = [hidden + log, home];
        if !self.price.is_due(programs) {
            return;
        }
        let free = area.pool.free() as u32 + area.pool.discarding();
        let used = kills::superpages(area).saturating_sub(free);
        let leaving = u64::from(area.table.away()) * u64::from(area.layout.superpage);
        let homes = area.table.homes().expect("only a map with homes has their total");
        homes.steer(self.price.settle(programs, homes.copies(used), leaving));
    }

    /// Records the end of a write.
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

    /// Advances the first write or trim in the queue.
    ///
    /// A small write does not start while the hidden area is too full and data is leaving it.
    /// Otherwise a fast host could fill the area completely.
    pub(super) fn route<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        (movers, collects): (&Movers, bool),
        req: u16,
        cx: &mut Cx<Op>,
    ) -> bool {
        let active = cx.request(req);
        let (lba, sectors, kind, begun) =
            (active.lba, active.sectors, active.kind, active.cursor > 0);
        let end = lba + sectors;
        if kind == Kind::Trim {
            return self.trim_home(area, movers, req, cx);
        }
        if !begun && !lend::owns_homes(area, area.table.lsp(lba)..=area.table.lsp(end - 1), cx) {
            return false;
        }
        if !begun && self.is_for_home(area, lba, sectors) {
            let ready = self.may_write_home(area, movers, req, lba, end, cx);
            if ready {
                self.write_home(area, req, sectors, cx);
                self.count(area, (lba, sectors), true, cx);
            }
            return ready;
        }
        if self.is_direct(lba, end, cx) || !kills::admits(area) {
            return false;
        }
        let slots = kills::hidden_slots(area);
        if !begun && collects && area.table.is_full(slots) {
            return false;
        }
        let moved = area.gather(req, u64::MAX, cx);
        if moved && !begun {
            self.count(area, (lba, sectors), false, cx);
            self.note(lba, end);
        }
        moved
    }

    /// Trims the next range of sectors whose homes are not lent. Sectors of lent homes read as
    /// zeros already.
    fn trim_home<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        movers: &Movers,
        req: u16,
        cx: &mut Cx<Op>,
    ) -> bool {
        let sp = u64::from(area.layout.superpage);
        let active = cx.request(req);
        let (from, end) = (active.lba + active.cursor, active.lba + active.sectors);
        let (lsp, last) = (area.table.lsp(from), area.table.lsp(end - 1));
        let (lent, run) = match area.table.loans() {
            Some(loans) => (loans.has(lsp), loans.run(lsp, last + 1 - lsp)),
            None => (false, last + 1 - lsp),
        };
        let upto = end.min(u64::from(lsp + run) * sp);
        if lent {
            cx.request(req).cursor += upto - from;
            return true;
        }
        let ready = self.may_write_home(area, movers, req, from, upto, cx);
        if ready {
            self.write_home(area, req, upto - from, cx);
        }
        ready
    }

    /// Returns whether sectors can be written or trimmed at home now.
    fn may_write_home<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        movers: &Movers,
        req: u16,
        from: u64,
        end: u64,
        cx: &mut Cx<Op>,
    ) -> bool {
        // The kills that follow need log, and the superpages of the reserve are for GC.
        let log = area.pool.free() > area.layout.reserve as usize;
        self.waits = !log;
        let few = (self.under_way as usize) < SLOTS;
        log && few
            && cx.commands_left() > OWN_OPS
            && !self.is_taken(area, movers, req, from, end, cx)
    }

    /// Returns whether an operation in progress overlaps a request that should go home.
    fn is_taken<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        movers: &Movers,
        req: u16,
        lba: u64,
        end: u64,
        cx: &mut Cx<Op>,
    ) -> bool {
        let lsps = area.table.lsp(lba)..=area.table.lsp(end - 1);
        let moved = movers.any(|lsp| lsps.contains(&lsp));
        let moved = moved && !planted(Bug::DirectOverMove);
        moved
            || area.stages.is_homing(lba, end)
            || self.changing(lba, end, cx).any(|other| other != req)
    }

    /// Returns the writes and trims in flight that overlap the sectors `lba..end`.
    fn changing(&self, lba: u64, end: u64, cx: &mut Cx<Op>) -> impl Iterator<Item = u16> {
        let all = cx.requests().changing();
        let there = all.filter(move |(_, it)| it.lba < end && lba < it.lba + it.sectors);
        there.map(|(req, _)| req)
    }

    /// Returns whether a direct write or trim of any sector in `lba..end` is in progress.
    pub(super) fn is_direct(&self, lba: u64, end: u64, cx: &mut Cx<Op>) -> bool {
        self.under_way > 0
            && self.changing(lba, end, cx).any(|req| self.homeward[usize::from(req)] > 0)
    }

    /// Submits the next `sectors` of a request to their homes.
    fn write_home<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        req: u16,
        sectors: u64,
        cx: &mut Cx<Op>,
    ) {
        let active = cx.request(req);
        let (at, first) = (active.cursor, active.lba + active.cursor);
        active.cursor += sectors;
        active.outstanding += 1;
        let lba = area.layout.home(first).expect("every sector has a home slot");
        let is_trim = active.data.is_none();
        let command = match &mut active.data {
            None => Command::Reset { device: 0, lba, sectors },
            Some(data) => {
                let view = data.view_sectors(at as u32, sectors as u32);
                let gather = Gather::from_iter([Piece::Data(view)]);
                let tally = Tally::single(Cause::Host, sectors as u32);
                Command::Program { device: 0, lba, gather, tally, placement: 0 }
            }
        };
        self.under_way += 1;
        self.homeward[usize::from(req)] += 1;
        let sp = u64::from(area.layout.superpage);
        let end = first + sectors;
        match area.table.homes() {
            Some(homes) if is_trim => homes.clear(first.div_ceil(sp) as u32..(end / sp) as u32),
            Some(homes) => homes.fill((first / sp) as u32..end.div_ceil(sp) as u32, sectors),
            None => {}
        }
        if !is_trim {
            self.note(first, end);
        }
        cx.submit(Own(Op::Direct { req, lsn: first, sectors }), command);
    }

    /// Handles the completion of a direct write or trim.
    pub(super) fn direct_done<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
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
            self.killing.push_back((req, from, end));
        } else {
            self.end_direct(area, req, cx);
        }
    }

    fn end_direct<M: HiddenMap>(&mut self, area: &mut Area<M>, req: u16, cx: &mut Cx<Op>) {
        self.under_way -= 1;
        self.homeward[usize::from(req)] -= 1;
        cx.requests().part_over(req, true);
        area.complete_if_over(req, cx);
    }

    /// Completes direct writes without kills after a device failure. Returns whether one was left.
    pub(super) fn end_killing<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        cx: &mut Cx<Op>,
    ) -> bool {
        let Some((req, ..)) = self.killing.pop_front() else { return false };
        self.end_direct(area, req, cx);
        true
    }

    /// Kills hidden copies that the oldest completed direct write replaced.
    pub(super) fn pump_killing<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        cx: &mut Cx<Op>,
    ) -> bool {
        let Some(&(req, first, end)) = self.killing.front() else { return false };
        let sp = u64::from(area.layout.superpage);
        let from = area.table.lsp(first);
        let last = area.table.lsp(end - 1).min(from + SCAN);
        let busy = (from..=last).find(|lsp| !area.table.is_home(*lsp));
        cx.touch((busy.unwrap_or(last) - from + 1) as usize);
        let lsp = busy.unwrap_or(last);
        if busy.is_some() {
            if !kills::room_for_kills(area) {
                return false;
            }
            let low = first.max(u64::from(lsp) * sp);
            kills::kill_copies(area, lsp, low, end, cx);
        }
        let stop = end.min((u64::from(lsp) + 1) * sp);
        if stop < end {
            self.killing[0].1 = stop;
            return true;
        }
        self.killing.pop_front();
        area.direct.end_event();
        area.direct.acknowledge();
        self.end_direct(area, req, cx);
        true
    }
}

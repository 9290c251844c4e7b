//! Path from the filling stage to durable media, and from an empty superpage to a free one.

use hostftl_core::{
    Cause, Command, DeviceError, Gather, MetaBuf, Piece, SECTORS_PER_BLOCK, Tally, Verdict,
};
use hostftl_format::hard::Listing;

use crate::kit::Life;
use crate::planted::{Bug, planted};

use super::area::Area;
use super::homing;
use super::layout::FLOOR;
use super::log::{Log, Mark, Point};
use super::ops::{Cx, Op};
use super::parts;
use super::pool::State;
use super::stage::{Part, Phase, runs};
use super::table::Table;

/// Free superpages reserved for log writes that free other superpages.
const LAST_FREE: usize = 3;
/// Idle stages reserved for data in the order of arrival.
const KEPT_STAGES: usize = 2;
/// Names of free superpages reserved for forced log writes.
pub(crate) const LAST_NAMES: u32 = 2;

impl<T: Table> Area<T> {
    /// Returns the stage being filled, and opens one if necessary and possible.
    pub(crate) fn filling_stage(&mut self) -> Option<u8> {
        match self.stages.filling() {
            // The slots of a part must not change until it is listed.
            Some(_) if self.stages.is_parting() => return None,
            Some(_) => self.stages.wake(),
            None => {
                let index = self.open_stage(self.kept_for_log())?;
                self.stages.fill(index);
            }
        }
        self.stages.filling()
    }

    /// Opens a stage whose last `kept` slots are reserved for log pages, if possible.
    fn open_stage(&mut self, kept: u32) -> Option<u8> {
        let idle = self.stages.idle()?;
        // The remaining free superpages are for log writes.
        if self.pool.free() <= FLOOR as usize {
            return None;
        }
        // Replay searches the next log write in the named superpages only, so some must be left for
        // it. The next log write names more.
        if self.log.horizon() <= LAST_NAMES {
            self.durability_requests.request_log_write();
            return None;
        }
        let vsp = self.take_free();
        self.pool.open(vsp, idle);
        self.stages.open(idle, vsp, self.layout.superpage - kept);
        Some(idle)
    }

    /// Opens a stage for one object of a superpage's size, beside the stage being filled. It can't
    /// be listed before that stage, which is closed early if too many stages wait for it.
    pub(crate) fn own_stage(&mut self, cx: &mut Cx<T::Op>) -> Option<u8> {
        let idle = self.stages.idle_count();
        if idle >= KEPT_STAGES {
            let index = self.open_stage(0)?;
            self.stages.at(index).take_all();
            return Some(index);
        }
        if self.stages.waiting() > KEPT_STAGES
            && self.stages.filling().is_some()
            && self.stages.front() == self.stages.filling()
        {
            self.stages.close_filling();
            cx.wake();
        }
        None
    }

    /// Takes a superpage that may be opened. The caller has checked the horizon.
    pub(crate) fn take_free(&mut self) -> u32 {
        self.log.take_names(1);
        self.pool.take_free().expect("a superpage is free")
    }

    /// Returns whether a log write is worth the pages that it takes.
    pub(crate) fn log_is_due(&self) -> bool {
        self.log.has_entries()
            && (self.log.horizon() <= self.log.listed() / 2
                || 2 * self.log.pages_used() >= self.log.max_pages()
                || self.log_presses())
    }

    /// Returns whether superpages in limbo wait for a log write while few others are free.
    fn log_presses(&self) -> bool {
        match self.layout.home {
            None => self.pool.free() <= FLOOR as usize + 3,
            Some(_) if self.layout.is_roomy() => {
                let own = (self.layout.count - self.layout.lent) as usize;
                self.pool.limbo().len() > 2 * LAST_FREE + (own / 32).max(self.pool.free() / 8)
            }
            Some(_) => self.pool.limbo().len() > 2 * LAST_FREE + self.layout.company() as usize,
        }
    }

    /// Returns the number of slots of the next stage that log pages will take, if a log write is
    /// due.
    fn kept_for_log(&self) -> u32 {
        let pages = (self.log.pages_used() + 1).min(self.log.max_pages());
        let slots = pages * SECTORS_PER_BLOCK;
        if self.log_is_due() && slots <= self.layout.superpage / 2 { slots } else { 0 }
    }

    /// Closes the filling stage when no slot is left.
    pub(crate) fn close_if_full(&mut self) {
        let filling = self.stages.filling();
        if filling.is_some_and(|index| self.stages.get(index).room() == 0) {
            self.stages.close_filling();
        }
    }

    /// Checksums, lists and programs the oldest stage that is not listed.
    pub(crate) fn pump_seal(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let Some(index) = self.stages.front() else { return false };
        let stage = self.stages.at(index);
        // The listing needs the final set of sectors, so it waits for all copies into the stage.
        if cx.commands_left() == 0 || stage.placing() > 0 {
            return false;
        }
        match stage.phase() {
            Phase::Filling => parts::pump_part(self, index, cx),
            Phase::Closed if stage.part() != Part::None => {
                let digested = stage.part() != Part::Digesting;
                if digested {
                    stage.drop_part();
                }
                digested
            }
            Phase::Closed => {
                let (from, seed) = (stage.begin_digest(), stage.vsp().into());
                cx.submit(Op::Digest { stage: index }, Command::Digest { from, seed });
                true
            }
            Phase::Digested(crc) => self.list_and_program(index, crc, cx),
            Phase::Homed => homing::list_homed(self, index, cx),
            _ => false,
        }
    }

    pub(crate) fn digested(
        &mut self,
        index: u8,
        command: Command,
        result: Result<Verdict, DeviceError>,
    ) {
        let Command::Digest { from, .. } = command else { unreachable!("a completed digest") };
        let crc = result.expect("a checksum in memory succeeds").crc;
        self.stages.at(index).digested(from, crc);
    }

    fn list_and_program(&mut self, index: u8, crc: u32, cx: &mut Cx<T::Op>) -> bool {
        let stage = self.stages.get(index);
        let (fill, stamp) = (stage.fill(), stage.stamp());
        // Reads go to media when the whole superpage is there.
        if stage.has_parts_in_flight() {
            return false;
        }
        if !self.log.fits(fill) {
            self.durability_requests.request_log_write();
            return false;
        }
        // The listing precedes the program, so that the superpage can carry a log write about
        // itself.
        self.list(index, crc, cx);
        self.log.seal(stamp);
        self.stages.front_listed();
        let pad = self.layout.superpage - fill - self.stages.get(index).top();
        // The log write goes into the padding of this superpage if it fits, and takes none of its
        // own.
        let covered = self.log.composed().mark.covers(self.durability_requests.soon());
        let asked = !covered && self.log.sealed() >= self.durability_requests.soon().stamp;
        let room = pad / SECTORS_PER_BLOCK >= self.log.pages_used() && self.pool.free() > 0;
        let carry = (asked || self.log_is_due()) && room && self.log.can_compose();
        let log = carry.then(|| self.compose_into(index));
        self.program_stage(index, log, cx);
        true
    }

    /// Lists the sectors of a stage.
    pub(super) fn list(&mut self, index: u8, crc: u32, cx: &mut Cx<T::Op>) {
        let stage = self.stages.get(index);
        let listing =
            Listing { superpage: stage.vsp(), crc, fill: stage.fill() as u16, lost: false };
        self.log.list(&listing, runs(|slot| stage.unlisted(slot), stage.fill()));
        cx.touch(stage.fill() as usize);
    }

    /// Composes a log write for superpage `vsp`, before its last `top` slots.
    fn compose(&mut self, vsp: u32, top: u32) -> (MetaBuf, u32, Point) {
        let slots = self.log.pages_used() * SECTORS_PER_BLOCK;
        let at = self.layout.data_at(vsp) + u64::from(self.layout.superpage - top - slots);
        let composed = self.log.compose(vsp, at, self.stages.queued(), self.pool.free_list());
        self.durability_requests.log_write_composed();
        composed
    }

    /// Composes a log write for the superpage of a stage, and pins it.
    pub(super) fn compose_into(&mut self, index: u8) -> (MetaBuf, u32, Point) {
        let stage = self.stages.get(index);
        let (vsp, pin) = (stage.vsp(), stage.pin());
        let composed = self.compose(vsp, stage.top());
        let seq = composed.2.seq;
        if self.pool.pinned(vsp) {
            self.pool.pin_again(pin, seq);
        } else {
            let pin = self.pool.pin_last(vsp, seq);
            self.stages.at(index).set_pin(pin);
            self.pool.become_(vsp, State::Staged(index), true);
        }
        composed
    }

    fn program_stage(&mut self, index: u8, log: Option<(MetaBuf, u32, Point)>, cx: &mut Cx<T::Op>) {
        let sp = self.layout.superpage;
        let stage = self.stages.at(index);
        let (vsp, from, rest) = (stage.vsp(), stage.from(), sp - stage.fill() - stage.top());
        let (data, mut tally) = stage.begin_program();
        let mut gather: Gather = data.map(Piece::Data).into_iter().collect();
        let point = log.as_ref().map(|(_, _, point)| *point);
        self.finish_gather(&mut gather, &mut tally, rest, log, cx);
        let serial = self.log.sent(point);
        let lba = self.layout.data_at(vsp) + u64::from(from);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        cx.submit(Op::Program { stage: index, serial }, command);
    }

    /// Fills the rest of a superpage with zeros and, at its end, log pages.
    fn finish_gather(
        &mut self,
        gather: &mut Gather,
        tally: &mut Tally,
        rest: u32,
        log: Option<(MetaBuf, u32, Point)>,
        cx: &mut Cx<T::Op>,
    ) {
        let slots = log.as_ref().map_or(0, |(_, pages, _)| pages * SECTORS_PER_BLOCK);
        if rest > slots {
            gather.push(Piece::zero_sectors(rest - slots));
            tally.add(Cause::Pad, rest - slots);
            cx.counters().padded += u64::from(rest - slots);
        }
        // Replay reads the last page of a superpage first: log pages are at its very end.
        if let Some((buf, pages, _)) = log {
            gather.push(Piece::Meta { buf, pages });
            tally.add(Cause::Map, slots);
            cx.counters().map_written += u64::from(slots);
        }
    }

    /// Completes the program of a stage.
    pub(crate) fn programmed(&mut self, index: u8, serial: u64, command: Command, ok: bool) {
        let Command::Program { gather, .. } = command else { unreachable!("a completed program") };
        let stage = self.stages.at(index);
        let vsp = stage.vsp();
        for piece in gather {
            match piece {
                Piece::Data(view) => stage.repay(view),
                Piece::Meta { buf, .. } => self.log.give_back(buf),
                Piece::Zeros(_) => {}
            }
        }
        if !ok {
            return; // The stage keeps the only copy; reads continue from it.
        }
        stage.programmed();
        self.log.programmed(serial);
        self.settle_superpage(vsp, self.pool.pinned(vsp));
    }

    pub(crate) fn log_written(&mut self, vsp: u32, serial: u64, command: Command, ok: bool) {
        let Command::Program { gather, .. } = command else { unreachable!("a completed program") };
        for piece in gather {
            if let Piece::Meta { buf, .. } = piece {
                self.log.give_back(buf);
            }
        }
        if ok {
            self.log.programmed(serial);
            self.settle_superpage(vsp, self.pool.pinned(vsp));
        }
    }

    /// Sets the state of a superpage on media: full, possibly pinned, or in limbo.
    fn settle_superpage(&mut self, vsp: u32, pinned: bool) {
        if pinned || self.pool.valid(vsp) > 0 {
            let stuck = self.pool.state(vsp) == State::Stuck;
            // A pinned superpage may be empty; it goes into limbo when it is unpinned.
            let state = if stuck { State::Stuck } else { State::Full };
            return self.pool.become_(vsp, state, pinned);
        }
        self.pool.become_(vsp, State::Limbo, false);
        self.send_to_limbo(vsp);
    }

    /// Closes stages and writes log pages alone where a commit needs it.
    pub(crate) fn pump_commit(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let commit = self.durability_requests.soon();
        self.durability_requests.request_eventually(commit);
        let covered = self.log.composed().mark.covers(commit);
        let early = |index: u8| self.stages.get(index).stamp() <= commit.stamp;
        // The commit needs data of the filling stage, which must be listed first.
        let early = |index: &u8| !self.stages.is_dormant() && early(*index);
        match self.stages.filling().filter(early).filter(|_| !covered) {
            Some(_) if self.stages.is_parting() => {}
            Some(index) if parts::can_part(self, index) => {
                return parts::begin_part(self, index, cx);
            }
            Some(_) => {
                self.stages.close_filling();
                return true;
            }
            None => {}
        }
        // Everything that the commit needs is listed, but no stage carried the log pages.
        let alone = self.durability_requests.wants_log_write()
            || (!covered && self.log.sealed() >= commit.stamp);
        if !alone || !self.log.can_compose() || cx.commands_left() == 0 {
            return false;
        }
        if let Some(index) = parts::stage_for_log(self) {
            parts::write_log_into(self, index, cx);
            return true;
        }
        if self.log.horizon() == 0 {
            return false;
        }
        if self.layout.home.is_some() && self.pool.free() <= LAST_FREE && !self.log_may_take(cx) {
            self.request_root();
            return false;
        }
        self.write_log_alone(cx);
        true
    }

    /// Returns whether a log write of its own may take one of the last superpages: it frees others,
    /// or a root needs it. A root only needs all opened stages to be listed, and no stage is opened
    /// while so few superpages are left. Two such log writes are therefore enough, and one
    /// superpage remains.
    fn log_may_take(&self, cx: &mut Cx<T::Op>) -> bool {
        if cx.life() == Life::Starting {
            return true;
        }
        // It frees more than `LAST_FREE` superpages.
        let frees =
            self.pool.limbo().mark_at(LAST_FREE).is_some_and(|mark| self.next_log_covers(mark));
        // The oldest stage does not fit the log, and later stages wait for it.
        let lists = self.stages.front().is_some_and(|index| {
            let stage = self.stages.get(index);
            match stage.phase() {
                Phase::Digested(_) => !self.log.fits(stage.fill()),
                Phase::Homed => !homing::fits_homed(self),
                _ => false,
            }
        });
        let all = Mark { stamp: self.stages.opened(), pos: self.log.trimmed(), direct: 0 };
        let last = self.stages.waiting() == 0 && !self.log.composed().mark.covers(all);
        self.pool.free() > 1 && (frees || lists || last)
    }

    /// Logs kills whose writes are durable, and requests durability for the others. When few
    /// superpages are left, kills leave room in the log for the listings of all stages. Otherwise
    /// the log would need superpages for kills alone, before a root could make the kills durable
    /// without the log.
    pub(crate) fn pump_kills(&mut self) -> bool {
        let few = self.pool.free() <= LAST_FREE;
        let waiting = if few { self.stages.waiting() as u32 } else { 0 };
        let fits = |log: &Log| log.fits_trim_and(waiting, self.layout.superpage);
        self.direct.log_kills(&mut self.log, &mut self.durability_requests, fits)
    }

    /// Requests a root when the log may take no superpage. The root makes in-place replacements
    /// durable, and frees the superpages of the log before it.
    fn request_root(&mut self) {
        if self.direct.waits() || self.pool.pins() > 0 {
            self.durability_requests
                .request_soon(Mark { stamp: self.stages.opened(), ..Mark::default() });
            self.checkpoint.hurry();
        }
    }

    /// Returns whether the next log write covers `mark` although the last one does not.
    fn next_log_covers(&self, mark: Mark) -> bool {
        let composed = self.log.composed().mark;
        let kills = self.direct.logged(mark.direct);
        let new = !composed.covers(mark) || kills.is_some_and(|pos| pos > composed.pos);
        self.log.sealed() >= mark.stamp && kills.is_some() && new
    }

    fn write_log_alone(&mut self, cx: &mut Cx<T::Op>) {
        let vsp = self.take_free();
        // The superpage has no staging buffer.
        self.pool.open(vsp, u8::MAX);
        self.pool.become_(vsp, State::Log, true);
        let log = self.compose(vsp, 0);
        self.pool.pin_last(vsp, log.2.seq);
        let serial = self.log.sent(Some(log.2));
        let mut gather = Gather::new();
        let mut tally = Tally::default();
        self.finish_gather(&mut gather, &mut tally, self.layout.superpage, Some(log), cx);
        let lba = self.layout.data_at(vsp);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        cx.submit(Op::Log { vsp, serial }, command);
    }

    /// Queues an empty superpage, which becomes free when its emptiness is durable.
    pub(crate) fn send_to_limbo(&mut self, vsp: u32) {
        self.pool.push_limbo(vsp);
        self.pool.mark_limbo(self.mark_all());
    }

    /// Frees a superpage whose emptiness is durable, after discarding it if the device accepts
    /// discards.
    pub(crate) fn pump_limbo(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let Some((vsp, mark)) = self.pool.limbo().front() else { return false };
        // A reader still uses the old data; the superpage must not be rewritten under it.
        let unread = !self.pool.is_read(vsp) || planted(Bug::VictimNotPinned);
        let durable = self.durable().covers(mark) || planted(Bug::EarlyReuse);
        if !durable || !unread || cx.commands_left() == 0 {
            return false;
        }
        if self.pool.leave_limbo() {
            let (lba, sectors) = (self.layout.data_at(vsp), self.layout.superpage.into());
            let command = Command::Reset { device: 0, lba, sectors };
            cx.submit(Op::Discard { vsp }, command);
        } else {
            self.release(vsp);
        }
        true
    }

    /// Requests a commit that frees superpages, or a checkpoint if log pages pin them. With `soft`,
    /// stages stay open. Returns whether the request is new.
    pub(crate) fn request_limbo(&mut self, soft: bool) -> bool {
        if let Some(mark) = self.pool.limbo().last_mark() {
            let before = self.durability_requests;
            if soft {
                self.durability_requests.request_eventually(mark);
            } else {
                self.durability_requests.request_soon(mark);
            }
            return self.durability_requests != before;
        }
        self.pool.pins() > 0 && self.checkpoint.hurry()
    }

    /// Completes the discard of a superpage. Its result doesn't matter.
    pub(crate) fn discarded(&mut self, vsp: u32) {
        self.pool.discarded();
        self.release(vsp);
    }

    /// Makes a superpage usable again.
    pub(crate) fn release(&mut self, vsp: u32) {
        self.table.is_readable_again(vsp);
        if self.table.is_given(vsp) {
            return self.pool.become_(vsp, State::Home, false);
        }
        self.pool.become_(vsp, State::Free, false);
        self.pool.add_free(vsp);
    }

    /// Unpins the superpages with log writes before `first_needed`, which a durable root doesn't
    /// need.
    pub(crate) fn unpin(&mut self, first_needed: u64) {
        while let Some(vsp) = self.pool.take_pin(first_needed) {
            match self.pool.state(vsp) {
                State::Full | State::Stuck => self.settle_superpage(vsp, false),
                // A superpage that is still being programmed is settled at the end of its program.
                state => self.pool.become_(vsp, state, false),
            }
        }
    }
}

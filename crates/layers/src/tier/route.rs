//! Where each piece of a request goes: to a slot, a buffer, or the slow device.

use hostftl_core::{Cause, Command, Gather, Nanos, Out, Output, Piece, Tally, Target};

use super::layout::{FAST, MAX_TRANSFER, SLOW};
use super::moves::Fetched;
use super::ops::Op;
use super::request::{Kind, Req};
use super::slots::State;
use super::{Policy, Tier};
use crate::kit::Life;
use crate::planted::{Bug, planted};

/// Pages that one command may trim: a bound for the work of a step.
const TRIMMED: u32 = 4096;

/// Where the next piece of a request is to go.
pub enum Way {
    /// To a slot.
    Slot(u32),
    /// To a buffer that has the page.
    Buffer(u8),
    /// To the slow device, and the page stays there.
    Slow,
    /// Nowhere before something ends.
    Wait,
    /// The only newest copy is on a device that failed.
    Lost,
    /// Whole into a new slot.
    Take(u32),
}

impl Tier {
    /// Where the next piece of a request, in `page`, is to go.
    pub fn way(&mut self, now: Nanos, req: u16, page: u32, out: &mut Out) -> Way {
        let found = self.slots.find(page);
        if self.is_broken() {
            return self.way_out(found);
        }
        let Some(slot) = found else { return self.way_in(now, req, page, out) };
        match self.slots.get(slot).state() {
            State::Filling if self.requests.get(req).kind == Kind::Read => {
                self.jobs.loaded(slot).map_or(Way::Wait, Way::Buffer)
            }
            State::Filling | State::Taking => Way::Wait,
            _ => Way::Slot(slot),
        }
    }

    /// Where to read when a device has failed.
    fn way_out(&self, found: Option<u32>) -> Way {
        let state = found.map_or(State::Free, |slot| self.slots.get(slot).state());
        let [fast, slow] = self.failures.gone();
        match (state, found) {
            _ if (fast || slow) && planted(Bug::DeadTakesAll) => Way::Lost,
            (State::Clean | State::Cleaned | State::Dirty | State::Cleaning, Some(slot))
                if !fast =>
            {
                Way::Slot(slot)
            }
            (State::Dirty | State::Cleaning, _) => Way::Lost,
            _ if slow => Way::Lost,
            _ => Way::Slow,
        }
    }

    /// Where a piece goes whose page is not here.
    fn way_in(&mut self, now: Nanos, req: u16, page: u32, out: &mut Out) -> Way {
        let wide = u64::from(self.layout.page);
        let Req { kind, cursor, end, choice, .. } = *self.requests.get(req);
        if matches!(kind, Kind::Trim | Kind::Zeroes) {
            return Way::Slow;
        }
        let is_write = kind == Kind::Write;
        let wanted = choice.unwrap_or_else(|| self.heat.promotes(page, is_write));
        self.requests.get(req).choice = Some(wanted);
        if !wanted || self.life == Life::Stopping {
            return Way::Slow;
        }
        let whole = is_write && cursor % wide == 0 && end - cursor >= wide;
        if whole
            && !self.ops.changes(page)
            && let Some(slot) = self.slots.take(page, State::Taking)
        {
            self.note(slot);
            return Way::Take(slot);
        }
        match self.fetch(now, page, out) {
            Fetched::Begun | Fetched::Later => Way::Wait,
            Fetched::Full => Way::Slow,
        }
    }

    /// The sectors from a request's cursor to the end of `pages` pages, `page` being the first.
    fn piece(&mut self, req: u16, page: u32, pages: u32) -> u32 {
        let behind = (u64::from(page) + u64::from(pages)) * u64::from(self.layout.page);
        let it = self.requests.get(req);
        (it.end.min(behind) - it.cursor) as u32
    }

    /// What a write, trim or zeroing puts at the cursor.
    fn content(&mut self, req: u16, sectors: u32) -> (Gather, Tally) {
        let it = self.requests.get(req);
        let from = (it.cursor - it.lba) as u32;
        let piece = match &mut it.data {
            Some(data) => Piece::Data(data.view_sectors(from, sectors)),
            None => Piece::zero_sectors(sectors),
        };
        (Gather::from_iter([piece]), Tally::of(Cause::Host, sectors))
    }

    fn read(&mut self, req: u16, device: u8, lba: u64, sectors: u32) -> Command {
        let it = self.requests.get(req);
        let from = (it.cursor - it.lba) as u32;
        let data = it.data.as_mut().expect("a read has a payload");
        let into = Target::Data(data.view_mut_sectors(from, sectors));
        Command::Read { device, lba, into, cause: Cause::Host }
    }

    fn submit(
        &mut self,
        now: Nanos,
        (req, sectors): (u16, u64),
        op: Op,
        command: Command,
        out: &mut Out,
    ) {
        let device = command.device().unwrap_or(FAST);
        let token = self.ops.begin(now, device, op);
        out.push(Output::Submit(token, command));
        let it = self.requests.get(req);
        it.cursor += sectors;
        it.flying += 1;
        it.choice = None;
    }

    /// A piece within a page that is here.
    pub fn use_slot(&mut self, now: Nanos, req: u16, page: u32, slot: u32, out: &mut Out) {
        let sectors = self.piece(req, page, 1);
        let Req { kind, cursor, .. } = *self.requests.get(req);
        let lba = self.layout.slot_at(slot) + cursor % u64::from(self.layout.page);
        if kind == Kind::Read {
            self.slots.get_mut(slot).readers += 1;
            if self.slots.is_ordered(slot) {
                self.slots.unuse(slot);
                self.slots.use_now(slot);
            }
            let command = self.read(req, FAST, lba, sectors);
            let op = Op::ReadSlot { req, slot };
            return self.submit(now, (req, sectors.into()), op, command, out);
        }
        self.dirty(slot);
        self.slots.get_mut(slot).writers += 1;
        let (gather, tally) = self.content(req, sectors);
        let command = Command::Program { device: FAST, lba, gather, tally, placement: 0 };
        self.submit(now, (req, sectors.into()), Op::WriteSlot { req, slot }, command, out);
    }

    /// A read within a page that is in a buffer.
    pub fn copy(&mut self, now: Nanos, req: u16, page: u32, job: u8, out: &mut Out) {
        let sectors = self.piece(req, page, 1);
        let it = self.requests.get(req);
        let (from, to) = (it.cursor % u64::from(self.layout.page), it.cursor - it.lba);
        let data = it.data.as_mut().expect("a read has a payload");
        let into = data.view_mut_sectors(to as u32, sectors);
        let from = Piece::Data(self.jobs.lend(job, from as u32, sectors));
        let op = Op::Copy { req, job };
        self.submit(now, (req, sectors.into()), op, Command::Place { from, into }, out);
    }

    /// A whole page into a new slot.
    pub fn take_whole(&mut self, now: Nanos, req: u16, slot: u32, out: &mut Out) {
        let (lba, sectors) = (self.layout.slot_at(slot), self.layout.page);
        let (gather, tally) = self.content(req, sectors);
        let command = Command::Program { device: FAST, lba, gather, tally, placement: 0 };
        self.submit(now, (req, sectors.into()), Op::Take { req, slot }, command, out);
    }

    /// A piece that goes to the slow device, over as many pages as are not here.
    pub fn use_slow(&mut self, now: Nanos, req: u16, page: u32, out: &mut Out) {
        let Req { kind, cursor: lba, end, .. } = *self.requests.get(req);
        let most = match kind {
            Kind::Trim => TRIMMED,
            Kind::Zeroes => MAX_TRANSFER / self.layout.page,
            Kind::Read if self.params.policy == Policy::Writes => MAX_TRANSFER / self.layout.page,
            _ => 1,
        };
        let last = ((end - 1) / u64::from(self.layout.page)) as u32;
        let more = (page + 1..=last.min(page + most - 1))
            .take_while(|&next| self.slots.find(next).is_none());
        let pages = 1 + more.count() as u32;
        let sectors = self.piece(req, page, pages);
        if kind == Kind::Read {
            let command = self.read(req, SLOW, lba, sectors);
            return self.submit(now, (req, sectors.into()), Op::ReadSlow { req }, command, out);
        }
        let op = Op::WriteSlow { req, first: page, last: page + pages - 1 };
        let command = match kind {
            Kind::Trim => Command::Reset { device: SLOW, lba, sectors: sectors.into() },
            _ => {
                let (gather, tally) = self.content(req, sectors);
                Command::Program { device: SLOW, lba, gather, tally, placement: 0 }
            }
        };
        self.submit(now, (req, sectors.into()), op, command, out);
    }
}

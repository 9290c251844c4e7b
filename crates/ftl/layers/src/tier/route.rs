//! Targets of the pieces of a request: a slot, a buffer, or the slow device.
//!
//! Invariants
//! - A request proceeds through its range page by page. The policy decides only once whether the
//!   page at its cursor moves to the fast device.
//! - Pages of the slow device that a request changes are recorded until the command ends, and not
//!   fetched meanwhile.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Gather, Piece, Tally, Target};

use super::cache::{Cache, State};
use super::failures::Failures;
use super::heat::Heat;
use super::layout::{FAST, Layout, MAX_TRANSFER, SLOW};
use super::moves::{Fetched, Moves};
use super::ops::{Cx, OPS, Op, REQUESTS};
use super::params::{Params, Policy};
use crate::kit::Life;
use crate::kit::requests::{Active, Kind};
use crate::planted::{Bug, planted};

/// Maximum number of pages that one command trims, which bounds the work of a step.
const TRIMMED: u32 = 4096;

/// The target of the next piece of a request.
enum Way {
    /// A slot.
    Slot(u32),
    /// A buffer that contains the page.
    Buffer(u8),
    /// The slow device; the page is not fetched.
    Slow,
    /// None yet: another operation must end first.
    Wait,
    /// None: the only current copy is on a failed device.
    Lost,
    /// A new slot, for a whole page.
    Take(u32),
}

/// The result of sending the next piece of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// The command was submitted.
    Sent,
    /// The piece must wait for another operation to end.
    Waits,
    /// No device has the data.
    Lost,
}

/// Choices of targets, and changes of the slow device in progress.
#[derive(Debug)]
pub(super) struct Route {
    layout: Layout,
    policy: Policy,
    heat: Heat,
    /// For each request, whether the page at its cursor moves to the fast device; `None` if
    /// undecided.
    choices: Vec<Option<bool>>,
    /// Changes of the slow device in progress: first and last page.
    changes: Vec<(u32, u32)>,
}

impl Route {
    /// Creates the state before any access.
    pub(super) fn new(layout: &Layout, params: &Params) -> Self {
        Route {
            layout: *layout,
            policy: params.policy,
            heat: Heat::new(params.policy, layout),
            choices: vec![None; REQUESTS],
            changes: Vec::with_capacity(OPS.into()),
        }
    }

    /// Forgets the choice of a request that moved to another page.
    pub(super) fn forget_choice(&mut self, req: u16) {
        self.choices[usize::from(req)] = None;
    }

    /// Redirects requests at a page that could not be fetched to the slow device.
    pub(super) fn go_around(&mut self, page: u32, cx: &mut Cx) {
        let at = |it: &Active<()>| at(it) / u64::from(self.layout.page) == u64::from(page);
        for (req, _) in cx.requests().active().filter(|(_, it)| at(it)) {
            self.choices[usize::from(req)] = Some(false);
        }
    }

    /// Notes the end of a change of the slow device.
    pub(super) fn change_over(&mut self, first: u32, last: u32) {
        let at = self.changes.iter().position(|&change| change == (first, last));
        self.changes.swap_remove(at.expect("the change was recorded at its start"));
    }

    /// Returns whether a page of the slow device is being changed.
    fn is_changing(&self, page: u32) -> bool {
        self.changes.iter().any(|&(first, last)| (first..=last).contains(&page))
    }

    /// Sends the next piece of a request.
    pub(super) fn send(
        &mut self,
        req: u16,
        cache: &mut Cache,
        moves: &mut Moves,
        failures: &Failures,
        cx: &mut Cx,
    ) -> Moved {
        let page = (at(cx.request(req)) / u64::from(self.layout.page)) as u32;
        match self.way(req, page, (cache, moves), failures, cx) {
            Way::Wait => return Moved::Waits,
            Way::Lost => return Moved::Lost,
            Way::Slot(slot) => self.use_slot(req, page, slot, cache, cx),
            Way::Buffer(job) => self.copy(req, page, job, moves, cx),
            Way::Slow => self.use_slow(req, page, cache, cx),
            Way::Take(slot) => self.take_whole(req, slot, cx),
        }
        Moved::Sent
    }

    /// Returns the target of the next piece of a request, in `page`.
    fn way(
        &mut self,
        req: u16,
        page: u32,
        (cache, moves): (&mut Cache, &mut Moves),
        failures: &Failures,
        cx: &mut Cx,
    ) -> Way {
        let found = cache.find(page);
        if failures.error().is_some() {
            return way_out(found, cache, failures);
        }
        let Some(slot) = found else { return self.way_in(req, page, cache, moves, cx) };
        match cache.state(slot) {
            State::Filling if cx.request(req).kind == Kind::Read => {
                moves.loaded(slot).map_or(Way::Wait, Way::Buffer)
            }
            State::Filling | State::Taking => Way::Wait,
            _ => Way::Slot(slot),
        }
    }

    /// Returns the target of a piece in a page that is not cached.
    fn way_in(
        &mut self,
        req: u16,
        page: u32,
        cache: &mut Cache,
        moves: &mut Moves,
        cx: &mut Cx,
    ) -> Way {
        let wide = u64::from(self.layout.page);
        let is_stopping = cx.life() == Life::Stopping;
        let it = cx.request(req);
        let (kind, cursor, left) = (it.kind, at(it), it.sectors - it.cursor);
        if kind == Kind::Trim {
            return Way::Slow;
        }
        let is_write = kind == Kind::Write;
        let choice = &mut self.choices[usize::from(req)];
        let wanted = *choice.get_or_insert_with(|| self.heat.promotes(page, is_write));
        if !wanted || is_stopping {
            return Way::Slow;
        }
        let whole = is_write && cursor % wide == 0 && left >= wide;
        if whole
            && !self.is_changing(page)
            && let Some(slot) = cache.take(page, State::Taking)
        {
            return Way::Take(slot);
        }
        match moves.fetch(page, self.is_changing(page), cache, cx) {
            Fetched::Begun | Fetched::Later => Way::Wait,
            Fetched::Full => Way::Slow,
        }
    }

    /// Returns the number of sectors from a request's cursor to the end of `pages` pages from
    /// `page` on, or to the end of the request.
    fn piece(&self, req: u16, page: u32, pages: u32, cx: &mut Cx) -> u32 {
        let behind = (u64::from(page) + u64::from(pages)) * u64::from(self.layout.page);
        let it = cx.request(req);
        ((it.lba + it.sectors).min(behind) - at(it)) as u32
    }

    fn submit(&mut self, req: u16, sectors: u32, op: Op, command: Command, cx: &mut Cx) {
        cx.submit(op, command);
        let it = cx.request(req);
        it.cursor += u64::from(sectors);
        it.outstanding += 1;
        assert!(it.cursor <= it.sectors, "the request is complete");
        self.forget_choice(req);
    }

    /// Sends a piece within a cached page.
    fn use_slot(&mut self, req: u16, page: u32, slot: u32, cache: &mut Cache, cx: &mut Cx) {
        let sectors = self.piece(req, page, 1, cx);
        let it = cx.request(req);
        let lba = self.layout.slot_at(slot) + at(it) % u64::from(self.layout.page);
        if it.kind == Kind::Read {
            cache.begin_read(slot);
            let command = read(req, FAST, lba, sectors, cx);
            return self.submit(req, sectors, Op::ReadSlot { req, slot }, command, cx);
        }
        cache.begin_write(slot);
        let command = program(req, FAST, lba, sectors, cx);
        self.submit(req, sectors, Op::WriteSlot { req, slot }, command, cx);
    }

    /// Copies a piece of a read from the buffer that contains its page.
    fn copy(&mut self, req: u16, page: u32, job: u8, moves: &mut Moves, cx: &mut Cx) {
        let sectors = self.piece(req, page, 1, cx);
        let it = cx.request(req);
        let (from, to) = (at(it) % u64::from(self.layout.page), it.cursor);
        let into = cx.requests().data(req).view_mut_sectors(to as u32, sectors);
        let from = Piece::Data(moves.lend(job, from as u32, sectors));
        self.submit(req, sectors, Op::Copy { req, job }, Command::Place { from, into }, cx);
    }

    /// Writes a whole page into a new slot.
    fn take_whole(&mut self, req: u16, slot: u32, cx: &mut Cx) {
        let (lba, sectors) = (self.layout.slot_at(slot), self.layout.page);
        let command = program(req, FAST, lba, sectors, cx);
        self.submit(req, sectors, Op::Take { req, slot }, command, cx);
    }

    /// Sends a piece to the slow device, over as many consecutive pages as are not cached.
    fn use_slow(&mut self, req: u16, page: u32, cache: &Cache, cx: &mut Cx) {
        let it = cx.request(req);
        let (kind, zeroes) = (it.kind, it.is_zeroing());
        let (lba, end) = (at(it), it.lba + it.sectors);
        let most = match kind {
            Kind::Trim if zeroes => MAX_TRANSFER / self.layout.page,
            Kind::Trim => TRIMMED,
            Kind::Read if self.policy == Policy::Writes => MAX_TRANSFER / self.layout.page,
            _ => 1,
        };
        let last = ((end - 1) / u64::from(self.layout.page)) as u32;
        let more =
            (page + 1..=last.min(page + most - 1)).take_while(|&next| cache.find(next).is_none());
        let pages = 1 + more.count() as u32;
        let sectors = self.piece(req, page, pages, cx);
        if kind == Kind::Read {
            let command = read(req, SLOW, lba, sectors, cx);
            return self.submit(req, sectors, Op::ReadSlow { req }, command, cx);
        }
        let (first, last) = (page, page + pages - 1);
        self.changes.push((first, last));
        let command = match kind {
            Kind::Trim if !zeroes => Command::Reset { device: SLOW, lba, sectors: sectors.into() },
            _ => program(req, SLOW, lba, sectors, cx),
        };
        self.submit(req, sectors, Op::WriteSlow { req, first, last }, command, cx);
    }
}

/// Returns the sector at a request's cursor.
fn at(it: &Active<()>) -> u64 {
    it.lba + it.cursor
}

/// Returns the source of a read after a device failure.
fn way_out(found: Option<u32>, cache: &Cache, failures: &Failures) -> Way {
    let state = found.map_or(State::Free, |slot| cache.state(slot));
    let [fast, slow] = failures.failed();
    match (state, found) {
        _ if (fast || slow) && planted(Bug::FailedTakesAll) => Way::Lost,
        (State::Clean | State::Cleaned | State::Dirty | State::Cleaning, Some(slot)) if !fast => {
            Way::Slot(slot)
        }
        (State::Dirty | State::Cleaning, _) => Way::Lost,
        _ if slow => Way::Lost,
        _ => Way::Slow,
    }
}

/// Returns the command that reads the next piece of a request.
fn read(req: u16, device: u8, lba: u64, sectors: u32, cx: &mut Cx) -> Command {
    let from = cx.request(req).cursor as u32;
    let into = Target::Data(cx.requests().data(req).view_mut_sectors(from, sectors));
    Command::Read { device, lba, into, cause: Cause::Host }
}

/// Returns the command that writes data or zeros at a request's cursor.
fn program(req: u16, device: u8, lba: u64, sectors: u32, cx: &mut Cx) -> Command {
    let it = cx.request(req);
    let from = it.cursor as u32;
    let piece = match &mut it.data {
        Some(data) => Piece::Data(data.view_sectors(from, sectors)),
        None => Piece::zero_sectors(sectors),
    };
    let (gather, tally) = (Gather::from_iter([piece]), Tally::single(Cause::Host, sectors));
    Command::Program { device, lba, gather, tally, placement: 0 }
}

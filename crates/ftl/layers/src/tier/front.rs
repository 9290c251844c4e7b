//! Requests in progress: those that can proceed, and those that wait for a commit.
//!
//! Invariants
//! - A request that cannot proceed is not in `ready`. The completion of any command makes it ready
//!   again.
//! - A request that waits for a commit, or is a member of the current one, has no command in
//!   flight.

use hostftl_core::{Command, DeviceError, HostError, Piece, Request, Target};

use super::cache::{Cache, State};
use super::failures::{Failures, host_error};
use super::layout::Layout;
use super::moves::Moves;
use super::ops::{Cx, OWN_OPS, Op, ROOM};
use super::params::Params;
use super::route::{Moved, Route};
use crate::kit::requests::Kind;

/// Maximum number of commands of one request.
const FLYING: u32 = 8;

/// The requests in flight. Each word is a set of requests.
#[derive(Debug)]
pub(super) struct Front {
    route: Route,
    taken: u64,
    ready: u64,
    /// Requests with a command past its deadline.
    late: u64,
    /// Requests that wait for the next commit.
    waiting: u64,
    /// Requests that wait for the commit in progress.
    members: u64,
}

impl Front {
    /// Creates the state without requests.
    pub(super) fn new(layout: &Layout, params: &Params) -> Self {
        let route = Route::new(layout, params);
        Front { route, taken: 0, ready: 0, late: 0, waiting: 0, members: 0 }
    }

    /// Returns whether a request may be able to proceed.
    #[inline]
    pub(super) fn can_move(&self) -> bool {
        self.ready != 0 || self.late != 0
    }

    /// Makes all requests ready after any change.
    #[inline]
    pub(super) fn wake(&mut self) {
        self.ready = self.taken;
    }

    /// Marks a request with a command past its deadline.
    pub(super) fn set_late(&mut self, req: u16) {
        assert!(self.taken & 1 << req != 0, "a request with a command is in progress");
        self.late |= 1 << req;
    }

    /// Redirects requests at a page that could not be fetched to the slow device.
    pub(super) fn go_around(&mut self, page: u32, cx: &mut Cx) {
        self.route.go_around(page, cx);
    }

    /// Accepts a request.
    pub(super) fn accept(&mut self, request: Request, cx: &mut Cx) {
        // A flush is counted as pending when its commit starts.
        let Some(req) = cx.take_request(request, false) else { return };
        self.taken |= 1 << req;
        self.ready |= 1 << req;
        self.route.forget_choice(req);
    }

    /// Advances every request that can proceed.
    pub(super) fn pump(
        &mut self,
        cache: &mut Cache,
        moves: &mut Moves,
        failures: &Failures,
        cx: &mut Cx,
    ) {
        while self.ready != 0 {
            if cx.outputs_left() < ROOM {
                return cx.wake();
            }
            let req = self.ready.trailing_zeros() as u16;
            if !self.advance(req, cache, moves, failures, cx) {
                self.ready &= !(1 << req);
            }
        }
    }

    /// Advances a request by one piece. Returns whether it moved.
    fn advance(
        &mut self,
        req: u16,
        cache: &mut Cache,
        moves: &mut Moves,
        failures: &Failures,
        cx: &mut Cx,
    ) -> bool {
        let it = cx.request(req);
        if it.is_abandoned() || (self.waiting | self.members) & 1 << req != 0 {
            return false;
        }
        if let Some(error) = failures.error().filter(|_| it.kind != Kind::Read) {
            it.error.get_or_insert(error);
        }
        if it.is_begun() || it.error.is_some() {
            if it.outstanding == 0 {
                self.finish(req, cx);
            }
            return false;
        }
        if it.outstanding == FLYING || cx.commands_left() <= OWN_OPS {
            return false;
        }
        match self.route.send(req, cache, moves, failures, cx) {
            Moved::Sent => true,
            Moved::Waits => false,
            Moved::Lost => {
                cx.request(req).error = Some(HostError::Io);
                true
            }
        }
    }

    /// Completes a request, or lets it wait for a commit.
    fn finish(&mut self, req: u16, cx: &mut Cx) {
        let it = cx.request(req);
        match it.error {
            Some(error) => self.answer(req, Err(error), cx),
            None if it.is_fua() => self.waiting |= 1 << req,
            None => self.answer(req, Ok(()), cx),
        }
    }

    /// Completes a request that has no command in flight.
    fn answer(&mut self, req: u16, result: Result<(), HostError>, cx: &mut Cx) {
        assert!(self.taken & 1 << req != 0, "a request ends once");
        let rest = !(1 << req);
        self.taken &= rest;
        self.ready &= rest;
        self.late &= rest;
        cx.answer(req, result);
    }

    /// Returns whether a request waits for the next commit.
    pub(super) fn is_any_waiting(&self) -> bool {
        self.waiting != 0
    }

    /// Makes the waiting requests members of a new commit. Returns their number.
    pub(super) fn begin_commit(&mut self) -> u32 {
        assert_eq!(self.members, 0, "the members of a commit are answered before the next");
        self.members = core::mem::take(&mut self.waiting);
        self.members.count_ones()
    }

    /// Acknowledges the members of a completed commit. Returns whether all are acknowledged.
    pub(super) fn answer_members(&mut self, cx: &mut Cx) -> bool {
        while self.members != 0 {
            if cx.outputs_left() < ROOM {
                cx.wake();
                return false;
            }
            let req = self.members.trailing_zeros() as u16;
            self.members &= !(1 << req);
            self.answer(req, Ok(()), cx);
        }
        true
    }

    /// Fails all requests that wait for durability, after a device failure.
    pub(super) fn fail_members(&mut self, error: HostError, cx: &mut Cx) {
        let mut failed = self.waiting | self.members;
        while failed != 0 {
            if cx.outputs_left() < ROOM {
                cx.wake();
                break;
            }
            let req = failed.trailing_zeros() as u16;
            failed &= !(1 << req);
            self.answer(req, Err(error), cx);
        }
        (self.waiting, self.members) = (failed, 0);
    }

    /// Answers requests with a late command. Their payload is returned when that command ends.
    pub(super) fn abandon_late(&mut self, cx: &mut Cx) {
        while self.late != 0 {
            if cx.outputs_left() < ROOM {
                return;
            }
            let req = self.late.trailing_zeros() as u16;
            self.late &= !(1 << req);
            cx.abandon_request(req);
        }
    }

    /// Handles the completion of a request's command.
    pub(super) fn done(
        &mut self,
        op: Op,
        command: Command,
        error: Option<DeviceError>,
        (cache, moves): (&mut Cache, &mut Moves),
        cx: &mut Cx,
    ) {
        match op {
            Op::ReadSlot { slot, .. } => cache.end_read(slot),
            Op::WriteSlot { slot, .. } => cache.end_write(slot),
            Op::Take { slot, .. } if error.is_none() => cache.arrived(slot, State::Dirty),
            Op::WriteSlow { first, last, .. } => self.route.change_over(first, last),
            _ => {}
        }
        let req = op.request().expect("the command belongs to a request");
        match (op, command) {
            (Op::Copy { job, .. }, Command::Place { from: Piece::Data(from), into }) => {
                moves.take_back(job, from);
                cx.requests().data(req).repay_mut(into);
            }
            (_, command) => repay(req, command, cx),
        }
        let it = cx.request(req);
        if let Some(error) = error {
            it.error.get_or_insert(host_error(error));
        }
        it.outstanding -= 1;
        if it.is_abandoned() && it.outstanding == 0 {
            self.answer(req, Err(HostError::Io), cx);
        }
    }
}

/// Returns the borrowed parts of a request's payload.
fn repay(req: u16, command: Command, cx: &mut Cx) {
    match command {
        Command::Read { into: Target::Data(view), .. } => cx.requests().data(req).repay_mut(view),
        Command::Program { gather, .. } => {
            for piece in gather {
                if let Piece::Data(view) = piece {
                    cx.requests().data(req).repay(view);
                }
            }
        }
        Command::Reset { .. } => {}
        other => unreachable!("no request sends {other:?}"),
    }
}

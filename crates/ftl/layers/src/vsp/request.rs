//! Requests: accepting them, reading their sectors, and answering them.
//!
//! Invariants
//! - Writes and trims are processed one at a time, in the order of arrival; so are reads.
//! - A completed flush or FUA request waits until a durable log write covers its mark.

use hostftl_core::{Cause, Command, HostError, Piece, Request, Target};

use crate::kit::Health;
use crate::kit::requests::Kind;
use crate::planted::{Bug, planted};

use super::area::Area;
use super::ops::{Cx, OWN_OPS, Op};
use super::pool::State;
use super::table::Table;

impl<T: Table> Area<T> {
    /// Accepts a request.
    pub(crate) fn take_in(&mut self, request: Request, cx: &mut Cx<T::Op>) {
        let pending = !self.durable().covers(self.mark_host());
        let Some(req) = cx.take_request(request, pending) else { return };
        if cx.request(req).kind == Kind::Flush {
            self.complete(req, cx);
        }
    }

    /// Answers a completed request, or queues it until it is durable.
    fn complete(&mut self, req: u16, cx: &mut Cx<T::Op>) {
        let mark = self.mark_host();
        let durable = self.durable().covers(mark);
        let skip_flush = cx.request(req).kind == Kind::Flush && planted(Bug::EarlyFlushReply);
        if cx.end_request(req, mark, durable || skip_flush) {
            self.durability_requests.request_soon(mark);
        }
    }

    /// Answers the first waiting request, if its mark is durable.
    pub(crate) fn answer_durable(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let covered = cx.requests().waits_for().is_some_and(|mark| self.durable().covers(mark));
        covered && cx.answer_waiting(Ok(()))
    }

    /// Advances the first read by one run.
    pub(crate) fn pump_read(&mut self, cx: &mut Cx<T::Op>) -> bool {
        let Some(req) = cx.requests().first_read() else { return false };
        if cx.commands_left() <= OWN_OPS {
            return false;
        }
        let has_failed = cx.health() == Health::Failed;
        let active = cx.request(req);
        if !active.is_begun() && !has_failed && active.error.is_none() {
            self.read_run(req, cx);
        }
        let active = cx.request(req);
        // After an error the rest of the read is not sent.
        if active.is_begun() || has_failed || active.error.is_some() {
            cx.requests().end_read();
            self.complete_if_over(req, cx);
        }
        true
    }

    /// Answers a request if all its commands are complete.
    pub(crate) fn complete_if_over(&mut self, req: u16, cx: &mut Cx<T::Op>) {
        if cx.requests().is_complete(req) {
            self.complete(req, cx);
        }
    }

    /// Sends the command for the next run of a read.
    fn read_run(&mut self, req: u16, cx: &mut Cx<T::Op>) {
        let active = cx.request(req);
        let (first, left) = (active.lba + active.cursor, active.sectors - active.cursor);
        if self.table.is_lost(first) {
            cx.touch(1);
            cx.request(req).error = Some(HostError::Io);
            return;
        }
        // A run has one source: a superpage, the homes, or zeros.
        let start = self.table.lookup(first);
        let len = self.run_length(first, left as u32, start, cx);
        let active = cx.request(req);
        let at = active.cursor as u32;
        active.cursor += u64::from(len);
        active.outstanding += 1;
        let into = cx.requests().data(req).view_mut_sectors(at, len);
        let Some(vsn) = start else {
            let Some(lba) = self.home_sector(first) else {
                let command = Command::Place { from: Piece::zero_sectors(len), into };
                return cx.submit(Op::Zero { req }, command);
            };
            let (into, cause) = (Target::Data(into), Cause::Host);
            let command = Command::Read { device: 0, lba, into, cause };
            return cx.submit(Op::Home { req }, command);
        };
        let vsp = self.pool.superpage_at(vsn);
        let slot = (vsn % u64::from(self.layout.superpage)) as u32;
        // A superpage in a stage is read from memory; it may not be on media yet.
        match self.pool.state(vsp) {
            State::Staged(stage) => {
                let from = self.stages.buffer(stage).view_sectors(slot, len);
                let command = Command::Place { from: Piece::Data(from), into };
                cx.submit(Op::Copy { req, stage }, command);
            }
            State::Full | State::Victim | State::Stuck => {
                // The pin keeps the superpage from being reused while the device reads it.
                self.pool.begin_read(vsp);
                let command = Command::Read {
                    device: 0,
                    lba: self.layout.data_at(vsp) + u64::from(slot),
                    into: Target::Data(into),
                    cause: Cause::Host,
                };
                cx.submit(Op::Read { req, vsp }, command);
            }
            other => unreachable!("a valid sector is in a superpage in {other:?}"),
        }
    }

    /// Returns the device sector of the home of `lsn`, unless it has none or was never written.
    fn home_sector(&self, lsn: u64) -> Option<u64> {
        self.layout.home(lsn).filter(|_| !self.table.is_lent(lsn))
    }

    /// Returns the number of sectors from `first` on that are in consecutive slots of one
    /// superpage, or all unmapped in the same way.
    fn run_length(&mut self, first: u64, most: u32, start: Option<u64>, cx: &mut Cx<T::Op>) -> u32 {
        let sp = self.layout.superpage;
        // A read of one superpage has one pin.
        let most = start.map_or(most, |vsn| most.min(sp - (vsn % u64::from(sp)) as u32));
        let lent = self.table.is_lent(first);
        let follows = |i: &u32| {
            let lsn = first + u64::from(*i);
            let there = self.table.lookup(lsn) == start.map(|vsn| vsn + u64::from(*i));
            there && !self.table.is_lost(lsn) && self.table.is_lent(lsn) == lent
        };
        let len = 1 + (1..most).take_while(follows).count() as u32;
        cx.touch(len as usize);
        len
    }

    /// Completes a part of a read.
    pub(crate) fn read_done(
        &mut self,
        op: Op<T::Op>,
        command: Command,
        ok: bool,
        cx: &mut Cx<T::Op>,
    ) {
        let (req, into) = match (op, command) {
            (Op::Read { req, vsp }, Command::Read { into: Target::Data(into), .. }) => {
                self.pool.end_read(vsp);
                (req, into)
            }
            (Op::Copy { req, stage }, Command::Place { from: Piece::Data(from), into }) => {
                self.stages.at(stage).repay(from);
                (req, into)
            }
            (Op::Zero { req }, Command::Place { into, .. })
            | (Op::Home { req }, Command::Read { into: Target::Data(into), .. }) => (req, into),
            (op, command) => unreachable!("{op:?} completed with {command:?}"),
        };
        cx.requests().data(req).repay_mut(into);
        cx.requests().part_over(req, ok);
        self.complete_if_over(req, cx);
    }
}

//! Requests: taking them in, moving their sectors, answering them.
//!
//! Invariants
//! - Writes and trims are worked on one at a time, in the order of arrival; so are reads.
//! - A flush or a FUA request that is complete waits until a durable log write covers its mark.

use hostftl_core::{Cause, Command, HostError, Nanos, Out, Piece, Request, Target, View};

use crate::kit::requests::{Kind, count};
use crate::planted::{Bug, planted};

use super::ops::{OWN_OPS, Op};
use super::pool::State;
use super::{Health, Life, Machine, Phase, Scheme, Table};

impl<S: Scheme> Machine<S> {
    /// Takes a request in.
    pub fn accept(&mut self, request: Request, out: &mut Out) {
        assert_eq!(self.life, Life::Running, "requests come between ready and stop");
        let pending = !self.durable().covers(self.mark_host());
        count(&mut self.counters, &request, pending);
        let Some(req) = self.requests.take(request, self.plan.limits.exported, out) else { return };
        if self.requests.at(req).kind == Kind::Flush {
            self.complete(req, out);
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    fn complete(&mut self, req: u16, out: &mut Out) {
        let mark = self.mark_host();
        let durable = self.durable().covers(mark);
        let health = self.health;
        let active = self.requests.at(req);
        active.error = match health {
            Health::ReadOnly(error) if active.kind != Kind::Read => active.error.or(Some(error)),
            Health::Good | Health::ReadOnly(_) => active.error,
            Health::Dead => Some(HostError::Io),
        };
        let skip_flush = active.kind == Kind::Flush && planted(Bug::EarlyFlushReply);
        if self.requests.end(req, mark, durable || skip_flush, out) {
            self.commit = self.commit.max(mark);
        }
    }

    /// Answers the first request that waits, if what it waits for is durable.
    pub(super) fn answer_durable(&mut self, out: &mut Out) -> bool {
        let covered = self.requests.waits_for().is_some_and(|mark| self.durable().covers(mark));
        covered && self.requests.answer_waiting(Ok(()), out)
    }

    /// Moves one run of the first read and one of the first write or trim.
    pub fn pump_requests(&mut self, now: Nanos, out: &mut Out) -> bool {
        self.pump_read(now, out) | self.pump_write(now, out)
    }

    fn pump_read(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(req) = self.requests.first_read() else { return false };
        if self.ops.room() <= OWN_OPS {
            return false;
        }
        let dead = self.health == Health::Dead;
        let active = self.requests.at(req);
        if !active.is_begun() && !dead && active.error.is_none() {
            self.read_run(now, req, out);
        }
        let active = self.requests.at(req);
        if active.is_begun() || dead || active.error.is_some() {
            self.requests.end_read();
            self.complete_if_over(req, out);
        }
        true
    }

    fn pump_write(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(req) = self.requests.first_write() else { return false };
        let healthy = self.health == Health::Good;
        let moved = healthy && S::pump_write(self, now, req, out);
        if healthy && !self.requests.at(req).is_begun() {
            return moved;
        }
        self.requests.end_write();
        self.complete_if_over(req, out);
        true
    }

    /// Answers a request whose commands are all over.
    pub fn complete_if_over(&mut self, req: u16, out: &mut Out) {
        if self.requests.is_complete(req) {
            self.complete(req, out);
        }
    }

    /// Sends the command for the next run of a read.
    fn read_run(&mut self, now: Nanos, req: u16, out: &mut Out) {
        let active = self.requests.at(req);
        let (first, left) = (active.lba + active.cursor, active.sectors - active.cursor);
        if self.table.is_lost(first) {
            self.touched += 1;
            self.requests.at(req).error = Some(HostError::Io);
            return;
        }
        let start = self.table.look_up(first);
        let len = self.run_length(first, left as u32, start);
        let active = self.requests.at(req);
        let at = active.cursor as u32;
        active.cursor += u64::from(len);
        active.outstanding += 1;
        let into = self.requests.data(req).view_mut_sectors(at, len);
        let Some(vsn) = start else {
            let Some(lba) = self.home_of(first) else {
                let command = Command::Place { from: Piece::zero_sectors(len), into };
                return self.submit(now, Op::Zero { req }, command, out);
            };
            let (into, cause) = (Target::Data(into), Cause::Host);
            let command = Command::Read { device: 0, lba, into, cause };
            return self.submit(now, Op::Home { req }, command, out);
        };
        let vsp = self.pool.superpage_of(vsn);
        let slot = vsn % self.layout.superpage;
        match self.pool.state(vsp) {
            State::Staged(stage) => {
                let from = self.stages[stage as usize].buffer().view_sectors(slot, len);
                let command = Command::Place { from: Piece::Data(from), into };
                self.submit(now, Op::Copy { req, stage }, command, out);
            }
            State::Full | State::Victim | State::Stuck => {
                self.pool.begin_read(vsp);
                let command = Command::Read {
                    device: 0,
                    lba: self.layout.data_at(vsp) + u64::from(slot),
                    into: Target::Data(into),
                    cause: Cause::Host,
                };
                self.submit(now, Op::Read { req, vsp }, command, out);
            }
            other => unreachable!("a live sector lies in a superpage that is {other:?}"),
        }
    }

    /// Where the home of a sector is, unless it has none, or one that was never written.
    fn home_of(&self, lsn: u64) -> Option<u64> {
        self.layout.home(lsn).filter(|_| !self.table.is_lent(lsn))
    }

    /// How many sectors from `first` lie in consecutive slots of one superpage, or nowhere.
    fn run_length(&mut self, first: u64, most: u32, start: Option<u32>) -> u32 {
        let sp = self.layout.superpage;
        let most = start.map_or(most, |vsn| most.min(sp - vsn % sp));
        let lent = self.table.is_lent(first);
        let follows = |i: &u32| {
            let lsn = first + u64::from(*i);
            let there = self.table.look_up(lsn) == start.map(|vsn| vsn + *i);
            there && !self.table.is_lost(lsn) && self.table.is_lent(lsn) == lent
        };
        let len = 1 + (1..most).take_while(follows).count() as u32;
        self.touched += len as usize;
        len
    }

    /// A piece of a read is here.
    pub fn read_done(&mut self, op: Op<S::Op>, command: Command, ok: bool, out: &mut Out) {
        let (req, into) = match (op, command) {
            (Op::Read { req, vsp }, Command::Read { into: Target::Data(into), .. }) => {
                self.pool.end_read(vsp);
                (req, into)
            }
            (Op::Copy { req, stage }, Command::Place { from: Piece::Data(from), into }) => {
                self.repay_stage(stage, from);
                (req, into)
            }
            (Op::Zero { req }, Command::Place { into, .. })
            | (Op::Home { req }, Command::Read { into: Target::Data(into), .. }) => (req, into),
            (op, command) => unreachable!("{op:?} came back with {command:?}"),
        };
        self.requests.data(req).repay_mut(into);
        self.requests.part_over(req, ok);
        self.complete_if_over(req, out);
    }

    /// A command that read a stage is over.
    pub fn repay_stage(&mut self, stage: u8, view: View) {
        let stage = &mut self.stages[stage as usize];
        stage.buffer().repay(view);
        if stage.phase == Phase::Draining && stage.buffer().is_idle() {
            stage.phase = Phase::Idle;
        }
    }
}

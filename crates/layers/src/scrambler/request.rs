//! Requests: taking them in, answering them, and reads.
//!
//! Invariants
//! - Writes and trims are worked on one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and nothing of it is under way.
//! - A flush or a FUA request that is complete waits until all that was published before it is
//!   durable; what is published only grows, so the first in the queue is the first to be answered.

use hostftl_core::{Cause, Command, HostError, Nanos, Out, Piece, Request, Target};

use super::ops::{OWN_OPS, Op};
use super::{Health, Life, Scrambler};
use crate::planted::{Bug, planted};
use crate::requests::{Kind, count};

impl Scrambler {
    /// Takes a request in.
    pub fn accept(&mut self, request: Request, out: &mut Out) {
        assert_eq!(self.life, Life::Running, "requests come between ready and stop");
        let pending = self.journal.durable < self.journal.published;
        count(&mut self.counters, &request, pending);
        let Some(req) = self.requests.take(request, self.plan.limits.exported, out) else { return };
        if self.requests.at(req).kind == Kind::Flush {
            self.complete(req, out);
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    fn complete(&mut self, req: u16, out: &mut Out) {
        let (mark, durable) = (self.journal.published, self.journal.durable);
        let active = self.requests.at(req);
        match self.health {
            Health::ReadOnly(error) if active.kind != Kind::Read => {
                active.error.get_or_insert(error);
            }
            Health::Good | Health::ReadOnly(_) => {}
            Health::Dead => active.error = Some(HostError::Io),
        }
        let skip = active.kind == Kind::Flush && planted(Bug::FlushBeforeMap);
        if self.requests.end(req, mark, durable >= mark || skip, out) {
            self.journal.demand(mark);
        }
    }

    /// Answers a request when nothing of it is left.
    pub fn complete_if_over(&mut self, req: u16, out: &mut Out) {
        if self.requests.is_complete(req) {
            self.complete(req, out);
        }
    }

    /// Answers one request that waited for what is durable now.
    pub fn answer_durable(&mut self, out: &mut Out) -> bool {
        let covered = self.requests.waits_for().is_some_and(|mark| mark <= self.journal.durable);
        covered && self.requests.answer_waiting(Ok(()), out)
    }

    /// Moves the first read on by one run.
    pub fn pump_read(&mut self, now: Nanos, out: &mut Out) -> bool {
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

    /// Sends the command for the next run of a read.
    fn read_run(&mut self, now: Nanos, req: u16, out: &mut Out) {
        let slot = u64::from(self.layout.slot);
        let active = self.requests.at(req);
        let (first, left) = (active.lba + active.cursor, active.sectors - active.cursor);
        let (logical, within) = ((first / slot) as u32, first % slot);
        let most = (within + left).div_ceil(slot) as u32;
        let start = self.map.look_up(logical);
        let run = self.run_length(logical, most, start);
        let len = (u64::from(run) * slot - within).min(left) as u32;
        let active = self.requests.at(req);
        let at = active.cursor as u32;
        active.cursor += u64::from(len);
        active.outstanding += 1;
        let into = self.requests.data(req).view_mut_sectors(at, len);
        let Some(start) = start else {
            let command = Command::Place { from: Piece::zero_sectors(len), into };
            return self.submit(now, Op::Zero { req }, command, out);
        };
        let page = start / self.layout.per_page;
        self.pages.begin_read(page);
        let lba = self.layout.slot_at(start) + within;
        let into = Target::Data(into);
        let command = Command::Read { device: 0, lba, into, cause: Cause::Host };
        self.submit(now, Op::Read { req, page }, command, out);
    }

    /// How many logical slots from `logical` lie one behind the other in one page, or nowhere.
    fn run_length(&mut self, logical: u32, most: u32, start: Option<u32>) -> u32 {
        let per_page = self.layout.per_page;
        let most = start.map_or(most, |slot| most.min(per_page - slot % per_page));
        let follows = |i: &u32| self.map.look_up(logical + *i) == start.map(|slot| slot + *i);
        let run = 1 + (1..most).take_while(follows).count() as u32;
        self.touched += run as usize;
        run
    }

    /// A piece of a read is here.
    pub fn read_done(&mut self, op: Op, command: Command, ok: bool, out: &mut Out) {
        let (req, into) = match (op, command) {
            (Op::Read { req, page }, Command::Read { into: Target::Data(into), .. }) => {
                self.pages.end_read(page);
                (req, into)
            }
            (Op::Zero { req }, Command::Place { into, .. }) => (req, into),
            (op, command) => unreachable!("{op:?} came back with {command:?}"),
        };
        self.requests.data(req).repay_mut(into);
        self.requests.part_over(req, ok);
        self.complete_if_over(req, out);
    }
}

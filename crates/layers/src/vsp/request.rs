//! Requests: taking them in, moving their sectors, answering them.
//!
//! Invariants
//! - Writes and trims are worked on one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and none of its commands is in flight.
//! - A flush or a FUA request that is complete waits until a durable log write covers its mark;
//!   marks never go back, so the first in the queue is the first to be answered.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, HostError, HostOp, Nanos, Out, Output, Payload, Piece, Reply, Request, Target,
    Ticket, View,
};

use crate::planted::{Bug, planted};

use super::log::Mark;
use super::ops::{OWN_OPS, Op};
use super::pool::State;
use super::{Health, Life, Machine, Phase, Scheme, Table};

/// Requests under way at once.
const SLOTS: usize = 256;
/// Hanging requests that are answered in one go.
const ABANDON_STEP: usize = 8;

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "these are the requests of the core")]
pub enum Kind {
    Read,
    Write,
    Trim,
    Flush,
}

/// One request under way.
#[derive(Debug)]
pub struct Active {
    ticket: Option<Ticket>,
    /// What it writes, or where it reads to.
    pub data: Option<Payload>,
    /// What it asks.
    pub kind: Kind,
    fua: bool,
    /// The first sector.
    pub lba: u64,
    /// How many.
    pub sectors: u64,
    /// How many were dealt with.
    pub cursor: u64,
    /// Commands under way.
    pub outstanding: u32,
    /// Whether it goes to the home of its sectors.
    pub direct: bool,
    pub error: Option<HostError>,
    mark: Mark,
}

impl Active {
    fn reply(self, result: Result<(), HostError>, out: &mut Out) {
        match (self.ticket, self.data) {
            (Some(ticket), data) => out.push(Output::Reply(Reply { ticket, data, result })),
            (None, Some(data)) => out.push(Output::Reclaim(data)),
            (None, None) => {}
        }
    }
}

/// All requests under way, and the queues that they wait in.
#[derive(Debug)]
pub struct Requests {
    slots: Vec<Option<Active>>,
    free: Vec<u16>,
    reads: VecDeque<u16>,
    writes: VecDeque<u16>,
    waiting: VecDeque<u16>,
}

impl Requests {
    pub fn new() -> Self {
        Requests {
            slots: (0..SLOTS).map(|_| None).collect(),
            free: (0..SLOTS as u16).rev().collect(),
            reads: VecDeque::with_capacity(SLOTS),
            writes: VecDeque::with_capacity(SLOTS),
            waiting: VecDeque::with_capacity(SLOTS),
        }
    }

    /// How many more may come.
    pub fn room(&self) -> u32 {
        self.free.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.free.len() == SLOTS
    }

    /// Whether nobody waits for an answer; what was abandoned may still hold its payload.
    pub fn are_answered(&self) -> bool {
        self.slots.iter().flatten().all(|active| active.ticket.is_none())
    }

    /// A request under way.
    pub fn at(&mut self, req: u16) -> &mut Active {
        self.slots[req as usize].as_mut().expect("a request under way")
    }

    fn remove(&mut self, req: u16) -> Active {
        self.free.push(req);
        self.slots[req as usize].take().expect("a request under way")
    }

    /// Whether another write or trim of any of the sectors `lba..end` is under way; when `gathered`
    /// that goes to a stage is meant too.
    pub fn conflict(&self, req: u16, lba: u64, end: u64, gathered: bool) -> bool {
        let others = self.slots.iter().enumerate().filter(|(at, _)| *at != usize::from(req));
        others.filter_map(|(_, slot)| slot.as_ref()).any(|other| {
            let under_way = other.outstanding > 0 && matches!(other.kind, Kind::Write | Kind::Trim);
            under_way
                && (gathered || other.direct)
                && other.lba < end
                && lba < other.lba + other.sectors
        })
    }

    /// Whether a direct write or trim of any of the sectors `lba..end` is under way.
    pub fn is_direct(&self, lba: u64, end: u64) -> bool {
        self.conflict(u16::MAX, lba, end, false)
    }

    /// Answers one request whose mark is durable.
    pub fn answer_durable(&mut self, durable: Mark, out: &mut Out) -> bool {
        let Some(&req) = self.waiting.front() else { return false };
        let covered = durable.covers(self.at(req).mark);
        if covered {
            self.waiting.pop_front();
            self.remove(req).reply(Ok(()), out);
        }
        covered
    }

    /// Answers one waiting request with an error.
    pub fn fail_waiting(&mut self, error: HostError, out: &mut Out) -> bool {
        let Some(req) = self.waiting.pop_front() else { return false };
        self.remove(req).reply(Err(error), out);
        true
    }

    /// Answers some requests whose commands hang; their payloads follow when the device lets go.
    pub fn abandon(&mut self, out: &mut Out) -> bool {
        let hanging = |active: &&mut Active| active.outstanding > 0 && active.ticket.is_some();
        let mut moved = false;
        for active in self.slots.iter_mut().flatten().filter(hanging).take(ABANDON_STEP) {
            active.error = Some(HostError::Io);
            let ticket = active.ticket.take().expect("it was there just now");
            out.push(Output::Reply(Reply { ticket, data: None, result: Err(HostError::Io) }));
            moved = true;
        }
        moved
    }

    /// The power is off.
    pub fn void(&mut self) {
        for active in self.slots.iter_mut().filter_map(Option::take) {
            if let Some(ticket) = active.ticket {
                ticket.close();
            }
            if let Some(data) = active.data {
                data.void();
            }
        }
    }
}

impl<S: Scheme> Machine<S> {
    /// Takes a request in.
    pub fn accept(&mut self, request: Request, out: &mut Out) {
        let Request { ticket, op, lba, sectors, .. } = request;
        let (kind, data, fua) = match op {
            HostOp::Read(data) => (Kind::Read, Some(data), false),
            HostOp::Write { data, fua } => (Kind::Write, Some(data), fua),
            HostOp::Trim { fua } | HostOp::Zeroes { fua } => (Kind::Trim, None, fua),
            HostOp::Flush => (Kind::Flush, None, true),
        };
        self.count(kind, sectors);
        let active = Active {
            ticket: Some(ticket),
            data,
            kind,
            fua,
            lba,
            sectors,
            cursor: 0,
            outstanding: 0,
            direct: false,
            error: None,
            mark: Mark::default(),
        };
        if lba.checked_add(sectors).is_none_or(|end| end > self.plan.limits.exported) {
            return active.reply(Err(HostError::Range), out);
        }
        assert_eq!(self.life, Life::Running, "requests come between ready and stop");
        let req = self.requests.free.pop().expect("a request came without credit");
        self.requests.slots[req as usize] = Some(active);
        match kind {
            Kind::Read => self.requests.reads.push_back(req),
            Kind::Write | Kind::Trim => self.requests.writes.push_back(req),
            Kind::Flush => self.complete(req, out),
        }
    }

    fn count(&mut self, kind: Kind, sectors: u64) {
        match kind {
            Kind::Read => self.counters.host_read += sectors,
            Kind::Write => self.counters.host_written += sectors,
            Kind::Trim => self.counters.host_trimmed += sectors,
            Kind::Flush => {
                self.counters.flushes += 1;
                let pending = !self.durable().covers(self.mark_host());
                self.counters.flushes_pending += u64::from(pending);
            }
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    fn complete(&mut self, req: u16, out: &mut Out) {
        let mark = self.mark_host();
        let durable = self.durable();
        let health = self.health;
        let active = self.requests.at(req);
        let error = match health {
            Health::Good => active.error,
            Health::ReadOnly(error) => match active.kind {
                Kind::Read => active.error,
                _ => active.error.or(Some(error)),
            },
            Health::Dead => Some(HostError::Io),
        };
        if let Some(error) = error {
            return self.requests.remove(req).reply(Err(error), out);
        }
        let skip_flush = active.kind == Kind::Flush && planted(Bug::EarlyFlushReply);
        if active.fua && !durable.covers(mark) && !skip_flush {
            active.mark = mark;
            self.requests.waiting.push_back(req);
            self.commit = self.commit.max(mark);
            return;
        }
        self.requests.remove(req).reply(Ok(()), out);
    }

    /// Moves one run of the first read and one of the first write or trim.
    pub fn pump_requests(&mut self, now: Nanos, out: &mut Out) -> bool {
        self.pump_read(now, out) | self.pump_write(now, out)
    }

    fn pump_read(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(&req) = self.requests.reads.front() else { return false };
        if self.ops.room() <= OWN_OPS {
            return false;
        }
        let dead = self.health == Health::Dead;
        let active = self.requests.at(req);
        if active.cursor < active.sectors && !dead && active.error.is_none() {
            self.read_run(now, req, out);
        }
        let active = self.requests.at(req);
        if active.cursor == active.sectors || dead || active.error.is_some() {
            active.cursor = active.sectors;
            self.requests.reads.pop_front();
            self.complete_if_over(req, out);
        }
        true
    }

    /// Answers a request whose commands are all over.
    pub fn complete_if_over(&mut self, req: u16, out: &mut Out) {
        let active = self.requests.at(req);
        if active.outstanding == 0 && active.cursor == active.sectors {
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
        let data = active.data.as_mut().expect("a read has a payload");
        let into = data.view_mut_sectors(at, len);
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
    pub fn read_done(&mut self, op: Op, command: Command, ok: bool, out: &mut Out) {
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
        let active = self.requests.at(req);
        active.data.as_mut().expect("a read has a payload").repay_mut(into);
        active.outstanding -= 1;
        if !ok {
            active.error = Some(HostError::Io);
        }
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

    fn pump_write(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(&req) = self.requests.writes.front() else { return false };
        let healthy = self.health == Health::Good;
        let active = self.requests.at(req);
        let moved = match active.kind {
            _ if !healthy => {
                active.cursor = active.sectors;
                true
            }
            _ => S::pump_write(self, now, req, out),
        };
        let active = self.requests.at(req);
        if active.cursor == active.sectors {
            self.requests.writes.pop_front();
            self.complete_if_over(req, out);
            return true;
        }
        moved
    }
}

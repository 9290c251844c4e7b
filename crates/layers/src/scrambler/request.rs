//! Requests: taking them in, answering them, and reads.
//!
//! Invariants
//! - Writes and trims are worked on one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and nothing of it is under way.
//! - A flush or a FUA request that is complete waits until all that was published before it is
//!   durable; what is published only grows, so the first in the queue is the first to be answered.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, HostError, HostOp, Nanos, Out, Output, Payload, Piece, Reply, Request, Target,
    Ticket,
};

use super::ops::{OWN_OPS, Op};
use super::{Health, Life, Scrambler};
use crate::planted::{Bug, planted};

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
    /// Commands of a read, or fills of a write, under way.
    pub outstanding: u32,
    /// What went wrong.
    pub error: Option<HostError>,
    mark: u64,
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
    /// Writes and trims.
    pub writes: VecDeque<u16>,
    waiting: VecDeque<u16>,
}

impl Requests {
    /// No request.
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

    /// Whether none is under way.
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

    /// Answers one request that waited for what is durable now.
    pub fn answer_durable(&mut self, durable: u64, out: &mut Out) -> bool {
        let Some(&req) = self.waiting.front() else { return false };
        let covered = self.at(req).mark <= durable;
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

impl Scrambler {
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
            error: None,
            mark: 0,
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
                let pending = self.journal.durable < self.journal.published;
                self.counters.flushes_pending += u64::from(pending);
            }
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    fn complete(&mut self, req: u16, out: &mut Out) {
        let (mark, durable) = (self.journal.published, self.journal.durable);
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
        let skip = active.kind == Kind::Flush && planted(Bug::FlushBeforeMap);
        if active.fua && durable < mark && !skip {
            active.mark = mark;
            self.requests.waiting.push_back(req);
            self.journal.demand(mark);
            return;
        }
        self.requests.remove(req).reply(Ok(()), out);
    }

    /// Answers a request when nothing of it is left.
    pub fn complete_if_over(&mut self, req: u16, out: &mut Out) {
        let active = self.requests.at(req);
        if active.outstanding == 0 && active.cursor == active.sectors {
            self.complete(req, out);
        }
    }

    /// Moves the first read on by one run.
    pub fn pump_read(&mut self, now: Nanos, out: &mut Out) -> bool {
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
        let data = active.data.as_mut().expect("a read has a payload");
        let into = data.view_mut_sectors(at, len);
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
        let active = self.requests.at(req);
        active.data.as_mut().expect("a read has a payload").repay_mut(into);
        active.outstanding -= 1;
        if !ok {
            active.error = Some(HostError::Io);
        }
        self.complete_if_over(req, out);
    }
}

//! Requests: taking them in, cutting them into runs of blocks, answering them.
//!
//! Invariants
//! - Writes and trims are begun one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and none of its parts is under way.
//! - A flush or a FUA request that is complete waits until the last row that had anything of the
//!   host when it came is durable, and so are all rows before it; marks never go back.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    HostError, HostOp, Nanos, Out, Output, Payload, Reply, Request, SECTORS_PER_BLOCK, Ticket,
};

use super::layout::MAX_TRANSFER;
use super::map::At;
use super::{Life, Zones};

/// Requests under way at once.
const SLOTS: usize = 256;
/// Hanging requests that are answered in one go.
const ABANDON_STEP: usize = 8;
/// Blocks that a trim unmaps in one go.
const TRIM_STEP: u64 = 2048;

/// What the host wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub data: Option<Payload>,
    pub kind: Kind,
    fua: bool,
    pub lba: u64,
    pub sectors: u64,
    pub cursor: u64,
    pub outstanding: u32,
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

    /// The next part: its first sector, and how many are left. It ends within its first block when
    /// it does not fill that, and else at the end of a block.
    fn part(&self) -> (u64, u32) {
        let from = self.lba + self.cursor;
        let left = self.sectors - self.cursor;
        let block = u64::from(SECTORS_PER_BLOCK);
        let within = from % block;
        let part = match within {
            0 if left >= block && self.kind == Kind::Write => left / block * block,
            _ if self.kind == Kind::Read => left,
            _ => left.min(block - within),
        };
        (from, part.min(MAX_TRANSFER.into()) as u32)
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

    pub fn at(&mut self, req: u16) -> &mut Active {
        self.slots[req as usize].as_mut().expect("a request under way")
    }

    /// The payload of a request.
    pub fn data(&mut self, req: u16) -> &mut Payload {
        self.at(req).data.as_mut().expect("the request has a payload")
    }

    fn remove(&mut self, req: u16) -> Active {
        self.free.push(req);
        self.slots[req as usize].take().expect("a request under way")
    }

    /// The mark of the first that waits to be durable.
    pub fn waits_for(&mut self) -> Option<u64> {
        let &req = self.waiting.front()?;
        Some(self.at(req).mark)
    }

    /// Answers the first that waits.
    pub fn answer_waiting(&mut self, result: Result<(), HostError>, out: &mut Out) -> bool {
        let Some(req) = self.waiting.pop_front() else { return false };
        self.remove(req).reply(result, out);
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

    /// The first write finds no room; false when there is none, or it was told.
    pub fn refuse_first(&mut self) -> bool {
        let Some(&req) = self.writes.front() else { return false };
        self.at(req).error.replace(HostError::NoSpace).is_none()
    }

    /// The power is off.
    pub fn void(&mut self) {
        for active in self.slots.iter_mut().filter_map(Option::take) {
            active.ticket.map(Ticket::close);
            active.data.map(Payload::void);
        }
    }
}

impl Zones {
    /// Takes a request in.
    pub(super) fn accept(&mut self, request: Request, out: &mut Out) {
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
        let counters = &mut self.counters;
        match kind {
            Kind::Read => counters.host_read += sectors,
            Kind::Write => counters.host_written += sectors,
            Kind::Trim => counters.host_trimmed += sectors,
            Kind::Flush => {
                counters.flushes += 1;
                counters.flushes_pending += u64::from(self.durable < self.host_seq);
            }
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    pub(super) fn complete(&mut self, req: u16, out: &mut Out) {
        let (mark, flushed) = (self.host_seq, self.durable);
        let (failed, dead) = (self.failed, self.abandoning);
        let active = self.requests.at(req);
        let failed = failed.filter(|_| dead || active.kind != Kind::Read);
        if let Some(error) = active.error.or(failed) {
            return self.requests.remove(req).reply(Err(error), out);
        }
        if active.fua && flushed < mark {
            active.mark = mark;
            self.requests.waiting.push_back(req);
            self.commit = self.commit.max(mark);
            return;
        }
        self.requests.remove(req).reply(Ok(()), out);
    }

    /// A part of a request is done, or nothing of it is left to begin.
    pub(super) fn complete_if_over(&mut self, req: u16, out: &mut Out) {
        let active = self.requests.at(req);
        if active.outstanding == 0 && active.cursor == active.sectors {
            self.complete(req, out);
        }
    }

    /// Begins a part of the first read and one of the first write or trim.
    pub(super) fn pump_requests(&mut self, now: Nanos, out: &mut Out) -> bool {
        self.pump_read(now, out) | self.pump_write(now, out)
    }

    fn pump_read(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(&req) = self.requests.reads.front() else { return false };
        let failed = self.abandoning;
        let active = self.requests.at(req);
        if active.cursor < active.sectors && !failed {
            let (from, sectors) = active.part();
            if !self.begin_read(now, req, (from, sectors), out) {
                return false;
            }
        }
        let active = self.requests.at(req);
        if failed {
            active.cursor = active.sectors;
        }
        if active.cursor == active.sectors {
            self.requests.reads.pop_front();
            self.complete_if_over(req, out);
        }
        true
    }

    fn pump_write(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(&req) = self.requests.writes.front() else { return false };
        let worn = self.worn;
        let active = self.requests.at(req);
        if worn && active.kind == Kind::Write && active.cursor < active.sectors {
            active.error = Some(HostError::NoSpace);
        }
        let failed = active.error.is_some() || self.failed.is_some();
        let active = self.requests.at(req);
        if active.cursor < active.sectors && !failed {
            let (from, sectors) = active.part();
            let moved = match active.kind {
                Kind::Trim if sectors == SECTORS_PER_BLOCK => self.trim_some(req, from),
                _ => self.begin_write(now, req, (from, sectors), out),
            };
            if !moved {
                return false;
            }
        }
        let active = self.requests.at(req);
        if failed {
            active.cursor = active.sectors;
        }
        if active.cursor == active.sectors {
            self.requests.writes.pop_front();
            self.complete_if_over(req, out);
        }
        true
    }

    /// Unmaps whole blocks of a trim, and lists that in a row.
    fn trim_some(&mut self, req: u16, from: u64) -> bool {
        let active = self.requests.at(req);
        let block = u64::from(SECTORS_PER_BLOCK);
        let left = (active.lba + active.sectors - from) / block;
        let (first, blocks) = (from / block, left.min(TRIM_STEP));
        if self.blocks.any_write_in(first, first + blocks) {
            return false;
        }
        self.touched += blocks as usize;
        let mapped = (first..first + blocks).any(|it| self.map.get(it) != At::Nowhere);
        if mapped && !self.append_trim(first, blocks) {
            return false;
        }
        self.requests.at(req).cursor += blocks * block;
        true
    }
}

//! Requests: taking them in, cutting them into blocks, answering them.
//!
//! Invariants
//! - Writes and trims are begun one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and none of its blocks is under way.
//! - A flush or a FUA request that is complete waits until all rows that were opened up to its mark
//!   and have anything of the host are durable; marks never go back.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    HostError, HostOp, Nanos, Out, Output, Payload, Reply, Request, SECTORS_PER_BLOCK, Ticket,
};

use super::map::Where;
use super::{Life, Log};

/// Requests under way at once.
const SLOTS: usize = 256;
/// Hanging requests that are answered in one go.
const ABANDON_STEP: usize = 8;
/// Map pages without a mapped block that a trim passes in one go.
const BLANK_STEP: u32 = 64;
/// Map pages that a trim asks for before it needs them.
const AHEAD: u32 = 16;

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

    /// The next part: first sector, length, within one block.
    fn part(&self) -> (u64, u32) {
        let from = self.lba + self.cursor;
        let block = u64::from(SECTORS_PER_BLOCK);
        let to = ((from / block + 1) * block).min(self.lba + self.sectors);
        (from, (to - from) as u32)
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
    /// The map page that is kept for the first trim.
    trimming: Option<u32>,
}

impl Requests {
    pub fn new() -> Self {
        Requests {
            slots: (0..SLOTS).map(|_| None).collect(),
            free: (0..SLOTS as u16).rev().collect(),
            reads: VecDeque::with_capacity(SLOTS),
            writes: VecDeque::with_capacity(SLOTS),
            waiting: VecDeque::with_capacity(SLOTS),
            trimming: None,
        }
    }

    /// How many more may come.
    pub fn room(&self) -> u32 {
        self.free.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.free.len() == SLOTS
    }

    /// Whether a write or a trim was not begun yet.
    pub fn any_write_waits(&self) -> bool {
        !self.writes.is_empty()
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

    /// The power is off.
    pub fn void(&mut self) {
        for active in self.slots.iter_mut().filter_map(Option::take) {
            active.ticket.map(Ticket::close);
            active.data.map(Payload::void);
        }
    }
}

impl Log {
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
                counters.flushes_pending += u64::from(self.flushed_stamp < self.host_stamp);
            }
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    pub(super) fn complete(&mut self, req: u16, out: &mut Out) {
        let (mark, flushed) = (self.host_stamp, self.flushed_stamp);
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

    /// A block of a request is done, or nothing of it is left to begin.
    pub(super) fn complete_if_over(&mut self, req: u16, out: &mut Out) {
        let active = self.requests.at(req);
        if active.outstanding == 0 && active.cursor == active.sectors {
            self.complete(req, out);
        }
    }

    /// Begins one block of the first read and one of the first write or trim.
    pub(super) fn pump_requests(&mut self, now: Nanos, out: &mut Out) -> bool {
        self.pump_read(now, out) | self.pump_write(now, out)
    }

    fn pump_read(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(&req) = self.requests.reads.front() else { return false };
        let failed = self.abandoning;
        let active = self.requests.at(req);
        if active.cursor < active.sectors && !failed {
            let (from, sectors) = active.part();
            if !self.begin_read(now, req, from, sectors, out) {
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
        let failed = self.failed.is_some();
        let active = self.requests.at(req);
        if active.cursor < active.sectors && !failed {
            let (from, sectors) = active.part();
            let moved = match active.kind {
                Kind::Trim if sectors == SECTORS_PER_BLOCK => self.trim_some(now, req, from, out),
                Kind::Trim => self.begin_write(now, req, (from, sectors), false, out),
                _ => self.begin_write(now, req, (from, sectors), true, out),
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

    /// Unmaps whole blocks of a trim, of one map page, and lists that in a row.
    fn trim_some(&mut self, now: Nanos, req: u16, from: u64, out: &mut Out) -> bool {
        let active = self.requests.at(req);
        let block = u64::from(SECTORS_PER_BLOCK);
        let first = from / block;
        let last = first + (active.lba + active.sectors - from) / block;
        let blank = self.blank_until(first, last);
        if blank > first {
            self.requests.at(req).cursor += (blank - first) * block;
            return true;
        }
        let page = self.map.page_of(first);
        let end = last.min(self.map.end_of(page));
        if self.blocks.any_write_in(first, end) {
            return false;
        }
        self.ask_ahead(now, page, last, out);
        match self.hold_for_trim(now, page, out) {
            Where::Away | Where::Coming => return false,
            Where::Bad => self.requests.at(req).error = Some(HostError::Io),
            Where::Here => {
                self.touched += (end - first) as usize;
                let mapped = (first..end).any(|it| !self.map.place(it).is_nowhere());
                if mapped && !self.append_trim(first, end - first) {
                    return false;
                }
            }
        }
        self.end_hold();
        self.requests.at(req).cursor += (end - first) * block;
        true
    }

    /// The first block from `first` on, but not beyond `last`, whose page may map something. A page
    /// that is being written is not blank.
    fn blank_until(&mut self, first: u64, last: u64) -> u64 {
        let mut at = first;
        for _ in 0..BLANK_STEP {
            if at == last || !self.is_blank(self.map.page_of(at)) {
                break;
            }
            self.touched += 1;
            at = last.min(self.map.end_of(self.map.page_of(at)));
        }
        at
    }

    /// Gets the pages that a trim will need next.
    fn ask_ahead(&mut self, now: Nanos, page: u32, last: u64, out: &mut Out) {
        for next in page + 1..(page + AHEAD).min(self.map.page_of(last)) {
            if !self.is_blank(next) {
                self.fetch_page(now, next, out);
            }
        }
    }

    /// Keeps a page until the first trim is through with it.
    fn hold_for_trim(&mut self, now: Nanos, page: u32, out: &mut Out) -> Where {
        if self.requests.trimming == Some(page) {
            return self.map.state(page);
        }
        self.end_hold();
        let state = self.hold_page(now, page, self.map.reserve(), out);
        self.requests.trimming = (state != Where::Away).then_some(page);
        state
    }

    fn end_hold(&mut self) {
        if let Some(page) = self.requests.trimming.take() {
            self.map.unpin(page);
        }
    }

    /// The first trim gets no room to be listed.
    pub(super) fn refuse_trim(&mut self, out: &mut Out) -> bool {
        let Some(req) = self.requests.writes.pop_front() else { return false };
        self.end_hold();
        let why = self.why_full();
        let active = self.requests.at(req);
        active.cursor = active.sectors;
        active.error = Some(why);
        self.complete_if_over(req, out);
        true
    }
}

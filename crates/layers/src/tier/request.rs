//! Requests under way: each goes over its range page by page, to a slot or to the slow device.
//!
//! Invariants
//! - A request is free, or unanswered (it has a ticket), or abandoned and waits for its payload.
//! - A request that can't go on is not among the ready ones, and any command that ends makes it
//!   ready again.

use alloc::vec::Vec;

use hostftl_core::{
    Command, DeviceError, HostError, HostOp, Nanos, Out, Output, Payload, Piece, Reply, Request,
    Target, Ticket,
};

use super::failures::host_error;
use super::ops::{OWN_OPS, Op};
use super::route::Way;
use super::slots::State;
use super::{ROOM, Tier};

/// Requests under way at once; a word has a bit for each.
pub const REQUESTS: usize = 64;
/// Commands of one request at once.
const FLYING: u16 = 8;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Trim,
    Zeroes,
    Flush,
}

/// One request.
#[derive(Debug)]
pub struct Req {
    pub ticket: Option<Ticket>,
    pub data: Option<Payload>,
    pub kind: Kind,
    pub fua: bool,
    pub lba: u64,
    pub cursor: u64,
    pub end: u64,
    pub flying: u16,
    pub error: Option<HostError>,
    /// Whether the page at the cursor is to come here; not decided yet if nothing.
    pub choice: Option<bool>,
    /// Whether it waits for a commit.
    pub joined: bool,
    pub late: bool,
}

/// See the module text.
#[derive(Debug)]
pub struct Requests {
    slots: Vec<Option<Req>>,
    free: Vec<u8>,
    taken: u64,
    ready: u64,
    late: bool,
}

impl Requests {
    /// None.
    pub fn new() -> Self {
        Requests {
            slots: (0..REQUESTS).map(|_| None).collect(),
            free: (0..REQUESTS as u8).rev().collect(),
            taken: 0,
            ready: 0,
            late: false,
        }
    }

    /// How many more there may be.
    #[inline]
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.free.len() == REQUESTS
    }

    /// Whether one may be able to go on.
    #[inline]
    pub fn can_move(&self) -> bool {
        self.ready != 0 || self.late
    }

    /// Something changed: all may be able to go on.
    #[inline]
    pub fn wake(&mut self) {
        self.ready = self.taken;
    }

    /// A command of a request is past its deadline.
    pub fn set_late(&mut self, req: u16) {
        self.late = true;
        self.get(req).late = true;
    }

    /// Requests that stand at a page which could not be fetched go around the fast device.
    pub fn go_around(&mut self, page: u32, sectors: u32) {
        let at = |req: &Req| req.cursor / u64::from(sectors) == u64::from(page);
        for req in self.slots.iter_mut().flatten().filter(|req| at(req)) {
            req.choice = Some(false);
        }
    }

    #[inline]
    /// One request.
    pub fn get(&mut self, req: u16) -> &mut Req {
        self.slots[usize::from(req)].as_mut().expect("the request is under way")
    }

    fn end(&mut self, req: u16) -> Req {
        self.free.push(req as u8);
        self.taken &= !(1 << req);
        self.ready &= self.taken;
        self.slots[usize::from(req)].take().expect("the request is under way")
    }

    /// The power is off.
    pub fn void(&mut self) {
        for req in self.slots.iter_mut().filter_map(Option::take) {
            req.ticket.map(Ticket::close);
            req.data.map(Payload::void);
        }
    }
}

impl Tier {
    /// Takes a request.
    pub fn accept(&mut self, request: Request, out: &mut Out) {
        let Request { ticket, op, lba, sectors, .. } = request;
        self.count(&op, sectors);
        let (kind, data, fua) = match op {
            HostOp::Read(data) => (Kind::Read, Some(data), false),
            HostOp::Write { data, fua } => (Kind::Write, Some(data), fua),
            HostOp::Flush => (Kind::Flush, None, true),
            HostOp::Trim { fua } => (Kind::Trim, None, fua),
            HostOp::Zeroes { fua } => (Kind::Zeroes, None, fua),
        };
        if lba.checked_add(sectors).is_none_or(|end| end > self.layout.exported()) {
            let result = Err(HostError::Range);
            return out.push(Output::Reply(Reply { ticket, data, result }));
        }
        let req = self.requests.free.pop().expect("a request came without credit");
        self.requests.slots[usize::from(req)] = Some(Req {
            ticket: Some(ticket),
            data,
            kind,
            fua,
            lba,
            cursor: lba,
            end: lba + sectors,
            flying: 0,
            error: None,
            choice: None,
            joined: false,
            late: false,
        });
        self.requests.taken |= 1 << req;
        self.requests.ready |= 1 << req;
    }

    fn count(&mut self, op: &HostOp, sectors: u64) {
        let counters = &mut self.counters;
        match op {
            HostOp::Read(_) => counters.host_read += sectors,
            HostOp::Write { .. } => counters.host_written += sectors,
            HostOp::Trim { .. } | HostOp::Zeroes { .. } => counters.host_trimmed += sectors,
            HostOp::Flush => counters.flushes += 1,
        }
    }

    /// Lets every request go on that can.
    pub fn pump_requests(&mut self, now: Nanos, out: &mut Out) {
        while self.requests.ready != 0 {
            if out.room() < ROOM {
                self.again = true;
                return;
            }
            let req = self.requests.ready.trailing_zeros() as u16;
            if !self.go_on(now, req, out) {
                self.requests.ready &= !(1 << req);
            }
        }
    }

    /// Lets a request make one move; false when it can't.
    fn go_on(&mut self, now: Nanos, req: u16, out: &mut Out) -> bool {
        let stopped = self.failures.error();
        let it = self.requests.get(req);
        if it.ticket.is_none() || it.joined {
            return false;
        }
        if let Some(error) = stopped.filter(|_| it.kind != Kind::Read) {
            it.error.get_or_insert(error);
        }
        if it.cursor == it.end || it.error.is_some() {
            if it.flying == 0 {
                self.finish(req, out);
            }
            return false;
        }
        if it.flying == FLYING || self.ops.room() <= OWN_OPS {
            return false;
        }
        let page = (it.cursor / u64::from(self.layout.page)) as u32;
        match self.way(now, req, page, out) {
            Way::Wait => return false,
            Way::Lost => self.requests.get(req).error = Some(HostError::Io),
            Way::Slot(slot) => self.use_slot(now, req, page, slot, out),
            Way::Buffer(job) => self.copy(now, req, page, job, out),
            Way::Slow => self.use_slow(now, req, page, out),
            Way::Take(slot) => self.take_whole(now, req, slot, out),
        }
        true
    }

    /// Ends a request, or lets it wait for a commit.
    fn finish(&mut self, req: u16, out: &mut Out) {
        let it = self.requests.get(req);
        match it.error {
            Some(error) => self.reply(req, Err(error), out),
            None if it.fua => {
                it.joined = true;
                self.commit.join(req);
            }
            None => self.reply(req, Ok(()), out),
        }
    }

    /// Answers a request of which nothing is under way.
    pub fn reply(&mut self, req: u16, result: Result<(), HostError>, out: &mut Out) {
        let Req { ticket, data, .. } = self.requests.end(req);
        let ticket = ticket.expect("it was not answered yet");
        out.push(Output::Reply(Reply { ticket, data, result }));
    }

    /// Answers requests that wait for a late command; their payload follows when it ends.
    pub fn abandon_late(&mut self, out: &mut Out) {
        if !core::mem::take(&mut self.requests.late) {
            return;
        }
        for req in self.requests.slots.iter_mut().flatten() {
            if !req.late || req.ticket.is_none() {
                continue;
            }
            if out.room() < ROOM {
                self.requests.late = true;
                return;
            }
            let ticket = req.ticket.take().expect("looked at just now");
            let result = Err(HostError::Io);
            out.push(Output::Reply(Reply { ticket, data: None, result }));
        }
    }

    /// A command of a request is over.
    pub fn request_done(
        &mut self,
        op: Op,
        command: Command,
        error: Option<DeviceError>,
        out: &mut Out,
    ) {
        match op {
            Op::ReadSlot { slot, .. } => self.slots.get_mut(slot).readers -= 1,
            Op::WriteSlot { slot, .. } => self.slots.get_mut(slot).writers -= 1,
            Op::Take { slot, .. } if error.is_none() => self.arrived(slot, State::Dirty),
            _ => {}
        }
        let req = op.request().expect("it belongs to a request");
        let it = self.requests.get(req);
        match (op, command) {
            (Op::Copy { job, .. }, Command::Place { from: Piece::Data(from), into }) => {
                self.jobs.take_back(job, from);
                it.data.as_mut().expect("a read has a payload").repay_mut(into);
            }
            (_, command) => repay(it.data.as_mut(), command),
        }
        it.flying -= 1;
        if let Some(error) = error {
            it.error.get_or_insert(host_error(error));
        }
        if it.ticket.is_none() && it.flying == 0 {
            let Req { data, .. } = self.requests.end(req);
            data.into_iter().for_each(|data| out.push(Output::Reclaim(data)));
        }
    }
}

fn repay(data: Option<&mut Payload>, command: Command) {
    match (command, data) {
        (Command::Read { into: Target::Data(view), .. }, Some(data)) => data.repay_mut(view),
        (Command::Program { gather, .. }, Some(data)) => {
            for piece in gather {
                if let Piece::Data(view) = piece {
                    data.repay(view);
                }
            }
        }
        (Command::Program { .. } | Command::Reset { .. }, None) => {}
        (other, _) => unreachable!("no request sends {other:?}"),
    }
}

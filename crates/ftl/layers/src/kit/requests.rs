//! Requests under way, for layers that take reads in order, and writes and trims in order, or that
//! take all in any order.
//!
//! Invariants
//! - In the order of arrival a request is in the queue of reads or of writes until all of it was
//!   begun, and in the queue of those that wait when it is complete and must become durable. In any
//!   order the queues are empty.
//! - What waits does so with a mark, and marks never go back: the first in the queue is the first
//!   to be answered.
//! - What was abandoned has no ticket, and holds its payload until its commands are over.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{Counters, HostError, HostOp, Out, Output, Payload, Reply, Request, Ticket};

use super::life::Health;

/// Requests under way at once.
pub(crate) const SLOTS: usize = 256;
/// Hanging requests that are answered in one go.
const ABANDON_STEP: usize = 8;

/// What a request asks; zeroing is a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "these are the requests of the core")]
pub(crate) enum Kind {
    Read,
    Write,
    Trim,
    Flush,
}

/// In which order requests are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Reads in the order of arrival, and so writes and trims.
    Arrival,
    /// Any: the engine knows which can go on.
    Any,
}

/// One request under way. Lengths are in sectors.
#[derive(Debug)]
pub(crate) struct Active<Mark> {
    ticket: Option<Ticket>,
    /// What it writes, or where it reads to.
    pub data: Option<Payload>,
    /// What it asks.
    pub kind: Kind,
    is_zeroing: bool,
    fua: bool,
    /// The first sector.
    pub lba: u64,
    /// How many.
    pub sectors: u64,
    /// How many were begun.
    pub cursor: u64,
    /// Parts under way.
    pub outstanding: u32,
    /// What went wrong.
    pub error: Option<HostError>,
    /// What must be durable before it is answered.
    mark: Mark,
}

impl<Mark> Active<Mark> {
    fn reply(&mut self, result: Result<(), HostError>, out: &mut Out) {
        match (self.ticket.take(), self.data.take()) {
            (Some(ticket), data) => {
                out.push_with(|| Output::Reply(Reply { ticket, data, result }));
            }
            (None, Some(data)) => out.push(Output::Reclaim(data)),
            (None, None) => {}
        }
    }

    /// Answers it without its payload, unless it was answered. Whether it was not.
    fn abandon(&mut self, out: &mut Out) -> bool {
        let Some(ticket) = self.ticket.take() else { return false };
        self.error = Some(HostError::Io);
        out.push(Output::Reply(Reply { ticket, data: None, result: Err(HostError::Io) }));
        true
    }

    /// Gives it the error that an engine of such health answers it with.
    pub(crate) fn blame(&mut self, health: Health) {
        match health {
            Health::ReadOnly(error) if self.kind != Kind::Read => {
                self.error.get_or_insert(error);
            }
            Health::Good | Health::ReadOnly(_) => {}
            Health::Dead => self.error = Some(HostError::Io),
        }
    }

    /// Whether a trim is a zeroing.
    pub(crate) fn is_zeroing(&self) -> bool {
        self.is_zeroing
    }

    /// Whether all of it must be durable before it is answered.
    pub(crate) fn is_fua(&self) -> bool {
        self.fua
    }

    /// Whether it was answered although parts of it hang.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.ticket.is_none()
    }

    /// Whether all of it was begun.
    pub(crate) fn is_begun(&self) -> bool {
        self.cursor == self.sectors
    }
}

#[derive(Debug)]
pub(crate) struct Requests<Mark> {
    order: Order,
    slots: Vec<Option<Active<Mark>>>,
    free: Vec<u16>,
    reads: VecDeque<u16>,
    /// Writes and trims.
    writes: VecDeque<u16>,
    waiting: VecDeque<u16>,
}

impl<Mark: Copy + Default> Requests<Mark> {
    /// No request, of at most `most`.
    pub(crate) fn new(order: Order, most: usize) -> Self {
        let queue = || match order {
            Order::Arrival => VecDeque::with_capacity(most),
            Order::Any => VecDeque::new(),
        };
        Requests {
            order,
            slots: (0..most).map(|_| None).collect(),
            free: (0..most as u16).rev().collect(),
            reads: queue(),
            writes: queue(),
            waiting: queue(),
        }
    }

    /// How many more may come.
    pub(crate) fn room(&self) -> u32 {
        self.free.len() as u32
    }

    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Whether nobody waits for an answer; what was abandoned may still hold its payload.
    pub(crate) fn are_answered(&self) -> bool {
        self.slots.iter().flatten().all(|active| active.ticket.is_none())
    }

    /// Takes a request in, and tells which it is now; none when it is answered already, because it
    /// goes beyond the `exported` sectors.
    pub(crate) fn take(&mut self, request: Request, exported: u64, out: &mut Out) -> Option<u16> {
        let Request { ticket, op, lba, sectors, .. } = request;
        let is_zeroing = matches!(op, HostOp::Zeroes { .. });
        let (kind, data, fua) = match op {
            HostOp::Read(data) => (Kind::Read, Some(data), false),
            HostOp::Write { data, fua } => (Kind::Write, Some(data), fua),
            HostOp::Trim { fua } | HostOp::Zeroes { fua } => (Kind::Trim, None, fua),
            HostOp::Flush => (Kind::Flush, None, true),
        };
        let mut active = Active {
            ticket: Some(ticket),
            data,
            kind,
            is_zeroing,
            fua,
            lba,
            sectors,
            cursor: 0,
            outstanding: 0,
            error: None,
            mark: Mark::default(),
        };
        if lba.checked_add(sectors).is_none_or(|end| end > exported) {
            active.reply(Err(HostError::Range), out);
            return None;
        }
        let req = self.free.pop().expect("a request came without credit");
        self.slots[usize::from(req)] = Some(active);
        match kind {
            _ if self.order == Order::Any => {}
            Kind::Read => self.reads.push_back(req),
            Kind::Write | Kind::Trim => self.writes.push_back(req),
            Kind::Flush => {}
        }
        Some(req)
    }

    /// All that are under way.
    pub(crate) fn active(&self) -> impl Iterator<Item = (u16, &Active<Mark>)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(req, slot)| Some((req, slot.as_ref()?)))
    }

    /// The writes and trims of which parts are under way.
    pub(crate) fn changing(&self) -> impl Iterator<Item = (u16, &Active<Mark>)> {
        self.active().filter(|(_, active)| {
            active.outstanding > 0 && matches!(active.kind, Kind::Write | Kind::Trim)
        })
    }

    /// A request under way.
    pub(crate) fn at(&mut self, req: u16) -> &mut Active<Mark> {
        self.slots[usize::from(req)].as_mut().expect("a request under way")
    }

    /// The payload of a request.
    pub(crate) fn data(&mut self, req: u16) -> &mut Payload {
        self.at(req).data.as_mut().expect("the request has a payload")
    }

    /// Whether there is a request of which not all was begun.
    #[inline]
    pub(crate) fn any_unbegun(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    /// The first read of which not all was begun.
    pub(crate) fn first_read(&self) -> Option<u16> {
        self.reads.front().copied()
    }

    /// The first write or trim of which not all was begun.
    pub(crate) fn first_write(&self) -> Option<u16> {
        self.writes.front().copied()
    }

    /// All of the first read was begun, or nothing more of it will be.
    pub(crate) fn end_read(&mut self) {
        let req = self.reads.pop_front().expect("a read");
        let active = self.at(req);
        active.cursor = active.sectors;
    }

    /// All of the first write or trim was begun, or nothing more of it will be.
    pub(crate) fn end_write(&mut self) {
        let req = self.writes.pop_front().expect("a write or trim");
        let active = self.at(req);
        active.cursor = active.sectors;
    }

    /// A part of a request is over.
    pub(crate) fn part_over(&mut self, req: u16, ok: bool) {
        let active = self.at(req);
        active.outstanding -= 1;
        if !ok {
            active.error = Some(HostError::Io);
        }
    }

    /// Whether all of a request was begun and is over.
    pub(crate) fn is_complete(&mut self, req: u16) -> bool {
        let active = self.at(req);
        active.outstanding == 0 && active.is_begun()
    }

    /// Ends a request that is complete, and tells whether it waits for `mark`: a flush or a FUA
    /// request does, unless that `is_durable`.
    pub(crate) fn end(&mut self, req: u16, mark: Mark, is_durable: bool, out: &mut Out) -> bool {
        let active = self.at(req);
        let waits = active.fua && !is_durable && active.error.is_none();
        if waits {
            active.mark = mark;
            self.waiting.push_back(req);
        } else {
            let result = active.error.map_or(Ok(()), Err);
            self.remove(req, result, out);
        }
        waits
    }

    /// Ends a request of which nothing is under way: answers it, or gives back the payload of one
    /// that was abandoned.
    ///
    /// # Panics
    /// When a part of it is under way, or when another order than any counts.
    pub(crate) fn answer(&mut self, req: u16, result: Result<(), HostError>, out: &mut Out) {
        assert_eq!(self.order, Order::Any, "what is in a queue ends there");
        assert_eq!(self.at(req).outstanding, 0, "a request ends when its parts are over");
        self.remove(req, result, out);
    }

    fn remove(&mut self, req: u16, result: Result<(), HostError>, out: &mut Out) {
        self.at(req).reply(result, out);
        self.slots[usize::from(req)] = None;
        self.free.push(req);
    }

    /// What the first that waits does wait for.
    pub(crate) fn waits_for(&self) -> Option<Mark> {
        let req = self.waiting.front()?;
        self.slots[usize::from(*req)].as_ref().map(|active| active.mark)
    }

    /// Answers the first that waits; false when none does.
    pub(crate) fn answer_waiting(&mut self, result: Result<(), HostError>, out: &mut Out) -> bool {
        let Some(req) = self.waiting.pop_front() else { return false };
        self.remove(req, result, out);
        true
    }

    /// Answers some requests whose parts hang; their payloads follow when the device lets go.
    pub(crate) fn abandon(&mut self, out: &mut Out) -> bool {
        let hanging =
            |active: &&mut Active<Mark>| active.outstanding > 0 && active.ticket.is_some();
        let mut moved = false;
        for active in self.slots.iter_mut().flatten().filter(hanging).take(ABANDON_STEP) {
            moved |= active.abandon(out);
        }
        moved
    }

    /// Answers a request, if its parts hang; its payload follows when the device lets go. Whether
    /// it was answered.
    pub(crate) fn abandon_one(&mut self, req: u16, out: &mut Out) -> bool {
        let active = self.at(req);
        active.outstanding > 0 && active.abandon(out)
    }

    /// The power is off.
    pub(crate) fn void(&mut self) {
        for active in self.slots.iter_mut().filter_map(Option::take) {
            active.ticket.map(Ticket::close);
            active.data.map(Payload::void);
        }
    }
}

/// Counts a request that came; a flush with whether it finds something `pending`.
pub(crate) fn count(counters: &mut Counters, request: &Request, pending: bool) {
    match request.op {
        HostOp::Read(_) => counters.host_read += request.sectors,
        HostOp::Write { .. } => counters.host_written += request.sectors,
        HostOp::Trim { .. } | HostOp::Zeroes { .. } => counters.host_trimmed += request.sectors,
        HostOp::Flush => {
            counters.flushes += 1;
            counters.flushes_pending += u64::from(pending);
        }
    }
}

//! Requests in flight. An engine processes them in the order of arrival (reads in one queue, writes
//! and trims in another) or in any order.
//!
//! Invariants
//! - In the order of arrival, a request is in the queue of reads or of writes until all its parts
//!   are started. A completed request that must become durable is in the queue of waiting requests.
//!   In any order, the queues are empty.
//! - Marks of waiting requests never decrease, so the first request in the queue is answered first.
//! - An abandoned request has no ticket, and keeps its payload until its commands complete.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{Counters, HostError, HostOp, Out, Output, Payload, Reply, Request, Ticket};

use super::life::Health;

/// Maximum number of requests in flight.
pub(crate) const SLOTS: usize = 256;
/// Requests abandoned per call.
const ABANDON_STEP: usize = 8;

/// Kind of a request. Writing zeros is a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "a request type of the core")]
pub(crate) enum Kind {
    Read,
    Write,
    Trim,
    Flush,
}

/// Order in which requests are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Reads in the order of arrival, and likewise writes and trims.
    Arrival,
    /// Any order, chosen by the engine.
    Any,
}

/// A request in flight. Lengths are in sectors.
#[derive(Debug)]
pub(crate) struct Active<Mark> {
    ticket: Option<Ticket>,
    /// Data to write, or buffer to read into.
    pub data: Option<Payload>,
    /// Kind of the request.
    pub kind: Kind,
    is_zeroing: bool,
    fua: bool,
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Number of sectors whose parts were started.
    pub cursor: u64,
    /// Parts in flight.
    pub outstanding: u32,
    /// First or most severe error.
    pub error: Option<HostError>,
    /// Mark that must be durable before the answer.
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

    /// Answers the request without its payload. Returns false if it was answered before.
    fn abandon(&mut self, out: &mut Out) -> bool {
        let Some(ticket) = self.ticket.take() else { return false };
        self.error = Some(HostError::Io);
        out.push(Output::Reply(Reply { ticket, data: None, result: Err(HostError::Io) }));
        true
    }

    /// Sets the error that an engine of this health answers with.
    pub(crate) fn blame(&mut self, health: Health) {
        match health {
            Health::ReadOnly(error) if self.kind != Kind::Read => {
                self.error.get_or_insert(error);
            }
            Health::Good | Health::ReadOnly(_) => {}
            Health::Failed => self.error = Some(HostError::Io),
        }
    }

    /// Returns whether a trim must write zeros.
    pub(crate) fn is_zeroing(&self) -> bool {
        self.is_zeroing
    }

    /// Returns whether the request must be durable before it is answered.
    pub(crate) fn is_fua(&self) -> bool {
        self.fua
    }

    /// Returns whether it was answered although parts are in flight.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.ticket.is_none()
    }

    /// Returns whether all its parts were started.
    pub(crate) fn is_begun(&self) -> bool {
        self.cursor == self.sectors
    }
}

/// The requests in flight, in their order.
#[derive(Debug)]
pub(crate) struct Requests<Mark> {
    order: Order,
    slots: Vec<Option<Active<Mark>>>,
    free: Vec<u16>,
    reads: VecDeque<u16>,
    /// Writes and trims that are not completely started.
    writes: VecDeque<u16>,
    waiting: VecDeque<u16>,
}

impl<Mark: Copy + Default> Requests<Mark> {
    /// Creates a table for at most `most` requests.
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

    /// Returns the number of requests that can still be accepted.
    pub(crate) fn requests_left(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns the number of requests in flight.
    pub(crate) fn count(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Returns whether no request is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Returns whether all requests are answered; abandoned ones may still hold their payload.
    pub(crate) fn are_answered(&self) -> bool {
        self.slots.iter().flatten().all(|active| active.ticket.is_none())
    }

    /// Accepts a request and returns its index. A request beyond the `exported` sectors is answered
    /// with an error, and `None` is returned.
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

    /// Iterates over the requests in flight.
    pub(crate) fn active(&self) -> impl Iterator<Item = (u16, &Active<Mark>)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(req, slot)| Some((req, slot.as_ref()?)))
    }

    /// Iterates over the writes and trims with parts in flight.
    pub(crate) fn changing(&self) -> impl Iterator<Item = (u16, &Active<Mark>)> {
        self.active().filter(|(_, active)| {
            active.outstanding > 0 && matches!(active.kind, Kind::Write | Kind::Trim)
        })
    }

    /// Returns a request in flight.
    pub(crate) fn at(&mut self, req: u16) -> &mut Active<Mark> {
        self.slots[usize::from(req)].as_mut().expect("a request in progress")
    }

    /// Returns the payload of a request.
    pub(crate) fn data(&mut self, req: u16) -> &mut Payload {
        self.at(req).data.as_mut().expect("the request has a payload")
    }

    /// Returns whether a request is not completely started.
    #[inline]
    pub(crate) fn any_unbegun(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    /// Returns the first read that is not completely started.
    pub(crate) fn first_read(&self) -> Option<u16> {
        self.reads.front().copied()
    }

    /// Returns the first write or trim that is not completely started.
    pub(crate) fn first_write(&self) -> Option<u16> {
        self.writes.front().copied()
    }

    /// Removes the first read from its queue; no more of its parts will be started.
    pub(crate) fn end_read(&mut self) {
        let req = self.reads.pop_front().expect("a read");
        let active = self.at(req);
        active.cursor = active.sectors;
    }

    /// Removes the first write or trim from its queue; no more of its parts will be started.
    pub(crate) fn end_write(&mut self) {
        let req = self.writes.pop_front().expect("a write or trim");
        let active = self.at(req);
        active.cursor = active.sectors;
    }

    /// Completes a part of a request.
    pub(crate) fn part_over(&mut self, req: u16, ok: bool) {
        let active = self.at(req);
        active.outstanding -= 1;
        if !ok {
            active.error = Some(HostError::Io);
        }
    }

    /// Returns whether all parts of a request were started and are complete.
    pub(crate) fn is_complete(&mut self, req: u16) -> bool {
        let active = self.at(req);
        active.outstanding == 0 && active.is_begun()
    }

    /// Ends a completed request. A flush or FUA request waits for `mark`, unless that `is_durable`;
    /// others are answered. Returns whether it waits.
    pub(crate) fn end(&mut self, req: u16, mark: Mark, is_durable: bool, out: &mut Out) -> bool {
        let active = self.at(req);
        // A failed request has nothing to wait for.
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

    /// Ends a request without parts in flight: answers it, or returns the payload of an abandoned
    /// one.
    ///
    /// # Panics
    /// If a part is in flight, or if requests are processed in the order of arrival.
    pub(crate) fn answer(&mut self, req: u16, result: Result<(), HostError>, out: &mut Out) {
        assert_eq!(self.order, Order::Any, "a queued request ends in its queue");
        assert_eq!(self.at(req).outstanding, 0, "a request ends after its parts");
        self.remove(req, result, out);
    }

    fn remove(&mut self, req: u16, result: Result<(), HostError>, out: &mut Out) {
        self.at(req).reply(result, out);
        self.slots[usize::from(req)] = None;
        self.free.push(req);
    }

    /// Returns the mark of the first waiting request.
    pub(crate) fn waits_for(&self) -> Option<Mark> {
        let req = self.waiting.front()?;
        self.slots[usize::from(*req)].as_ref().map(|active| active.mark)
    }

    /// Answers the first waiting request. Returns false if there is none.
    pub(crate) fn answer_waiting(&mut self, result: Result<(), HostError>, out: &mut Out) -> bool {
        let Some(req) = self.waiting.pop_front() else { return false };
        self.remove(req, result, out);
        true
    }

    /// Answers some requests with parts in flight. Their payloads follow when the device returns
    /// them.
    pub(crate) fn abandon(&mut self, out: &mut Out) -> bool {
        let hanging =
            |active: &&mut Active<Mark>| active.outstanding > 0 && active.ticket.is_some();
        let mut moved = false;
        for active in self.slots.iter_mut().flatten().filter(hanging).take(ABANDON_STEP) {
            moved |= active.abandon(out);
        }
        moved
    }

    /// Answers a request if it has parts in flight. Its payload follows when the device returns it.
    /// Returns whether it was answered.
    pub(crate) fn abandon_one(&mut self, req: u16, out: &mut Out) -> bool {
        let active = self.at(req);
        active.outstanding > 0 && active.abandon(out)
    }

    /// Discards tickets and payloads at a power cut.
    pub(crate) fn void(&mut self) {
        for active in self.slots.iter_mut().filter_map(Option::take) {
            active.ticket.map(Ticket::close);
            active.data.map(Payload::void);
        }
    }
}

/// Counts a request; a flush also counts as `pending` if something is not durable.
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

//! RAID 5 as commonly implemented, the baseline for the log array. It is not a layer for volumes.
//!
//! Stripes have a chunk on each device, one of which is parity, in rotation. A full-stripe write
//! writes all chunks. A smaller write first reads the blocks that the new parity needs, as Linux md
//! does: the other data of the stripe, unless old data and old parity are fewer blocks. Then it
//! writes data and parity. As in md's stripe cache, the unit of exclusion is a row, 4 KiB on each
//! device, and each operation has one place for it. There is neither a journal nor a bitmap of
//! changes, so after a cut the parity of rows that were being written is unknown. Trims are
//! acknowledged without effect. Zeroing is refused, and so is work after a device failure.
//!
//! Invariants
//! - A row that is being written belongs to one operation.
//! - A request is answered when it was sent completely and none of its operations is in progress.

mod op;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use hostftl_core::{
    Ack, Command, Counters, Credits, DeviceInfo, Done, Event, HostError, HostOp, Input, Layer,
    Limits, Nanos, Out, Output, Payload, Reply, Request, SECTORS_PER_BLOCK, Tally, Ticket, Token,
};

use crate::config::{Plan, PlanError};
use op::{Op, Step};

/// Maximum length of a transfer in sectors: 1 MiB.
const MAX_TRANSFER: u32 = 2048;
/// Maximum number of outputs of one operation.
const MOST: usize = 17;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write { fua: bool },
    Flush,
}

/// A request in flight.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    data: Option<Payload>,
    kind: Kind,
    lba: u64,
    sectors: u32,
    /// Number of sectors sent so far.
    sent: u32,
    /// Number of operations in progress.
    pending: u32,
    result: Result<(), HostError>,
}

/// A part of a request.
#[derive(Clone, Copy, Debug)]
struct Part {
    stripe: u64,
    /// Offset of the part in the request, and its length, in sectors.
    from: u32,
    sectors: u32,
    /// Offset of the part in the stripe's data, in sectors.
    at: u32,
}

/// A RAID 5 array.
#[derive(Debug)]
pub struct Raid5 {
    plan: Plan,
    devices: u8,
    chunk: u32,
    requests: Vec<Option<Waiting>>,
    free: Vec<u16>,
    ops: Vec<Option<Op>>,
    idle: Vec<u16>,
    /// Rows being written by all operations.
    rows: Vec<Range<u64>>,
    /// Two buffers of a chunk for each operation.
    buffers: Vec<Payload>,
    /// Requests that are not sent completely, in order.
    queue: VecDeque<u16>,
    counters: Counters,
    started: bool,
    more: bool,
}

impl Raid5 {
    /// Returns the resources that the array needs over `devices`, with chunks of `chunk` sectors
    /// and at most `ops` operations in progress.
    ///
    /// # Errors
    /// If there are fewer than three or more than sixteen devices.
    pub fn plan(devices: &[DeviceInfo], chunk: u32, ops: u16) -> Result<Plan, PlanError> {
        if !(3..=16).contains(&devices.len()) {
            return Err(PlanError("raid5 takes 3 to 16 devices"));
        }
        let least = devices.iter().map(|device| device.sectors).min().unwrap_or(0);
        let width = devices.len() as u64 - 1;
        let limits = Limits {
            exported: least / u64::from(chunk) * u64::from(chunk) * width,
            max_transfer: MAX_TRANSFER,
            align: (chunk * width as u32).min(MAX_TRANSFER),
            ack: Ack::Media,
        };
        Ok(Plan {
            limits,
            buffers: 2 * u32::from(ops),
            buffer_sectors: chunk,
            map_bytes: 0,
            meta_bytes: 0,
        })
    }

    /// Creates the array with the buffers that [`Raid5::plan`] requires.
    ///
    /// # Errors
    /// As [`Raid5::plan`].
    ///
    /// # Panics
    /// If the number of buffers differs from the plan.
    pub fn new(
        devices: &[DeviceInfo],
        chunk: u32,
        ops: u16,
        buffers: Vec<Payload>,
    ) -> Result<Self, PlanError> {
        let plan = Self::plan(devices, chunk, ops)?;
        assert_eq!(buffers.len(), 2 * usize::from(ops), "two buffers per operation");
        Ok(Raid5 {
            plan,
            devices: devices.len() as u8,
            chunk,
            requests: (0..ops).map(|_| None).collect(),
            free: (0..ops).rev().collect(),
            ops: (0..ops).map(|_| None).collect(),
            idle: (0..ops).rev().collect(),
            rows: Vec::with_capacity(ops.into()),
            buffers,
            queue: VecDeque::with_capacity(ops.into()),
            counters: Counters::default(),
            started: false,
            more: true,
        })
    }

    /// Returns the number of data chunks in a stripe.
    fn width(&self) -> u32 {
        u32::from(self.devices) - 1
    }

    /// Returns the device of data chunk `chunk` of a stripe. The parity follows the last data
    /// chunk.
    fn device(&self, stripe: u64, chunk: u32) -> u8 {
        ((stripe + 1 + u64::from(chunk)) % u64::from(self.devices)) as u8
    }

    fn accept(&mut self, request: Request, out: &mut Out) {
        let Request { ticket, op, lba, sectors, .. } = request;
        let exported = self.plan.limits.exported;
        let (kind, data) = match op {
            HostOp::Read(data) => (Some(Kind::Read), Some(data)),
            HostOp::Write { data, fua } => (Some(Kind::Write { fua }), Some(data)),
            HostOp::Flush => (Some(Kind::Flush), None),
            HostOp::Trim { .. } if lba.checked_add(sectors).is_some_and(|end| end <= exported) => {
                return out.push(Output::Reply(Reply { ticket, data: None, result: Ok(()) }));
            }
            HostOp::Trim { .. } | HostOp::Zeroes { .. } => (None, None),
        };
        let in_range = lba.checked_add(sectors).is_some_and(|end| end <= exported);
        let (Some(kind), true) = (kind, in_range) else {
            let error = if in_range { HostError::Io } else { HostError::Range };
            return out.push(Output::Reply(Reply { ticket, data, result: Err(error) }));
        };
        match kind {
            Kind::Read => self.counters.host_read += sectors,
            Kind::Write { .. } => self.counters.host_written += sectors,
            Kind::Flush => self.counters.flushes += 1,
        }
        let (sectors, result) = (sectors as u32, Ok(()));
        let index = self.free.pop().expect("a request came without credit");
        let waiting = Waiting { ticket, data, kind, lba, sectors, sent: 0, pending: 0, result };
        self.requests[index as usize] = Some(waiting);
        self.queue.push_back(index);
    }

    /// Returns the next part of a request: a full-stripe write, or a range in one chunk.
    fn part(&self, request: &Waiting) -> Part {
        let row = u64::from(self.chunk * self.width());
        let lba = request.lba + u64::from(request.sent);
        let (stripe, at) = (lba / row, (lba % row) as u32);
        let left = request.sectors - request.sent;
        let whole = matches!(request.kind, Kind::Write { .. }) && at == 0 && left >= row as u32;
        let sectors = if whole { row as u32 } else { left.min(self.chunk - at % self.chunk) };
        Part { stripe, from: request.sent, sectors, at }
    }

    /// Returns the rows of a part, which are the same on each device.
    fn part_rows(&self, part: Part) -> Range<u64> {
        let per = u64::from(SECTORS_PER_BLOCK);
        let (first, chunk) = (part.stripe * u64::from(self.chunk), u64::from(self.chunk));
        if part.sectors > self.chunk {
            return first / per..(first + chunk).div_ceil(per);
        }
        let at = first + u64::from(part.at % self.chunk);
        at / per..(at + u64::from(part.sectors)).div_ceil(per)
    }

    /// Returns whether one of the rows is being written.
    fn is_taken(&self, rows: &Range<u64>) -> bool {
        self.rows.iter().any(|it| it.start < rows.end && rows.start < it.end)
    }

    /// Starts all operations that can start, in the order of requests.
    fn pump(&mut self, out: &mut Out) {
        self.more = false;
        let mut left = self.queue.len();
        while left > 0 && !self.idle.is_empty() {
            if out.outputs_left() < MOST {
                self.more = true;
                return;
            }
            left -= 1;
            let index = self.queue.pop_front().expect("the queue is not empty");
            let request = self.requests[index as usize].as_ref().expect("a queued request waits");
            if request.kind == Kind::Flush {
                self.begin(index, None, out);
                continue;
            }
            let part = self.part(request);
            if request.kind != Kind::Read && self.is_taken(&self.part_rows(part)) {
                self.queue.push_back(index);
                continue;
            }
            let request = self.requests[index as usize].as_mut().expect("the entry exists");
            request.sent += part.sectors;
            let over = request.sent == request.sectors;
            if !over {
                self.queue.push_front(index);
                left += 1;
            }
            self.begin(index, Some(part), out);
        }
    }

    fn begin(&mut self, index: u16, part: Option<Part>, out: &mut Out) {
        let (slot, whole) =
            (self.idle.pop().expect("space was checked"), self.chunk * self.width());
        let request = self.requests[index as usize].as_mut().expect("a request starts once");
        request.pending += 1;
        let step = match (request.kind, part) {
            (Kind::Read, _) => Step::Read,
            (Kind::Write { .. }, Some(part)) if part.sectors == whole => Step::Fold,
            (Kind::Write { .. }, Some(_)) => Step::Old,
            (Kind::Flush | Kind::Write { .. }, _) => Step::Flush,
        };
        let rows = part.filter(|_| step.writes()).map(|part| self.part_rows(part));
        let taken = rows.as_ref().is_some_and(|rows| self.is_taken(rows));
        assert!(!taken, "one operation writes a stripe");
        assert!(self.ops[usize::from(slot)].is_none(), "an idle slot has no operation");
        self.rows.extend(rows.clone());
        self.ops[slot as usize] = Some(Op::new(index, part, step, rows));
        self.advance(slot, out);
    }

    fn done(&mut self, done: Done, out: &mut Out) {
        let slot = (done.token.0 >> 8) as u16;
        let request = self.ops[slot as usize].as_ref().expect("a command has an operation").request;
        self.repay(slot, request, done.command);
        if done.result.is_err() {
            self.counters.device_errors += 1;
            let request =
                self.requests[request as usize].as_mut().expect("the request is unanswered");
            request.result = Err(HostError::Io);
        }
        let op = self.ops[slot as usize].as_mut().expect("the entry exists");
        op.pending -= 1;
        if op.pending == 0 {
            self.advance(slot, out);
        }
    }

    /// Ends an operation, and answers its request if it was the last.
    fn end(&mut self, slot: u16, out: &mut Out) {
        let op = self.ops[slot as usize].take().expect("an operation ends once");
        self.idle.push(slot);
        if let Some(rows) = op.rows {
            let place = self.rows.iter().position(|it| *it == rows);
            self.rows.swap_remove(place.expect("stripes in progress are in the list"));
        }
        let request =
            self.requests[op.request as usize].as_mut().expect("the request is unanswered");
        request.pending -= 1;
        if request.pending > 0 || request.sent < request.sectors {
            return;
        }
        // A FUA write continues as a flush.
        if request.kind == (Kind::Write { fua: true }) {
            request.kind = Kind::Flush;
            return self.queue.push_back(op.request);
        }
        let request = self.requests[op.request as usize].take().expect("the entry exists");
        self.free.push(op.request);
        let Waiting { ticket, data, result, .. } = request;
        out.push(Output::Reply(Reply { ticket, data, result }));
    }

    /// Submits a command of an operation; `index` distinguishes its commands.
    fn submit(&mut self, slot: u16, index: u8, command: Command, out: &mut Out) {
        let op = self.ops[slot as usize].as_mut().expect("a command has an operation");
        op.pending += 1;
        let token = Token(u64::from(slot) << 8 | u64::from(index));
        out.push(Output::Submit(token, command));
    }
}

impl Layer for Raid5 {
    fn step(&mut self, _now: Nanos, input: Input, out: &mut Out) {
        match input {
            Input::Timer if !self.started => {
                self.started = true;
                out.push(Output::Event(Event::Ready { replayed: 0, dropped: 0 }));
            }
            Input::Timer => {}
            Input::Host(request) => self.accept(request, out),
            Input::Done(done) => self.done(done, out),
            Input::Stop => out.push(Output::Event(Event::Stopped)),
        }
        self.pump(out);
    }

    fn credits(&self) -> Credits {
        Credits { requests: self.free.len() as u32, sectors: self.plan.limits.max_transfer }
    }

    fn next_timer(&self) -> Option<Nanos> {
        (self.more || !self.started).then_some(0)
    }

    fn limits(&self) -> Limits {
        self.plan.limits
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn map_bytes(&self) -> u64 {
        0
    }

    fn idle(&self) -> bool {
        self.free.len() == self.requests.len()
    }

    fn check(&self) -> Result<(), &'static str> {
        let mut rows = self.rows.clone();
        rows.sort_unstable_by_key(|rows| rows.start);
        if rows.windows(2).any(|pair| pair[0].end > pair[1].start) {
            Err("two operations write one stripe")
        } else {
            Ok(())
        }
    }

    fn power_off(&mut self) {
        for Waiting { ticket, data, .. } in self.requests.iter_mut().filter_map(Option::take) {
            ticket.close();
            data.map(Payload::void);
        }
        self.buffers.drain(..).for_each(|buffer| {
            buffer.void();
        });
    }
}

/// Returns a tally with all sectors attributed to the host.
fn host(sectors: u32) -> Tally {
    Tally::single(hostftl_core::Cause::Host, sectors)
}

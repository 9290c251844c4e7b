//! The front end: splits long requests, joins the completions of their parts, and measures
//! latencies.
//!
//! Invariants
//! - A request is in `requests` from its issue to its last completion. Its ticket is its index
//!   there.
//! - Parts are sent in the order of issue, and only within the layer's credits.

use std::collections::VecDeque;
use std::ops::AddAssign;

use hostftl_core::{Cause, HostOp, Layer, Limits, Nanos, Payload, Request, Tally, Ticket};
use hostftl_drives::Model;
use hostftl_trace::{Op, Record};

use crate::costs::payload_name;
use crate::error::Violation;
use crate::latency::Latencies;
use crate::little::Little;
use crate::series::Series;
use crate::world::World;

#[derive(Clone, Copy, Debug)]
struct Pending {
    op: Op,
    lba: u64,
    /// First sector that has not been sent.
    cursor: u64,
    end: u64,
    parts: u32,
    since: Nanos,
    /// Percentage saved by compression.
    saved: Option<u8>,
    placement: u8,
}

/// Totals of the host's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of requests.
    pub issued: u64,
    /// Number of reads and writes among them.
    pub transfers: u64,
    /// Number of flushes among them.
    pub flushes: u64,
    /// Sectors read.
    pub read_sectors: u64,
    /// Sectors written.
    pub written_sectors: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.issued += other.issued;
        self.transfers += other.transfers;
        self.flushes += other.flushes;
        self.read_sectors += other.read_sectors;
        self.written_sectors += other.written_sectors;
    }
}

/// The requests in progress in a layer, and their statistics.
#[derive(Debug)]
pub struct Front {
    limits: Limits,
    requests: Vec<Option<Pending>>,
    free: Vec<u32>,
    unsent: VecDeque<u32>,
    totals: Totals,
    answered: u64,
    sent: u64,
    /// Time of the last completion.
    pub last_answer: Nanos,
    /// Latencies of the requests.
    pub latencies: Latencies,
    pub(crate) series: Series,
    little: Little,
}

impl Front {
    /// Creates a front end for `world`.
    pub fn new<L: Layer, D: Model>(world: &World<L, D>) -> Self {
        let (limits, now) = (world.layer().limits(), world.now());
        Front {
            limits,
            requests: Vec::with_capacity(256),
            free: Vec::with_capacity(256),
            unsent: VecDeque::with_capacity(256),
            totals: Totals::default(),
            answered: 0,
            sent: 0,
            last_answer: now,
            latencies: Latencies::default(),
            series: Series::new(now, world.sample()),
            little: Little::new(now),
        }
    }

    /// Returns the number of completed requests.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns the number of requests in progress.
    pub fn outstanding(&self) -> u64 {
        self.totals.issued - self.answered
    }

    /// Accepts a request.
    pub fn issue(&mut self, now: Nanos, record: &Record) {
        let &Record { op, lba, saved, placement, .. } = record;
        let (cursor, end, since) = (lba, record.end(), now);
        let pending = Pending { op, lba, cursor, end, parts: 0, since, saved, placement };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            (self.requests.len() - 1) as u32
        });
        self.requests[slot as usize] = Some(pending);
        self.unsent.push_back(slot);
        self.little.note(now, self.outstanding());
        self.totals.issued += 1;
        match record.op {
            Op::Read => self.totals.read_sectors += record.sectors,
            Op::Write => self.totals.written_sectors += record.sectors,
            Op::Flush => self.totals.flushes += 1,
            Op::Discard => {}
        }
        self.totals.transfers += u64::from(matches!(record.op, Op::Read | Op::Write));
    }

    /// Sends requests within the layer's credits and collects completions.
    ///
    /// # Errors
    /// A violation by the layer or a drive, or a failed request.
    pub fn pump<L: Layer, D: Model>(&mut self, world: &mut World<L, D>) -> Result<(), Violation> {
        self.collect(world)?;
        while let Some(&slot) = self.unsent.front() {
            let credits = world.credits();
            let pending = self.requests[slot as usize].as_mut().expect("the request is queued");
            let (lba, sectors) = next_part(pending, &self.limits);
            let transfers = matches!(pending.op, Op::Read | Op::Write);
            if credits.requests == 0 || (transfers && sectors > credits.sectors.into()) {
                break;
            }
            pending.cursor = lba + sectors;
            pending.parts += 1;
            if pending.cursor == pending.end {
                self.unsent.pop_front();
            }
            let payload = payload_name(self.sent, pending.saved);
            self.sent += 1;
            let placement = pending.placement;
            let request = request(slot, payload, pending.op, lba, sectors);
            world.send(Request { placement, ..request })?;
            self.collect(world)?;
        }
        Ok(())
    }

    /// Collects the layer's completions.
    ///
    /// # Errors
    /// A failed request.
    pub fn collect<L: Layer, D: Model>(
        &mut self,
        world: &mut World<L, D>,
    ) -> Result<(), Violation> {
        let now = world.now();
        if self.series.is_due(now) {
            self.series.sample(now, world.sample());
        }
        while let Some(answer) = world.answer() {
            let slot = answer.id as u32;
            let entry = &mut self.requests[slot as usize];
            let pending = entry.as_mut().expect("an answer has a request");
            if let Err(error) = answer.result {
                return Err(Violation::Request { lba: pending.lba, error });
            }
            pending.parts -= 1;
            // Parts may complete before the next part of the same request has credits.
            if pending.parts > 0 || pending.cursor < pending.end {
                continue;
            }
            let Pending { op, since, lba, end, .. } = *pending;
            *entry = None;
            self.free.push(slot);
            self.little.note(now, self.outstanding());
            self.little.took(now - since);
            self.answered += 1;
            self.last_answer = now;
            let took = now - since;
            self.latencies.note(op, took, &answer.legs.of_request(took));
            let written = if op == Op::Write { end - lba } else { 0 };
            self.series.answer(took, matches!(op, Op::Read | Op::Write), written);
        }
        Ok(())
    }

    /// Closes the time series after the last completion.
    pub fn finish<L: Layer, D: Model>(&mut self, world: &World<L, D>) {
        self.series.sample(world.now(), world.sample());
    }

    /// Returns both sides of Little's law for the requests so far.
    pub fn little(&self) -> &Little {
        &self.little
    }

    /// Returns the totals of the host's requests.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}

/// Returns the next range to send. Long transfers are split at multiples of the layer's alignment.
fn next_part(pending: &Pending, limits: &Limits) -> (u64, u64) {
    let cut = match pending.op {
        Op::Read | Op::Write => limits.next_cut(pending.cursor, pending.end),
        Op::Flush | Op::Discard => pending.end,
    };
    (pending.cursor, cut - pending.cursor)
}

/// Creates a request with ticket `slot`. Its payload has a length and the name `payload`, but no
/// bytes.
#[inline]
pub(crate) fn request(slot: u32, payload: u32, op: Op, lba: u64, sectors: u64) -> Request {
    let ticket = Ticket::issue(slot.into());
    let data = || Payload::issue(payload, sectors as u32);
    let (op, tally) = match op {
        Op::Read => (HostOp::Read(data()), Tally::default()),
        Op::Write => {
            let op = HostOp::Write { data: data(), fua: false };
            (op, Tally::single(Cause::Host, sectors as u32))
        }
        Op::Flush => (HostOp::Flush, Tally::default()),
        Op::Discard => (HostOp::Trim { fua: false }, Tally::default()),
    };
    Request { ticket, op, lba, sectors, tally, placement: 0 }
}

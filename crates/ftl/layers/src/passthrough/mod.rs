//! The layer without translation: each request becomes one command, or a short run of commands.
//!
//! Invariants
//! - A slot has at most one command in flight; its token is the slot's number.
//! - A slot is free, or holds a ticket (the request is unanswered), or holds only a payload that a
//!   timed-out device still uses (the request was abandoned).
//! - After a device failure, every request is answered with an error at once.
//! - After a failed flush, nothing is acknowledged as durable, whatever the results of later
//!   flushes: every request but reads fails. A failed write fails only its own request.

pub(crate) mod register;
mod slot;

use alloc::vec::Vec;

use hostftl_core::{
    Ack, Command, Counters, Credits, DeviceError, DeviceInfo, DeviceKind, Done, Event, HostError,
    HostOp, Input, Layer, Limits, Nanos, Out, Output, Request, Token,
};

use crate::config::{LayerConfig, Plan, PlanError};
use crate::planted::{Bug, planted};
use slot::{Own, Slot};

/// Maximum number of requests in flight.
const SLOTS: usize = 256;
/// Maximum length of a transfer in sectors: 1 MiB.
const MAX_TRANSFER: u32 = 2048;

/// The layer `passthrough`.
#[derive(Debug)]
pub(crate) struct Passthrough {
    limits: Limits,
    slots: Vec<Option<Slot>>,
    free: Vec<u16>,
    counters: Counters,
    deadline: Nanos,
    wake: Option<Nanos>,
    started: bool,
    failed: bool,
    /// Error of all requests but reads after a flush failed.
    unflushed: Option<HostError>,
    stopping: bool,
}

impl Passthrough {
    /// Returns the resources that the layer needs over the single device in `devices`.
    ///
    /// # Errors
    /// If there is not exactly one block device.
    pub(crate) fn plan(devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let [device] = devices else {
            return Err(PlanError("passthrough takes exactly one device"));
        };
        if device.kind != DeviceKind::Block {
            return Err(PlanError("passthrough needs a block device"));
        }
        let limits = Limits {
            exported: device.sectors,
            max_transfer: MAX_TRANSFER,
            align: device.iu_sectors.clamp(8, MAX_TRANSFER),
            ack: Ack::Media,
        };
        Ok(Plan { limits, buffers: 0, buffer_sectors: 0, map_bytes: 0, meta_bytes: 0 })
    }

    /// Creates the layer.
    pub(crate) fn new(config: &LayerConfig, plan: Plan) -> Self {
        Passthrough {
            limits: plan.limits,
            slots: (0..SLOTS).map(|_| None).collect(),
            free: (0..SLOTS as u16).rev().collect(),
            counters: Counters::default(),
            deadline: config.patience()[0],
            wake: Some(0),
            started: false,
            failed: false,
            unflushed: None,
            stopping: false,
        }
    }

    #[inline]
    fn accept(&mut self, now: Nanos, request: Request, out: &mut Out) {
        assert!(!self.stopping, "a request after stop");
        self.count(&request);
        let deadline = now.saturating_add(self.deadline);
        if let Some(error) = self.refuses(&request) {
            return Slot::new(request, deadline).answer(Err(error), out);
        }
        self.begin(deadline, || Slot::new(request, deadline), out);
    }

    /// Returns the error of a request that is refused at once.
    #[inline]
    fn refuses(&self, request: &Request) -> Option<HostError> {
        let in_range = request.lba.checked_add(request.sectors) <= Some(self.limits.exported);
        match in_range {
            false => Some(HostError::Range),
            true if self.failed => Some(HostError::Io),
            true => self.unflushed.filter(|_| !matches!(request.op, HostOp::Read(_))),
        }
    }

    /// Starts the slot that `make` creates. It is created in place, because a slot is too large to
    /// copy cheaply.
    #[inline]
    fn begin(&mut self, deadline: Nanos, make: impl FnOnce() -> Slot, out: &mut Out) {
        self.watch(deadline);
        let index = self.free.pop().expect("a request came without credit");
        let entry = &mut self.slots[usize::from(index)];
        assert!(entry.is_none(), "a free slot has no request");
        *entry = Some(make());
        self.advance(index, out);
    }

    /// Submits a flush of the layer itself.
    fn flush_for(&mut self, own: Own, now: Nanos, out: &mut Out) {
        let deadline = now.saturating_add(self.deadline);
        self.begin(deadline, || Slot::own_flush(own, deadline), out);
    }

    /// Makes sure that a timer is set for a deadline.
    #[inline]
    fn watch(&mut self, deadline: Nanos) {
        if self.deadline > 0 {
            self.wake.get_or_insert(deadline);
        }
    }

    #[inline]
    fn count(&mut self, request: &Request) {
        match request.op {
            HostOp::Read(_) => self.counters.host_read += request.sectors,
            HostOp::Write { .. } => self.counters.host_written += request.sectors,
            HostOp::Trim { .. } | HostOp::Zeroes { .. } => {
                self.counters.host_trimmed += request.sectors;
            }
            HostOp::Flush => {
                self.counters.flushes += 1;
                self.counters.flushes_pending += 1;
            }
        }
    }

    /// Submits the slot's next command, or answers the request if there is none.
    #[inline]
    fn advance(&mut self, index: u16, out: &mut Out) {
        let slot = self.slots[index as usize].as_mut().expect("an advancing slot is taken");
        if !slot.send(Token(index.into()), self.limits.max_transfer, out) {
            self.finish(index, Ok(()), out);
        }
    }

    #[inline]
    fn finish(&mut self, index: u16, result: Result<(), HostError>, out: &mut Out) {
        let entry = &mut self.slots[index as usize];
        entry.as_mut().expect("a finished slot is taken").answer(result, out);
        *entry = None;
        self.free.push(index);
    }

    #[inline]
    fn done(&mut self, done: &mut Done, out: &mut Out) {
        let index = u16::try_from(done.token.0).expect("a token is a slot number");
        let slot = self.slots[index as usize].as_mut().expect("a command belongs to a slot");
        let flush = matches!(done.command, Command::Flush { .. });
        slot.repay(&mut done.command);
        // The late completion of an abandoned request only returns its payload.
        if slot.is_abandoned() {
            let slot = self.slots[index as usize].take().expect("the entry exists");
            self.free.push(index);
            return slot.reclaim(out);
        }
        match done.result {
            Ok(_) => match self.unflushed.filter(|_| flush) {
                Some(error) => self.finish(index, Err(error), out),
                None => self.advance(index, out),
            },
            Err(error) => {
                self.counters.device_errors += 1;
                if error == DeviceError::Removed {
                    self.fail(error, false, out);
                } else if flush {
                    self.flush_failed(error, out);
                }
                self.finish(index, Err(host_error(error)), out);
            }
        }
    }

    /// Ends all promises of durability. The device may have dropped unflushed data and still report
    /// success for the next flush, so no flush is trusted until the device is opened again.
    fn flush_failed(&mut self, error: DeviceError, out: &mut Out) {
        if self.unflushed.is_none() && !planted(Bug::NextFlushBelieved) {
            self.unflushed = Some(host_error(error));
            let event = Event::DeviceFailed { device: 0, error, abandoned: false };
            out.push(Output::Event(event));
        }
    }

    fn fail(&mut self, error: DeviceError, abandoned: bool, out: &mut Out) {
        if !self.failed {
            self.failed = true;
            out.push(Output::Event(Event::DeviceFailed { device: 0, error, abandoned }));
        }
    }

    /// Abandons requests past their deadline and sets the next timer.
    fn expire(&mut self, now: Nanos, out: &mut Out) {
        self.wake = None;
        let mut expired = false;
        for slot in self.slots.iter_mut().flatten().filter(|slot| !slot.is_abandoned()) {
            if slot.deadline > now {
                self.wake = Some(self.wake.map_or(slot.deadline, |wake| wake.min(slot.deadline)));
            } else if out.outputs_left() > 1 {
                expired = true;
                slot.abandon(out);
            } else {
                self.wake = Some(now);
            }
        }
        if expired {
            self.counters.device_errors += 1;
            self.fail(DeviceError::Removed, true, out);
        }
    }
}

fn host_error(error: DeviceError) -> HostError {
    match error {
        DeviceError::NoSpace => HostError::NoSpace,
        DeviceError::Media | DeviceError::Removed | DeviceError::Unsupported => HostError::Io,
    }
}

impl Layer for Passthrough {
    #[inline]
    fn step(&mut self, now: Nanos, mut input: Input, out: &mut Out) {
        if let Input::Done(done) = &mut input {
            return self.done(done, out);
        }
        match input {
            Input::Host(request) => self.accept(now, request, out),
            Input::Done(_) => unreachable!("the entry exists"),
            Input::Timer if !self.started => {
                self.started = true;
                self.wake = None;
                self.flush_for(Own::First, now, out);
            }
            Input::Timer if self.deadline > 0 => self.expire(now, out),
            Input::Timer => {}
            Input::Stop if self.failed || self.unflushed.is_some() => {
                out.push(Output::Event(Event::Stopped))
            }
            Input::Stop => {
                self.stopping = true;
                self.flush_for(Own::Last, now, out);
            }
        }
    }

    #[inline]
    fn credits(&self) -> Credits {
        Credits { requests: self.free.len() as u32, sectors: self.limits.max_transfer }
    }

    #[inline]
    fn next_timer(&self) -> Option<Nanos> {
        self.wake
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn has_failed(&self) -> bool {
        self.failed || self.unflushed.is_some()
    }

    fn map_bytes(&self) -> u64 {
        0
    }

    fn idle(&self) -> bool {
        self.free.len() == SLOTS
    }

    fn check(&self) -> Result<(), &'static str> {
        let taken = self.slots.iter().flatten().count();
        if taken + self.free.len() != SLOTS {
            return Err("passthrough leaked a slot");
        }
        Ok(())
    }

    fn power_off(&mut self) {
        self.slots.iter_mut().filter_map(Option::take).for_each(Slot::void);
    }
}

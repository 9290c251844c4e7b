//! The test layer: a script that uses every command of the contract and checks the results.
//!
//! A write goes through the whole script (place, pack, unpack, digest, fold, gather, read back into
//! payload and metadata, flush, reset) before it is written to its home on the first device. Other
//! requests use only the home. A driver that answers all of [`requests`] correctly has executed
//! every command on every device. With a driver that transfers no bytes, all checksums are zero on
//! both sides.
//!
//! Invariants
//! - One request at a time is in flight. Every stage waits for its commands, except for those of
//!   the stage `Late`, which are abandoned if a timer fires first.
//! - A payload whose reader was abandoned is in `left` until the late `Done` arrives.
//! - The last [`SCRATCH`] sectors of each device belong to the script, the other sectors of the
//!   first device are the home.

mod expect;
mod host;
pub(crate) mod register;
mod script;

use alloc::vec::Vec;

use hostftl_core::{
    Ack, Command, Counters, Credits, DeviceError, DeviceInfo, DeviceKind, Done, Event, HostError,
    Input, Layer, Limits, MetaBuf, Nanos, Out, Output, Payload, Piece, Reply, Target, Token, View,
    ViewMut,
};

use crate::config::{Plan, PlanError};
use expect::Expect;
pub use host::{ExerciserOp, ExerciserRequest, requests};
use script::{Job, Notes, Stage};

/// Sectors at the end of each device that the script uses.
pub const SCRATCH: u64 = 64;
/// Maximum length of a transfer, in sectors.
pub const MAX_TRANSFER: u32 = 16;
/// Buffers of the layer: four of the script, and one for a read that is abandoned.
const BUFFERS: u32 = 5;
/// Length of a buffer in sectors: a transfer after one sector, or its packed form in the worst
/// case.
const BUFFER_SECTORS: u32 = 40;
/// Maximum number of devices.
const MAX_DEVICES: usize = 4;

/// The test layer.
#[derive(Debug)]
pub struct Exerciser {
    limits: Limits,
    devices: Vec<u64>,
    buffers: Vec<Payload>,
    metas: Vec<MetaBuf>,
    job: Option<Job>,
    notes: Notes,
    /// Commands that the current stage waits for.
    waiting: u32,
    /// Commands of the stage `Late` in progress.
    late: u32,
    /// Payload of an answered request that a late command still reads.
    left: Option<Payload>,
    serial: u64,
    round: u64,
    wake: Option<Nanos>,
    counters: Counters,
    failed: bool,
    stopping: bool,
}

impl Exerciser {
    /// Returns the resources that the script needs over `devices`.
    ///
    /// # Errors
    /// If there are no devices or more than four, or a device is too small or not a block device.
    pub fn plan(devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        if devices.is_empty() || devices.len() > MAX_DEVICES {
            return Err(PlanError("exerciser takes one to four devices"));
        }
        if devices.iter().any(|device| device.kind != DeviceKind::Block) {
            return Err(PlanError("exerciser needs block devices"));
        }
        if devices.iter().any(|device| device.sectors < 2 * SCRATCH) {
            return Err(PlanError("exerciser needs devices of 128 sectors or more"));
        }
        let limits = Limits {
            exported: devices[0].sectors - SCRATCH,
            max_transfer: MAX_TRANSFER,
            align: MAX_TRANSFER,
            ack: Ack::Media,
        };
        Ok(Plan {
            limits,
            buffers: BUFFERS,
            buffer_sectors: BUFFER_SECTORS,
            map_bytes: 0,
            meta_bytes: 0,
        })
    }

    /// Creates the layer.
    pub fn new(plan: Plan, devices: &[DeviceInfo], buffers: Vec<Payload>) -> Self {
        Exerciser {
            limits: plan.limits,
            devices: devices.iter().map(|device| device.sectors).collect(),
            buffers,
            metas: (0..MAX_DEVICES).map(|_| MetaBuf::new(2)).collect(),
            job: None,
            notes: Notes::default(),
            waiting: 0,
            late: 0,
            left: None,
            serial: 0,
            round: 0,
            wake: Some(0),
            counters: Counters::default(),
            failed: false,
            stopping: false,
        }
    }

    fn submit(&mut self, expect: Expect, command: Command, out: &mut Out) {
        self.serial += 1;
        match expect {
            Expect::Late => self.late += 1,
            _ => self.waiting += 1,
        }
        out.push(Output::Submit(Token(self.serial << 8 | expect as u64), command));
    }

    /// Returns the payload with an id: the layer's own or the host's.
    fn payload(&mut self, id: u32) -> &mut Payload {
        let host = self.job.as_mut().and_then(|job| job.data.as_mut());
        let mut all = self.buffers.iter_mut().chain(host).chain(self.left.as_mut());
        all.find(|payload| payload.id() == id).expect("a view returns to its payload")
    }

    fn repay(&mut self, view: View) {
        self.payload(view.id()).repay(view);
    }

    fn repay_mut(&mut self, view: ViewMut) {
        self.payload(view.id()).repay_mut(view);
    }

    /// Takes the buffers of a command back. Returns the metadata that it read, if any.
    fn take_back(&mut self, command: Command) -> Option<MetaBuf> {
        match command {
            Command::Read { into: Target::Data(view), .. } => self.repay_mut(view),
            Command::Read { into: Target::Meta { buf, .. }, .. } => return Some(buf),
            Command::Program { gather, .. } => gather.into_iter().for_each(|p| self.take_piece(p)),
            Command::Place { from, into } => {
                self.take_piece(from);
                self.repay_mut(into);
            }
            Command::Pack { from, into, .. }
            | Command::Unpack { from, into, .. }
            | Command::Move { from, into, .. } => {
                self.repay(from);
                self.repay_mut(into);
            }
            Command::Digest { from, .. } => self.repay(from),
            Command::Peek { from, into, .. } => {
                self.repay(from);
                return Some(into);
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view| self.repay(view));
                self.repay_mut(into);
            }
            Command::Report { into, .. } => return Some(into),
            Command::Reset { .. } | Command::Mark { .. } | Command::Flush { .. } => {}
        }
        None
    }

    fn take_piece(&mut self, piece: Piece) {
        match piece {
            Piece::Data(view) => self.repay(view),
            Piece::Meta { buf, .. } => self.metas.push(buf),
            Piece::Zeros(_) => {}
        }
    }

    fn done(&mut self, done: Done, out: &mut Out) {
        let Done { token, command, result } = done;
        let expect = Expect::for_token(token);
        if expect == Expect::Late {
            self.take_back(command);
            self.late -= 1;
            return self.late_done(out);
        }
        self.waiting -= 1;
        self.judge(expect, &command, result);
        if let Err(error) = result {
            self.fail(error, command.device(), out);
        }
        if let Some(buf) = self.take_back(command) {
            self.metas.push(buf);
        }
        if self.waiting == 0 {
            self.advance(out);
        }
    }

    fn late_done(&mut self, out: &mut Out) {
        if self.left.as_ref().is_some_and(Payload::is_idle) {
            out.push(Output::Reclaim(self.left.take().expect("the entry exists")));
        }
        if self.late == 0 && self.job.as_ref().is_some_and(|job| job.stage == Stage::Late) {
            self.wake = None;
            self.answer(out);
        }
        if self.stopping && self.late == 0 && self.waiting == 0 {
            out.push(Output::Event(Event::Stopped));
        }
    }

    fn fail(&mut self, error: DeviceError, device: Option<u8>, out: &mut Out) {
        self.counters.device_errors += 1;
        if !self.failed {
            self.failed = true;
            let device = device.unwrap_or_default();
            out.push(Output::Event(Event::DeviceFailed { device, error, abandoned: false }));
        }
    }

    /// Answers the request. A payload that a late command reads stays with the layer.
    fn answer(&mut self, out: &mut Out) {
        let job = self.job.take().expect("there is a request");
        let result = if self.failed { Err(HostError::Io) } else { Ok(()) };
        let (data, left) = match job.data {
            Some(payload) if !payload.is_idle() => (None, Some(payload)),
            data => (data, None),
        };
        if left.is_some() {
            assert!(self.left.is_none(), "at most one payload is pending");
            self.left = left;
        }
        out.push(Output::Reply(Reply { ticket: job.ticket, data, result }));
    }
}

impl Layer for Exerciser {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        match input {
            Input::Host(request) => {
                assert!(!self.stopping && self.job.is_none(), "a request came without credit");
                self.accept(now, request, out);
            }
            Input::Done(done) => self.done(done, out),
            Input::Timer => {
                let started = self.wake.take() == Some(0);
                if self.job.as_ref().is_some_and(|job| job.stage == Stage::Late) {
                    self.answer(out);
                } else if started && self.serial == 0 {
                    out.push(Output::Event(Event::Ready { replayed: 0, dropped: 0 }));
                }
            }
            Input::Stop => {
                self.stopping = true;
                self.flush_all(out);
            }
        }
    }

    fn credits(&self) -> Credits {
        let busy = self.job.is_some() || self.stopping;
        Credits { requests: u32::from(!busy), sectors: MAX_TRANSFER }
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.wake
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn map_bytes(&self) -> u64 {
        0
    }

    fn idle(&self) -> bool {
        self.job.is_none() && self.waiting == 0 && self.late == 0
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.idle() && self.metas.len() != MAX_DEVICES {
            return Err("exerciser leaked a metadata buffer");
        }
        if self.idle() && !self.buffers.iter().all(Payload::is_idle) {
            return Err("exerciser has a lent view without a command");
        }
        Ok(())
    }

    fn power_off(&mut self) {
        let host = self.job.take().and_then(|job| {
            job.ticket.close();
            job.data
        });
        for payload in self.buffers.drain(..).chain(host).chain(self.left.take()) {
            payload.void();
        }
    }
}

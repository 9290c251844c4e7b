//! Goes on without a failed device.
//!
//! A device that can't be written is lost: nothing is sent to it any more, and what it holds is
//! older than what the host was promised.
//!
//! Invariants
//! - No more devices are lost than parity makes up for.
//! - Nothing is answered as durable while a root has yet to say who is lost: a device that comes
//!   back must never be believed.

use alloc::collections::VecDeque;

use hostftl_core::{Command, DeviceError, Done, Event, Nanos, Out, Output, Token};
use hostftl_format::log::Root;

use crate::log::Log;
use crate::log::ops::{OPS, Op};
use crate::planted::{Bug, planted};

/// Of a command that no device got.
const NEVER_SENT: Token = Token(u64::MAX);

/// See the module text.
#[derive(Debug)]
pub struct Lost {
    set: u16,
    told: u16,
    most: u32,
    /// Commands to lost devices: they fail without being sent.
    unsent: VecDeque<(Op, Done)>,
}

impl Lost {
    /// Begins without the devices of `set`; `most` may be lost in all.
    pub fn new(set: u16, most: u32) -> Self {
        Lost { set, told: 0, most, unsent: VecDeque::with_capacity(OPS.into()) }
    }

    /// The lost devices, as a set of bits.
    pub fn set(&self) -> u16 {
        self.set
    }

    /// Whether `device` is lost.
    pub fn has(&self, device: u8) -> bool {
        self.set >> device & 1 == 1
    }

    /// Whether all of `set` may be lost.
    pub fn can_do_without(&self, set: u16) -> bool {
        (self.set | set).count_ones() <= self.most
    }

    /// These devices are lost.
    pub fn add(&mut self, set: u16) {
        self.set |= set;
    }

    /// A durable root says that `set` is lost.
    pub fn told(&mut self, set: u16) {
        self.told = set;
    }

    /// Whether a durable root says who is lost.
    pub fn is_told(&self) -> bool {
        self.told == self.set
    }

    /// Whether no command waits to fail.
    pub fn is_quiet(&self) -> bool {
        self.unsent.is_empty()
    }

    /// The power is off.
    pub fn void(&mut self) {
        self.unsent.drain(..).for_each(|(_, done)| done.command.void());
    }
}

impl Log {
    /// Sends a command, unless it goes to a lost device, or its zone can't take it: then it fails
    /// soon.
    #[inline]
    pub(in crate::log) fn submit(&mut self, now: Nanos, op: Op, command: Command, out: &mut Out) {
        let lost = command.device().is_some_and(|device| self.lost.has(device));
        if lost || self.layout.zoned && !self.enter_zone(now, &command, out) {
            // What was never written there can't be read: that is no fault of the device.
            let unwritten = !lost && matches!(command, Command::Read { .. });
            let error = if unwritten { DeviceError::Media } else { DeviceError::Gone };
            let done = Done { token: NEVER_SENT, command, result: Err(error) };
            self.lost.unsent.push_back((op, done));
            self.disturb();
            self.more = true;
            return;
        }
        if let (Command::Read { into, .. }, Some(_)) = (&command, &self.recovery) {
            self.start_read += u64::from(into.sectors());
        }
        let token = self.ops.begin(now, op, command.device());
        self.hung.sent(token, command.device());
        out.push(Output::Submit(token, command));
    }

    /// Sends a command that goes to no device.
    #[inline(always)]
    pub(in crate::log) fn compute(
        &mut self,
        op: Op,
        make: impl FnOnce() -> Command,
        out: &mut Out,
    ) {
        let token = self.ops.begin(0, op, None);
        self.hung.sent(token, None);
        out.push_with(|| Output::Submit(token, make()));
    }

    /// Lets one command to a lost device fail.
    pub(in crate::log) fn pump_unsent(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some((op, done)) = self.lost.unsent.pop_front() else { return false };
        self.finish(now, op, done, out);
        true
    }

    /// A command failed: is its zone, its device or the volume lost?
    pub(in crate::log) fn judge(
        &mut self,
        op: Op,
        command: &Command,
        error: DeviceError,
        out: &mut Out,
    ) {
        let Some(device) = command.device() else { return };
        if self.layout.zoned && self.zone_failed(op, command, error, out) {
            return;
        }
        self.counters.device_errors += 1;
        let writes = match command {
            Command::Flush { .. } if planted(Bug::FlushUnheard) => return,
            // What a block device was to forget it may remember; zones are written again.
            Command::Reset { .. } => self.layout.zoned,
            _ => matches!(command, Command::Program { .. } | Command::Flush { .. }),
        };
        if self.journal.is(device) {
            // What can't be read is known when recovery needs it.
            return if writes {
                self.journal_failed(error, out)
            };
        }
        if self.lost.has(device) || !writes && error != DeviceError::Gone {
            return;
        }
        match self.lost.can_do_without(1 << device) {
            true => self.lose(device, error, out),
            false => self.fail(device, error, false, out),
        }
    }

    fn lose(&mut self, device: u8, error: DeviceError, out: &mut Out) {
        self.lost.add(1 << device);
        out.push(Output::Event(Event::DeviceFailed { device, error, abandoned: false }));
    }

    /// A device has no zone left for roots.
    pub(in crate::log) fn out_of_roots(&mut self, device: u8, out: &mut Out) {
        match self.lost.can_do_without(1 << device) {
            true => self.lose(device, DeviceError::Media, out),
            false => self.fail(device, DeviceError::Media, false, out),
        }
    }

    /// Writes a root that says who is lost, when none does.
    pub(in crate::log) fn pump_told(&mut self, now: Nanos, out: &mut Out) -> bool {
        let tells = self.journal_to_tell();
        if self.lost.is_told() && !tells || !self.checkpoint.is_idle() || out.room() < 20 {
            return false;
        }
        let root = self.checkpoint.root;
        let lost = if tells { self.journal.unneeded() } else { root.lost };
        self.send_root(now, Root { number: root.number + 1, lost, ..root }, out);
        true
    }
}

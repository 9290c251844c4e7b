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

use hostftl_core::{Command, DeviceError, Event};
use hostftl_format::log::Root;

use crate::log::Engine;
use crate::log::ops::{Cx, OPS, Op, fail};
use crate::planted::{Bug, planted};

/// See the module text.
#[derive(Debug)]
pub struct Lost {
    set: u16,
    told: u16,
    most: u32,
    /// Commands to lost devices: they fail without being sent.
    unsent: VecDeque<(Op, Command, DeviceError)>,
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
        self.unsent.drain(..).for_each(|(_, command, _)| command.void());
    }
}

impl Engine {
    /// Sends a command, unless it goes to a lost device, or its zone can't take it: then it fails
    /// soon.
    #[inline]
    pub(in crate::log) fn submit(&mut self, op: Op, command: Command, cx: &mut Cx) {
        let lost = command.device().is_some_and(|device| self.lost.has(device));
        if lost || self.layout.zoned && !self.enter_zone(&command, cx) {
            // What was never written there can't be read: that is no fault of the device.
            let unwritten = !lost && matches!(command, Command::Read { .. });
            let error = if unwritten { DeviceError::Media } else { DeviceError::Gone };
            self.lost.unsent.push_back((op, command, error));
            cx.disturb();
            cx.wake();
            return;
        }
        if let (Command::Read { into, .. }, Some(_)) = (&command, &self.recovery) {
            self.start_read += u64::from(into.sectors());
        }
        cx.submit(op, command);
    }

    /// Lets one command to a lost device fail.
    pub(in crate::log) fn pump_unsent(&mut self, cx: &mut Cx) -> bool {
        let Some((op, command, error)) = self.lost.unsent.pop_front() else { return false };
        self.finish(op, command, Err(error), cx);
        true
    }

    /// A command failed: is its zone, its device or the volume lost?
    pub(in crate::log) fn judge(
        &mut self,
        op: Op,
        command: &Command,
        error: DeviceError,
        cx: &mut Cx,
    ) {
        let Some(device) = command.device() else { return };
        if self.layout.zoned && self.zone_failed(op, command, error, cx) {
            return;
        }
        cx.counters().device_errors += 1;
        let writes = match command {
            Command::Flush { .. } if planted(Bug::FlushUnheard) => return,
            // What a block device was to forget it may remember; zones are written again.
            Command::Reset { .. } => self.layout.zoned,
            _ => matches!(command, Command::Program { .. } | Command::Flush { .. }),
        };
        if self.journal.is(device) {
            // What can't be read is known when recovery needs it.
            return if writes {
                self.journal_failed(error, cx)
            };
        }
        if self.lost.has(device) || !writes && error != DeviceError::Gone {
            return;
        }
        match self.lost.can_do_without(1 << device) {
            true => self.lose(device, error, cx),
            false => fail(device, error, cx),
        }
    }

    fn lose(&mut self, device: u8, error: DeviceError, cx: &mut Cx) {
        self.lost.add(1 << device);
        cx.tell(Event::DeviceFailed { device, error, abandoned: false });
    }

    /// A device has no zone left for roots.
    pub(in crate::log) fn out_of_roots(&mut self, device: u8, cx: &mut Cx) {
        match self.lost.can_do_without(1 << device) {
            true => self.lose(device, DeviceError::Media, cx),
            false => fail(device, DeviceError::Media, cx),
        }
    }

    /// Writes a root that says who is lost, when none does.
    pub(in crate::log) fn pump_told(&mut self, cx: &mut Cx) -> bool {
        let tells = self.journal_to_tell();
        if self.lost.is_told() && !tells || !self.checkpoint.is_idle() || cx.room() < 20 {
            return false;
        }
        let root = self.checkpoint.root;
        let lost = if tells { self.journal.unneeded() } else { root.lost };
        self.send_root(Root { number: root.number + 1, lost, ..root }, cx);
        true
    }
}

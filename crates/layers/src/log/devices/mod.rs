//! The devices of the rows: who is lost, and how commands get there.
//!
//! A device that can't be written is lost: nothing is sent to it any more, and what it holds is
//! older than what the host was promised. A command to a lost device, or to a zone that can't take
//! it, fails without being sent.
//!
//! Invariants
//! - No more devices are lost than parity makes up for.
//! - Nothing is answered as durable while a root has yet to say who is lost: a device that comes
//!   back must never be believed.

mod reclaim;

use alloc::collections::VecDeque;

use hostftl_core::{Command, DeviceError, DeviceInfo, Event, SECTOR};

use crate::kit::Life;
use crate::log::layout::Layout;
use crate::log::ops::{Cx, OPS, Op, fail};
use crate::log::zoned::write_pointers::Pointers;
use reclaim::Reclaim;

/// See the module text.
#[derive(Debug)]
pub struct Devices {
    layout: Layout,
    /// What is known of the zones of zoned devices.
    zones: Pointers,
    /// Devices as sets of bits: those that are lost, and those of which a durable root says so.
    lost: u16,
    told: u16,
    /// How many may be lost.
    most: u32,
    /// Commands that fail without being sent.
    unsent: VecDeque<(Op, Command, DeviceError)>,
    /// Segments that they are to forget.
    reclaim: Reclaim,
    /// Sectors that were read until the volume was ready.
    read_at_start: u64,
}

impl Devices {
    /// Begins without the devices of `lost`; `most` may be lost in all.
    pub fn new(layout: Layout, lost: u16, most: u32, devices: &[DeviceInfo]) -> Self {
        let zones = Pointers::new(&layout);
        let unsent = VecDeque::with_capacity(OPS.into());
        let reclaim = Reclaim::new(&layout, devices);
        Devices { layout, zones, lost, told: 0, most, unsent, reclaim, read_at_start: 0 }
    }

    /// Where things lie on them.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Their zones.
    #[inline]
    pub fn zones(&self) -> &Pointers {
        &self.zones
    }

    /// Their zones, to be changed.
    pub fn zones_mut(&mut self) -> &mut Pointers {
        &mut self.zones
    }

    /// The lost devices, as a set of bits.
    pub fn lost(&self) -> u16 {
        self.lost
    }

    /// Whether `device` is lost.
    #[inline]
    pub fn has_lost(&self, device: u8) -> bool {
        self.lost >> device & 1 == 1
    }

    /// Whether all of `set` may be lost.
    pub fn can_do_without(&self, set: u16) -> bool {
        (self.lost | set).count_ones() <= self.most
    }

    /// These devices are lost.
    pub fn lose(&mut self, set: u16) {
        assert!(self.can_do_without(set), "no more are lost than parity makes up for");
        self.lost |= set;
    }

    /// A durable root says that `set` is lost.
    pub fn told(&mut self, set: u16) {
        assert_eq!(set & !self.lost, 0, "a root says of lost devices that they are");
        self.told = set;
    }

    /// Whether a durable root says who is lost.
    pub fn is_told(&self) -> bool {
        self.told == self.lost
    }

    /// Whether no command waits to fail.
    pub fn is_quiet(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Bytes that were read until the volume was ready.
    pub fn read_at_start(&self) -> u64 {
        self.read_at_start * SECTOR as u64
    }

    /// Sends a command, unless it goes to a lost device, or its zone can't take it: then it fails
    /// soon.
    #[inline]
    pub fn submit(&mut self, op: Op, command: Command, cx: &mut Cx) {
        let lost = command.device().is_some_and(|device| self.has_lost(device));
        if lost || self.layout.zoned && !self.enter_zone(&command, cx) {
            // What was never written there can't be read: that is no fault of the device.
            let unwritten = !lost && matches!(command, Command::Read { .. });
            let error = if unwritten { DeviceError::Media } else { DeviceError::Gone };
            self.unsent.push_back((op, command, error));
            cx.disturb();
            cx.wake();
            return;
        }
        if let (Command::Read { into, .. }, Life::Starting) = (&command, cx.life()) {
            self.read_at_start += u64::from(into.sectors());
        }
        cx.submit(op, command);
    }

    /// The next command that fails without being sent.
    pub fn next_unsent(&mut self) -> Option<(Op, Command, DeviceError)> {
        self.unsent.pop_front()
    }

    /// A device can't be used any more: it is lost, or the volume with it.
    pub fn give_up(&mut self, device: u8, error: DeviceError, cx: &mut Cx) {
        if self.can_do_without(1 << device) {
            self.lose(1 << device);
            cx.tell(Event::DeviceFailed { device, error, abandoned: false });
        } else {
            fail(device, error, cx);
        }
    }

    /// The power is off.
    pub fn void(&mut self) {
        self.unsent.drain(..).for_each(|(_, command, _)| command.void());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_lost_than_parity_makes_up_for() {
        let mut devices = Devices::new(Layout::example(3), 0, 1, &[]);
        assert!(devices.can_do_without(0b100) && !devices.can_do_without(0b101));
        devices.lose(0b100);
        assert!(devices.has_lost(2) && !devices.has_lost(0) && !devices.can_do_without(0b001));
        assert!(!devices.is_told(), "no root says so");
        devices.told(0b100);
        assert!(devices.is_told());
    }

    #[test]
    #[should_panic(expected = "no more are lost")]
    fn one_too_many_is_not_lost() {
        Devices::new(Layout::example(2), 0b01, 1, &[]).lose(0b10);
    }
}

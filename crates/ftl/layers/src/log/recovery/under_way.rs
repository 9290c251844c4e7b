//! Recovery commands in flight.

use hostftl_core::Command;

use crate::log::devices::Devices;
use crate::log::ops::{Cx, Op};

#[derive(Debug, Default)]
pub(super) struct UnderWay(u32);

impl UnderWay {
    /// Returns whether no command is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Returns the number of commands in flight.
    pub(super) fn count(&self) -> u32 {
        self.0
    }

    /// Sends a command; `index` is returned with its completion.
    pub(super) fn send(
        &mut self,
        index: u16,
        command: Command,
        devices: &mut Devices,
        cx: &mut Cx,
    ) {
        self.0 += 1;
        devices.submit(Op::Recover { index }, command, cx);
    }

    /// Sends a command to a joining device that is not a member yet.
    pub(super) fn send_to_joining(
        &mut self,
        device: u8,
        command: Command,
        devices: &mut Devices,
        cx: &mut Cx,
    ) {
        self.0 += 1;
        devices.submit_to_joining(device, Op::Recover { index: 0 }, command, cx);
    }

    /// Sends a command to the journal device.
    pub(super) fn send_to_journal(&mut self, command: Command, devices: &mut Devices, cx: &mut Cx) {
        self.0 += 1;
        devices.submit_to_journal(Op::Recover { index: 0 }, command, cx);
    }

    /// Notes the completion of a command.
    pub(super) fn end(&mut self) {
        assert!(self.0 > 0, "a completed command was sent");
        self.0 -= 1;
    }
}

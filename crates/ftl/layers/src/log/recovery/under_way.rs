//! Commands of recovery under way.

use hostftl_core::Command;

use crate::log::devices::Devices;
use crate::log::ops::{Cx, Op};

#[derive(Debug, Default)]
pub(super) struct UnderWay(u32);

impl UnderWay {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// How many.
    pub(super) fn count(&self) -> u32 {
        self.0
    }

    /// Sends one; `index` comes back with it.
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

    /// Sends one to a device that came and does not belong yet.
    pub(super) fn send_to_newcomer(
        &mut self,
        device: u8,
        command: Command,
        devices: &mut Devices,
        cx: &mut Cx,
    ) {
        self.0 += 1;
        devices.submit_to_newcomer(device, Op::Recover { index: 0 }, command, cx);
    }

    /// Sends one to the journal's device.
    pub(super) fn send_to_journal(&mut self, command: Command, devices: &mut Devices, cx: &mut Cx) {
        self.0 += 1;
        devices.submit_to_journal(Op::Recover { index: 0 }, command, cx);
    }

    /// One is over.
    pub(super) fn end(&mut self) {
        assert!(self.0 > 0, "a command that comes back was sent");
        self.0 -= 1;
    }
}

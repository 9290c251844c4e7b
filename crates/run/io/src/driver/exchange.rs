//! Exchange of a device: replaces a lost device, or one that was copied while in use.

use std::sync::Arc;

use hostftl_core::{Layer, MemberState};

use super::Driver;
use crate::copy::Uncopied;
use crate::device::Device;
use crate::error::IoError;

impl<L: Layer> Driver<L> {
    /// Replaces a device that the layer runs without and that has no commands in flight; returns
    /// the old device. The window of the new device is set, and its zones are empty if it is zoned.
    /// The caller must inform the layer next, by [`hostftl_core::AdminCommand::Replaced`].
    ///
    /// # Errors
    /// When a command is in flight, or the system cannot start threads; nothing was changed then.
    pub fn replace(&mut self, index: u8, device: Device) -> Result<Device, IoError> {
        let state = self.layer.members().get(index).state;
        let is_free = state.is_lost() || state == MemberState::Removed;
        assert!(is_free, "the layer has released the device");
        self.world.replace(index.into(), device)
    }

    /// Starts to record the chunks of a device that change. Initially the copy is missing all
    /// chunks.
    pub fn begin_copy(&mut self, index: u8) -> Arc<Uncopied> {
        self.world.begin_copy(index.into())
    }

    /// Stops the recording of [`Driver::begin_copy`].
    pub fn end_copy(&mut self) {
        self.world.end_copy();
    }

    /// Defers new commands to a device until [`Driver::release`].
    pub fn hold(&mut self, index: u8) {
        self.world.hold(index.into());
    }

    /// Starts the deferred commands.
    pub fn release(&mut self) {
        self.world.release();
    }

    /// Puts a complete copy in the place of a device whose commands are deferred; returns the old
    /// device. The caller must inform the layer next, by [`hostftl_core::AdminCommand::Copied`].
    ///
    /// # Errors
    /// Those of [`Driver::replace`].
    pub fn swap(&mut self, index: u8, copy: Device) -> Result<Device, IoError> {
        self.world.replace(index.into(), copy)
    }

    /// Returns whether a command to a device is in flight.
    pub fn is_busy(&self, index: u8) -> bool {
        self.world.under_way(index.into()) > 0
    }
}

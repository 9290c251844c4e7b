//! Another device in the place of one: of a lost one, or of one that was copied while in use.

use std::sync::Arc;

use hostftl_core::{Layer, MemberState};

use super::Driver;
use crate::copy::Uncopied;
use crate::device::Device;
use crate::error::IoError;

impl<L: Layer> Driver<L> {
    /// Puts another device, whose window is set and whose zones are empty if it is zoned, in the
    /// place of one that the layer does without and to which no command is under way; that. The
    /// layer has to be told next, by [`hostftl_core::Verb::Replaced`].
    ///
    /// # Errors
    /// When a command is under way, or the system gives no threads; nothing was changed then.
    pub fn replace(&mut self, index: u8, device: Device) -> Result<Device, IoError> {
        let state = self.layer.members().get(index).state;
        let is_free = state.is_lost() || state == MemberState::Removed;
        assert!(is_free, "the layer does without the device before");
        self.world.replace(index.into(), device)
    }

    /// Records from now on the chunks of a device that change: for a copy, which lacks all chunks
    /// at first.
    pub fn begin_copy(&mut self, index: u8) -> Arc<Uncopied> {
        self.world.begin_copy(index.into())
    }

    /// Ends what [`Driver::begin_copy`] began.
    pub fn end_copy(&mut self) {
        self.world.end_copy();
    }

    /// Holds back new commands to a device until [`Driver::release`].
    pub fn hold(&mut self, index: u8) {
        self.world.hold(index.into());
    }

    /// Begins the commands that were held back.
    pub fn release(&mut self) {
        self.world.release();
    }

    /// Puts a complete copy in the place of a device whose commands are held back; returns that
    /// device. The layer has to be told next, by [`hostftl_core::Verb::Copied`].
    ///
    /// # Errors
    /// As [`Driver::replace`].
    pub fn swap(&mut self, index: u8, copy: Device) -> Result<Device, IoError> {
        self.world.replace(index.into(), copy)
    }

    /// Whether a command to a device is under way.
    pub fn is_busy(&self, index: u8) -> bool {
        self.world.under_way(index.into()) > 0
    }
}

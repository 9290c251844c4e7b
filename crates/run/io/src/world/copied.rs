//! Copy of a device in use: records the chunks that commands change, and at the end defers commands
//! until the copy has replaced the device.

use std::mem;
use std::sync::Arc;

use hostftl_core::{Command, DeviceError};

use super::World;
use crate::copy::Uncopied;
use crate::pool::Finished;

/// Commands to a device that are deferred because the device is about to be replaced.
#[derive(Debug)]
pub(super) struct DeferredCommands {
    pub device: usize,
    pub slots: Vec<u32>,
}

impl World {
    /// Starts to record the chunks of a device that change.
    pub(crate) fn begin_copy(&mut self, device: usize) -> Arc<Uncopied> {
        let window = self.devices[device].window();
        let uncopied = Arc::new(Uncopied::all(window.end - window.start));
        self.copied = Some((device, uncopied.clone()));
        uncopied
    }

    /// Stops recording changes.
    pub(crate) fn end_copy(&mut self) {
        self.copied = None;
    }

    /// Records the change of a completed command.
    pub(crate) fn note_change(&self, command: &Command) {
        let Some((copied, uncopied)) = &self.copied else { return };
        if command.device().map(usize::from) != Some(*copied) {
            return;
        }
        match command {
            Command::Program { lba, tally, .. } => {
                uncopied.mark(*lba..*lba + u64::from(tally.total()));
            }
            Command::Reset { lba, sectors, .. } => uncopied.mark(*lba..*lba + *sectors),
            _ => {}
        }
    }

    /// Defers new commands to a device.
    pub(crate) fn hold(&mut self, device: usize) {
        assert!(self.held.is_none(), "one device is held at a time");
        self.held = Some(DeferredCommands { device, slots: Vec::new() });
    }

    /// Starts the deferred commands.
    pub(crate) fn release(&mut self) {
        for slot in self.held.take().into_iter().flat_map(|held| held.slots) {
            let flight = self.flights[slot as usize].take();
            let (token, mut command) = flight.expect("a held command stays in its flight");
            self.begin(slot, &mut command);
            self.flights[slot as usize] = Some((token, command));
        }
    }

    /// Ends the deferred commands without starting them.
    pub(crate) fn drop_held(&mut self) {
        let slots = self.held.as_mut().map(|held| mem::take(&mut held.slots)).unwrap_or_default();
        let failed = |slot| Finished { slot, result: Err(DeviceError::Removed) };
        self.finished.extend(slots.into_iter().map(failed));
    }
}

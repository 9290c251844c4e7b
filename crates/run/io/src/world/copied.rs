//! A device that is copied while it is in use: the chunks that commands change are recorded, and at
//! the end commands are held back until the copy is in its place.

use std::mem;
use std::sync::Arc;

use hostftl_core::{Command, DeviceError};

use super::World;
use crate::copy::Uncopied;
use crate::pool::Finished;

/// Commands to a device that have not begun, because the device is about to change.
#[derive(Debug)]
pub(super) struct Held {
    pub device: usize,
    pub slots: Vec<u32>,
}

impl World {
    /// Records from now on the chunks of a device that change.
    pub(crate) fn begin_copy(&mut self, device: usize) -> Arc<Uncopied> {
        let window = self.devices[device].window();
        let uncopied = Arc::new(Uncopied::all(window.end - window.start));
        self.copied = Some((device, uncopied.clone()));
        uncopied
    }

    /// Records no changes any more.
    pub(crate) fn end_copy(&mut self) {
        self.copied = None;
    }

    /// Records the change that an ended command made.
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

    /// Holds back new commands to a device.
    pub(crate) fn hold(&mut self, device: usize) {
        assert!(self.held.is_none(), "one device is held at a time");
        self.held = Some(Held { device, slots: Vec::new() });
    }

    /// Begins the commands that were held back.
    pub(crate) fn release(&mut self) {
        for slot in self.held.take().into_iter().flat_map(|held| held.slots) {
            let flight = self.flights[slot as usize].take();
            let (token, mut command) = flight.expect("a held command stays in its flight");
            self.begin(slot, &mut command);
            self.flights[slot as usize] = Some((token, command));
        }
    }

    /// Ends the commands that were held back without having begun them.
    pub(crate) fn drop_held(&mut self) {
        let slots = self.held.as_mut().map(|held| mem::take(&mut held.slots)).unwrap_or_default();
        let gone = |slot| Finished { slot, result: Err(DeviceError::Gone) };
        self.finished.extend(slots.into_iter().map(gone));
    }
}

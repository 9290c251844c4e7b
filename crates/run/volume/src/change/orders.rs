//! Administrative commands that exchange no device: offline, remove, cancel and clear.

use std::time::{Duration, Instant};

use hostftl_core::{AdminCommand, AdminOutcome, DeviceSet, Layer};
use hostftl_format::superblock::Superblock;
use hostftl_io::Driver;
use hostftl_layers::AnyLayer;
use uuid::Uuid;

use super::changer::{CLOSED, Changer, PAUSE};
use crate::metadata::config::Config;
use crate::open::names::DeviceId;
use crate::running::jobs::Jobs;
use crate::util::error::{AdminError, AdminErrorKind};
use crate::util::lock;

/// Timeout for roots before a device is taken offline.
const SETTLES: Duration = Duration::from_secs(2);
/// Timeout for superblocks to record a command before a warning is returned.
const DURABLE: Duration = Duration::from_millis(2500);

impl Changer {
    /// Writes two roots before a device goes offline, so that little must be resilvered when it
    /// returns. Gives up after a short time, because the device itself may be the one that hangs.
    pub(crate) fn settle(&self) {
        let (begun, mut roots) = (Instant::now(), 0);
        // Only a root that began after the call covers all writes before it, hence two.
        while roots < 2 && begun.elapsed() < SETTLES {
            match self.port.operate(AdminCommand::Settle) {
                Ok(AdminOutcome::Started) => roots += 1,
                Ok(AdminOutcome::NoChange) => std::thread::sleep(PAUSE),
                Err(_) => return,
            }
        }
    }

    /// Takes a device offline. Returns `false` if it was offline already.
    pub(crate) fn offline(&self, index: u8) -> Result<bool, AdminError> {
        // Before the command, so that the loss is reported as ordered and not as a failure.
        self.port.between(|_, jobs| jobs.order(index, true));
        let done = self.ask(AdminCommand::Offline(index));
        if done != Ok(AdminOutcome::Started) {
            self.port.between(|_, jobs| jobs.order(index, false));
        }
        let is_new = done? == AdminOutcome::Started;
        self.wait_until_recorded("offline", |it| DeviceSet::from_bits(it.missing).contains(index))?;
        Ok(is_new)
    }

    /// Starts or cancels the removal of a device, durably. Returns `false` if nothing changed.
    pub(crate) fn set_leaving(&self, index: u8, leaves: bool) -> Result<bool, AdminError> {
        let command =
            if leaves { AdminCommand::Remove(index) } else { AdminCommand::Cancel(index) };
        let is_new = self.ask(command)? == AdminOutcome::Started;
        let recorded =
            |it: &Superblock| DeviceSet::from_bits(it.leaving | it.removed).contains(index);
        let word = if leaves { "being removed" } else { "kept" };
        self.wait_until_recorded(word, |now| recorded(now) == leaves)?;
        Ok(is_new)
    }

    /// Waits until all superblocks record the change described by `word`. A power cut before that
    /// would undo it.
    fn wait_until_recorded(
        &self,
        word: &str,
        is_so: impl Fn(&Superblock) -> bool,
    ) -> Result<(), AdminError> {
        let begun = Instant::now();
        while begun.elapsed() < DURABLE {
            let recorded = self.port.between(|_, jobs| jobs.recorded()).ok_or(CLOSED)?;
            if recorded.is_none_or(|recorded| is_so(&recorded)) {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        let text = format!(
            "the device is {word}, but not all superblocks are written yet; a restart before that \
             may undo the change"
        );
        Err(AdminError::new(AdminErrorKind::Unknown, text))
    }

    /// Clears all events, or those of one device, durably.
    pub(crate) fn clear(&self, device: Option<u8>) -> Result<(), AdminError> {
        let failing =
            lock(&self.sources.samples.shown).gauges.map_or(DeviceSet::EMPTY, |it| it.failing);
        for it in failing {
            if device.is_none_or(|device| device == it) {
                self.ask(AdminCommand::Clear(it))?;
            }
        }
        // Counts since the start cannot be reset in the driver, so the cleared ones are subtracted.
        let shown = lock(&self.sources.samples.shown).stats.devices.clone();
        let mut event_host = lock(&self.sources.event_host);
        let is_meant = |index: usize| device.is_none_or(|device| usize::from(device) == index);
        let errors = shown.iter().zip(&mut event_host.cleared_errors).enumerate();
        for (_, (stats, cleared)) in errors.filter(|(index, _)| is_meant(*index)) {
            *cleared = stats.errors;
        }
        let name = device.map_or(String::new(), |device| event_host.name(device).to_owned());
        drop(event_host);
        let cleared = self.sources.samples.events.clear(device, &name);
        cleared.map_err(|why| AdminError::new(AdminErrorKind::Failed, why))
    }

    /// Records in the volume file whether the administrator took a device offline, for the next
    /// start.
    pub(crate) fn note_offline(&self, index: u8, is_out: bool) -> Result<(), AdminError> {
        let recorded = self.recorded()?;
        let device = Uuid::from_bytes(recorded.members[usize::from(index)]);
        // In memory first: the file may be unwritable, and this run must still respect the order.
        self.keep_offline(device, is_out);
        Config::set_offline(self.path(), device, is_out).map_err(AdminError::from)
    }

    /// Returns the IDs of the ready spares.
    pub(crate) fn spares(&self) -> Vec<DeviceId> {
        let ready = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
            driver.layer().members().spares() - driver.layer().members().lost()
        };
        let ready = self.port.between(ready).unwrap_or_default();
        ready.iter().map(|index| self.id(index)).collect()
    }
}

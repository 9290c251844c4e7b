//! Short commands of an operator, which change no device: one is left out, is to leave, or stays.

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

/// How long a root may take before a device is left out.
const SETTLES: Duration = Duration::from_secs(2);
/// How long the superblocks may take to say what an operator wants, before the operator is told.
const DURABLE: Duration = Duration::from_millis(2500);

impl Changer {
    /// Before a device goes: what is written is made known from the start on, so that the device
    /// lacks little when it is back. That is not waited for long: the device may be the one that
    /// hangs.
    pub(crate) fn settle(&self) {
        let (begun, mut roots) = (Instant::now(), 0);
        // The second is begun when the first, which began after the call, is durable.
        while roots < 2 && begun.elapsed() < SETTLES {
            match self.port.operate(AdminCommand::Settle) {
                Ok(AdminOutcome::Started) => roots += 1,
                Ok(AdminOutcome::NoChange) => std::thread::sleep(PAUSE),
                Err(_) => return,
            }
        }
    }

    /// Leaves a device out. Whether it was there; else that is so already.
    pub(crate) fn offline(&self, index: u8) -> Result<bool, AdminError> {
        self.port.between(|_, jobs| jobs.order(index, true));
        let done = self.ask(AdminCommand::Offline(index));
        if done != Ok(AdminOutcome::Started) {
            self.port.between(|_, jobs| jobs.order(index, false));
        }
        let is_new = done? == AdminOutcome::Started;
        self.until_said("offline", |it| DeviceSet::from_bits(it.missing).contains(index))?;
        Ok(is_new)
    }

    /// Begins to remove a device, or cancels that, durably. Whether that is new.
    pub(crate) fn set_leaving(&self, index: u8, leaves: bool) -> Result<bool, AdminError> {
        let command =
            if leaves { AdminCommand::Remove(index) } else { AdminCommand::Cancel(index) };
        let is_new = self.ask(command)? == AdminOutcome::Started;
        let recorded =
            |it: &Superblock| DeviceSet::from_bits(it.leaving | it.removed).contains(index);
        let word = if leaves { "being removed" } else { "kept" };
        self.until_said(word, |now| recorded(now) == leaves)?;
        Ok(is_new)
    }

    /// Waits until all superblocks say so that a device is as the `word` says: before, a power cut
    /// would take it back.
    fn until_said(
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

    /// Acknowledges the events so far, or those of one device, durably.
    pub(crate) fn clear(&self, device: Option<u8>) -> Result<(), AdminError> {
        let failing =
            lock(&self.sources.samples.shown).gauges.map_or(DeviceSet::EMPTY, |it| it.failing);
        for it in failing {
            if device.is_none_or(|device| device == it) {
                self.ask(AdminCommand::Clear(it))?;
            }
        }
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

    /// Notes in the volume's file that an operator left a device out, or no longer does, so that
    /// the next start knows.
    pub(crate) fn note_offline(&self, index: u8, is_out: bool) -> Result<(), AdminError> {
        let recorded = self.recorded()?;
        let device = Uuid::from_bytes(recorded.members[usize::from(index)]);
        self.keep_offline(device, is_out);
        Config::set_offline(self.path(), device, is_out).map_err(AdminError::from)
    }

    /// The spares that are ready, as replies show them.
    pub(crate) fn spares(&self) -> Vec<DeviceId> {
        let ready = |driver: &mut Driver<AnyLayer>, _: &mut Jobs| {
            driver.layer().members().spares() - driver.layer().members().lost()
        };
        let ready = self.port.between(ready).unwrap_or_default();
        ready.iter().map(|index| self.id(index)).collect()
    }
}

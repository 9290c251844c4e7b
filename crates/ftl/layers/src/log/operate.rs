//! Administrative commands on a volume that is served: remove, keep, replace or return a device.

use hostftl_core::{AdminCommand, AdminOutcome, DeviceSet, Refusal, Setting};

use crate::log::array::Array;
use crate::log::devices::Devices;
use crate::log::layout::{Layout, Reserves};
use crate::log::segments::Segments;
use crate::planted::{Bug, planted};

impl Array {
    /// Executes a command, see [`hostftl_core::Layer::operate`].
    pub(in crate::log) fn do_command(
        &mut self,
        command: AdminCommand,
    ) -> Result<AdminOutcome, Refusal> {
        match command {
            AdminCommand::Remove(device) => self.remove(device, true),
            AdminCommand::MayRemove(device) => self.remove(device, false),
            AdminCommand::Cancel(device) => self.cancel(device),
            AdminCommand::Offline(device) => self.do_without(device),
            AdminCommand::Settle => Ok(if self.mapping.checkpoint.hurry() {
                AdminOutcome::Started
            } else {
                AdminOutcome::NoChange
            }),
            AdminCommand::MayReplace(device) => self.may_replace(device),
            AdminCommand::Replaced { device, discard } => {
                self.comes(device, |devices, _| devices.replaced(device, discard))
            }
            AdminCommand::Copied { device, discard } if device < 16 => {
                self.media.devices.copied(device, discard);
                Ok(AdminOutcome::Started)
            }
            AdminCommand::Returned { .. } if self.layout().zoned => Err(Refusal::Because(
                "its zones hold data that can't be continued; erase the \
                 device first",
            )),
            AdminCommand::Returned { device, has } => self.comes(device, |devices, segments| {
                devices.returned(device, has, |segment| !segments.is_left(segment));
            }),
            AdminCommand::Clear(device) if device < 16 => {
                self.media.devices.health_mut().acknowledge(device);
                Ok(AdminOutcome::Started)
            }
            AdminCommand::Doubt { device, is_failing } if device < 16 => {
                // The device may have been replaced meanwhile.
                if self.media.devices.is_inactive(device) {
                    return Ok(AdminOutcome::NoChange);
                }
                self.media.devices.health_mut().doubt(device, is_failing);
                Ok(AdminOutcome::Started)
            }
            AdminCommand::Set(Setting::FaultAfter(limit)) => {
                let health = self.media.devices.health_mut();
                let is_new = health.limit() != limit;
                health.set_limit(limit);
                Ok(if is_new { AdminOutcome::Started } else { AdminOutcome::NoChange })
            }
            _ => Err(Refusal::Unable),
        }
    }

    /// Starts the removal of a device if that is possible; without `begin` only checks it.
    fn remove(&mut self, device: u8, begin: bool) -> Result<AdminOutcome, Refusal> {
        let it = DeviceSet::single(device);
        let (devices, is_journal) = (&mut self.media.devices, self.output.journal.is(device));
        if !is_journal && (devices.removed() | devices.leaving()).contains(device) {
            return Ok(AdminOutcome::NoChange);
        }
        let left = devices.membership().all() - (devices.inactive() | it);
        if devices.spare().contains(device) {
            return Err(Refusal::Because("it is a spare and holds no data"));
        }
        let refused = if is_journal {
            "it is the journal device, which can't be removed"
        } else if !devices.untrusted().is_empty() {
            "a device is being added; wait until it is a member"
        } else if !devices.membership().all().contains(device) {
            "it is not a member of the volume"
        } else if !devices.leaving().is_empty() {
            "another device is being removed; wait for the removal or cancel it"
        } else if left.len() <= u32::from(devices.layout().parity) {
            "too few devices would remain"
        } else if devices.is_needed_for_repairs(it) {
            return Err(devices.damage_of_others(it));
        } else {
            ""
        };
        if !refused.is_empty() {
            return Err(Refusal::Because(refused));
        }
        let kept = room_on(left, devices.layout(), &self.media.segments)?;
        if begin {
            devices.set_leaving(device, true);
            self.media.segments.keep(kept);
        }
        Ok(AdminOutcome::Started)
    }

    /// Stops using a device as if it had failed.
    fn do_without(&mut self, device: u8) -> Result<AdminOutcome, Refusal> {
        let it = DeviceSet::single(device);
        let (devices, is_journal) = (&mut self.media.devices, self.output.journal.is(device));
        if !is_journal && devices.is_inactive(device) {
            return Ok(AdminOutcome::NoChange);
        }
        let refused = if is_journal || !devices.membership().all().contains(device) {
            "it holds no data of the volume"
        } else if devices.is_needed_for_repairs(it) {
            return Err(devices.damage_of_others(it));
        } else if devices.may_lose_beside(it) == 0 {
            "some segments are degraded or have no parity and would lose data; rebuild first"
        } else {
            devices.leave_out(device);
            return Ok(AdminOutcome::Started);
        };
        Err(Refusal::Because(refused))
    }

    /// Checks whether a device, which is or may be marked as lost, can be replaced.
    fn may_replace(&self, device: u8) -> Result<AdminOutcome, Refusal> {
        let it = DeviceSet::single(device);
        let devices = &self.media.devices;
        let refused = if self.output.journal.is(device) {
            "the journal device can be replaced only while the volume is stopped"
        } else if devices.removed().contains(device) {
            "it was removed; add another device instead"
        } else if (devices.spare() - devices.inactive()).contains(device) {
            "it is a spare and holds no data"
        } else if !(devices.membership().all() | devices.spare()).contains(device) {
            "it is not a member of the volume"
        } else if !devices.untrusted().is_empty() {
            "a device is being added; wait until it is a member"
        } else if !devices.is_inactive(device) && devices.is_needed_for_repairs(it) {
            return Err(devices.damage_of_others(it));
        } else if !devices.is_inactive(device) && devices.may_lose_beside(it) == 0 {
            "some segments are degraded or have no parity and would lose data; rebuild first"
        } else {
            let is_known = devices.is_inactive(device) && devices.is_committed();
            return Ok(if is_known { AdminOutcome::Started } else { AdminOutcome::NoChange });
        };
        Err(Refusal::Because(refused))
    }

    /// Replaces a lost device.
    fn comes(
        &mut self,
        device: u8,
        come: impl FnOnce(&mut Devices, &Segments),
    ) -> Result<AdminOutcome, Refusal> {
        if self.may_replace(device)? == AdminOutcome::NoChange {
            return Err(Refusal::Because("the previous device is not marked lost yet"));
        }
        come(&mut self.media.devices, &self.media.segments);
        if self.layout().zoned && !planted(Bug::RootsContinue) {
            self.mapping.checkpoint.roots_mut().is_another(device);
        }
        self.mapping.checkpoint.hurry();
        Ok(AdminOutcome::Started)
    }

    /// Cancels the removal of a device.
    fn cancel(&mut self, device: u8) -> Result<AdminOutcome, Refusal> {
        let is_one = device < self.layout().devices && !self.output.journal.is(device);
        if is_one && self.media.devices.removed().contains(device) {
            return Err(Refusal::Because("it was removed and holds no data"));
        }
        let stays = is_one && self.media.devices.set_leaving(device, false);
        if !stays {
            return Ok(AdminOutcome::NoChange);
        }
        let stay = self.media.devices.membership().all() - self.media.devices.leaving();
        if let Some(kept) = self.layout().reserves_on(stay) {
            self.media.segments.keep(kept);
        }
        Ok(AdminOutcome::Started)
    }
}

/// Returns the reserves for stripes on the devices `left` only, if all valid data fits.
fn room_on(left: DeviceSet, layout: &Layout, segments: &Segments) -> Result<Reserves, Refusal> {
    let kept = layout.reserves_on(left);
    let kept = kept.filter(|kept| Segments::most_on(left, kept, layout, false) > 0);
    let small = Refusal::Because("the remaining devices are too small");
    let kept = kept.ok_or(small)?;
    match segments.excess(left, &kept, layout, false) {
        0 => Ok(kept),
        bytes => Err(Refusal::Full(bytes)),
    }
}

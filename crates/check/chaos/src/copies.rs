//! Lives in which an older copy replaces a device: the journal's device, or one of several devices
//! without parity.
//!
//! A copy replaces the device only when the two are equal, or when the layer must detect the
//! difference. docs/SEMANTICS.md defines the differences that a layer must detect.

use hostftl_core::{Command, DeviceSet};
use hostftl_layers::{LayerConfig, Mode};

use crate::draw::copies::{Copied, Exchange, exchange};
use crate::events::Named;
use crate::world::World;

/// Returns whether one of `devices` has roots from which an older copy of another device can be
/// detected. All of them may have been removed, and for a device in removal no superblock records
/// its completion.
fn others_reveal(config: &LayerConfig, devices: DeviceSet) -> bool {
    let it = &config.members;
    !devices.is_within(it.removed | it.leaving | it.spare | it.fresh)
}

impl World {
    /// Returns whether an older copy is in the place of a device.
    pub(crate) fn has_copy(&self) -> bool {
        self.copied == Copied::Here
    }

    /// Returns the journal's device, if copies of it may be used.
    fn journal_to_copy(&self) -> Option<u8> {
        self.swarm
            .mortal
            .filter(|_| self.swarm.faults.stale && self.swarm.mortal == self.swarm.journal)
    }

    /// Returns the device that copies may replace.
    pub(crate) fn to_copy(&self) -> Option<u8> {
        self.swarm.older.or(self.journal_to_copy())
    }

    /// Puts the original device back.
    pub(crate) fn bring_true_device(&mut self) {
        if let Some(device) = self.to_copy().filter(|_| self.has_copy()) {
            self.machine.disks[usize::from(device)].exchange();
            self.copied = Copied::Not;
        }
    }

    /// Before a life, replaces the device by a copy, or makes a copy. A first life that was cut off
    /// is repeated identically, so a copy of its device would not be an older one.
    pub(crate) fn exchange_copy(&mut self, mode: Mode) {
        let Some(device) = self.to_copy().filter(|_| mode == Mode::Open) else { return };
        if self.damaged && self.swarm.older.is_some() {
            return;
        }
        let others = (self.devices() - self.journal_device()).without(device);
        let noticed = self.swarm.older.is_none() || others_reveal(&self.config, others);
        let disk = &mut self.machine.disks[usize::from(device)];
        let noticed = self.copied == Copied::Known && noticed && disk.differs();
        match exchange(&mut self.dice, self.copied, noticed) {
            Exchange::None => {}
            Exchange::Bring => {
                disk.exchange();
                self.copied = Copied::Here;
                self.tallies.note(Named::Exchanged);
            }
            Exchange::Make => {
                disk.remember();
                // If this life does not change the journal's device, the copy is not an older one.
                let of_journal = self.swarm.older.is_none();
                self.copied = if of_journal { Copied::Known } else { Copied::Early };
            }
            Exchange::Forget => self.copied = Copied::Not,
        }
    }

    /// After a completed command, updates the state of the copy and may make another one.
    pub(crate) fn follow_copy(
        &mut self,
        command: &Command,
        went_well: bool,
        is_ready: bool,
    ) -> Result<(), String> {
        let Some(device) = self.to_copy() else { return Ok(()) };
        let of_journal = self.swarm.older.is_none();
        let writes = matches!(command, Command::Program { .. } | Command::Reset { .. });
        if self.has_copy() && !of_journal && writes && !self.leaves(device) {
            return Err(format!("written with an older copy of device {device} in place"));
        }
        if command.device() != Some(device) || !went_well {
            return Ok(());
        }
        let disk = &mut self.machine.disks[usize::from(device)];
        match (self.copied, command) {
            // The layer has accepted the copy as the device.
            (Copied::Here, Command::Program { .. }) => self.copied = Copied::Not,
            (Copied::Early, Command::Flush { .. }) if of_journal && disk.differs() => {
                self.copied = Copied::Lacking(0);
            }
            (Copied::Not | Copied::Known, _) if is_ready && self.dice.chance(20) => {
                disk.remember();
                self.copied = Copied::Early;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether a device is in removal. Once its data has moved, any copy of it is
    /// acceptable.
    fn leaves(&self, device: u8) -> bool {
        self.config.members.leaving.contains(device)
    }

    /// Discards the copy of a device that was removed and destroyed.
    pub(crate) fn forget_copy(&mut self, device: usize) {
        if self.swarm.older.is_some_and(|it| usize::from(it) == device) {
            (self.swarm.older, self.copied) = (None, Copied::Not);
        }
    }

    /// Checks, when the layer is ready, that it detected an older copy of a device without parity.
    pub(crate) fn ready_with_copy(&self) -> Result<(), String> {
        match self.swarm.older.filter(|_| self.has_copy()) {
            Some(device) if self.leaves(device) => Ok(()),
            Some(device) => {
                Err(format!("ready with an older copy of device {device} in its place"))
            }
            None => Ok(()),
        }
    }

    /// Accepts that a volume is refused with an older copy, except with one of its journal after a
    /// clean stop.
    pub(crate) fn refused_with_copy(&mut self) -> Result<(), String> {
        if self.clean && self.swarm.older.is_none() {
            return Err("refused with an older journal, which a clean stop left unneeded".into());
        }
        self.tallies.note(Named::OlderRefused);
        self.refused_for_now = true;
        self.bring_true_device();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hostftl_layers::LayerKind;

    use super::*;

    #[test]
    fn a_single_device_cannot_detect_an_older_copy() {
        let mut config = LayerConfig::new(LayerKind::Log);
        let (one, two) = (DeviceSet::single(1), DeviceSet::from_iter([1, 2]));
        assert!(others_reveal(&config, one));
        config.members.removed = one;
        assert!(!others_reveal(&config, one), "the other one has left");
        (config.members.removed, config.members.leaving) = (DeviceSet::EMPTY, one);
        assert!(!others_reveal(&config, one), "it has perhaps left");
        config.members.fresh = DeviceSet::single(2);
        assert!(!others_reveal(&config, two), "a device that just joined has no root");
        config.members.fresh = DeviceSet::EMPTY;
        assert!(others_reveal(&config, two));
    }
}

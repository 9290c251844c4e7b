//! Lives with an older copy of one device in its place: of a journal's device, or of one of several
//! without parity.
//!
//! A copy is put in the place of the device only when it is the same, or when a layer must notice
//! that it is not. What a layer must notice stands in docs/SEMANTICS.md.

use hostftl_core::Command;
use hostftl_layers::{LayerConfig, Mode};

use crate::draw::copies::{Copied, Exchange, exchange};
use crate::events::Named;
use crate::world::World;

/// Whether one of so many devices, which is none of `these`, has roots that say what an older copy
/// of one lacks: all others may have left, and of one that is to leave no superblock says when it
/// has.
fn others_tell(config: &LayerConfig, devices: u32, these: u16) -> bool {
    let all = ((1_u32 << devices) - 1) as u16;
    let it = &config.members;
    all & !(it.gone | it.leaving | it.spare | it.fresh | these) != 0
}

impl World {
    /// Whether an older copy is in the place of a device.
    pub(crate) fn has_copy(&self) -> bool {
        self.copied == Copied::Here
    }

    /// The journal's device, where copies of it may come.
    fn journal_to_copy(&self) -> Option<u8> {
        self.swarm
            .mortal
            .filter(|_| self.swarm.faults.stale && self.swarm.mortal == self.swarm.journal)
    }

    /// The device in whose place copies may come.
    pub(crate) fn to_copy(&self) -> Option<u8> {
        self.swarm.older.or(self.journal_to_copy())
    }

    /// The device itself is back.
    pub(crate) fn bring_true_device(&mut self) {
        if let Some(device) = self.to_copy().filter(|_| self.has_copy()) {
            self.machine.disks[usize::from(device)].exchange();
            self.copied = Copied::Not;
        }
    }

    /// Before a life: puts a copy in the place of the device, or makes one. What a first life made
    /// before it was cut off is made again alike: a copy of that would be no older one.
    pub(crate) fn exchange_copy(&mut self, mode: Mode) {
        let Some(device) = self.to_copy().filter(|_| mode == Mode::Open) else { return };
        if self.damaged && self.swarm.older.is_some() {
            return;
        }
        let (devices, these) = (self.swarm.devices, self.journal_bit() | 1 << device);
        let noticed = self.swarm.older.is_none() || others_tell(&self.config, devices, these);
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
                // Of a journal's device that this life does not change, it is no older one.
                let of_journal = self.swarm.older.is_none();
                self.copied = if of_journal { Copied::Known } else { Copied::Early };
            }
            Exchange::Forget => self.copied = Copied::Not,
        }
    }

    /// A command is over: what does the copy lack, and is it the time for another one?
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
            // The layer has taken it for the device.
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

    /// Whether a device is to leave: when nothing lies on it any more, any copy will do.
    fn leaves(&self, device: u8) -> bool {
        self.config.members.leaving >> device & 1 == 1
    }

    /// A device has left, and is destroyed with what is known of its copy.
    pub(crate) fn forget_copy(&mut self, device: usize) {
        if self.swarm.older.is_some_and(|it| usize::from(it) == device) {
            (self.swarm.older, self.copied) = (None, Copied::Not);
        }
    }

    /// The layer is ready: an older copy of a device without parity must have been noticed.
    pub(crate) fn ready_with_copy(&self) -> Result<(), String> {
        match self.swarm.older.filter(|_| self.has_copy()) {
            Some(device) if self.leaves(device) => Ok(()),
            Some(device) => {
                Err(format!("ready with an older copy of device {device} in its place"))
            }
            None => Ok(()),
        }
    }

    /// A volume is refused with an older copy; one of its journal, unless it was stopped cleanly.
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
    fn one_device_alone_can_not_tell() {
        let mut config = LayerConfig::new(LayerKind::Log);
        assert!(others_tell(&config, 2, 0b1));
        config.members.gone = 0b10;
        assert!(!others_tell(&config, 2, 0b1), "the other one has left");
        (config.members.gone, config.members.leaving) = (0, 0b10);
        assert!(!others_tell(&config, 2, 0b1), "it has perhaps left");
        config.members.fresh = 0b100;
        assert!(!others_tell(&config, 3, 0b1), "no root lies on one that just came");
        config.members.fresh = 0;
        assert!(others_tell(&config, 3, 0b1));
    }
}

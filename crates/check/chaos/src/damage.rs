//! Damage of the media between two lives, and misdirected or lost writes, as far as the layer
//! claims to detect them.

use hostftl_core::Command;
use hostftl_layers::Mode;

use crate::disk::Disk;
use crate::draw::damage::{self, Rot};
use crate::events::Named;
use crate::exec::Detour;
use crate::matrix::{Claim, Row};
use crate::world::World;

impl World {
    /// Damages the media between two lives, as far as the layer claims to detect it.
    pub(crate) fn damage(&mut self, mode: Mode) {
        // Older copies are detected by metadata of the other devices, so these stay undamaged.
        let harmless = self.has_copy() && self.swarm.older.is_some();
        for device in 0..self.machine.disks.len() {
            if self.may_fail(device as u8) && !harmless {
                self.damage_one(device);
            }
        }
        self.exchange_copy(mode);
    }

    fn damage_one(&mut self, device: usize) {
        let faults = self.swarm.faults;
        let disk = &mut self.machine.disks[device];
        if let Some(sector) = damage::spoiled(&mut self.dice, &faults, disk) {
            disk.spoil(sector);
            self.harm(Row::ReadError);
        }
        let start = self.dice.below(self.machine.disks[device].sectors());
        let log_rot = match self.claims.get(Row::LogRot) {
            Claim::Kept => Disk::find_any_log,
            _ => Disk::find_log,
        };
        let known = self.known(device);
        let of_journal = self.swarm.journal == Some(device as u8);
        // Where rot is only detected, the newest writes are excluded, because rot in them is
        // indistinguishable from a torn write.
        let claim = self.claims.get(Row::DataRot);
        let data_rot = |disk: &Disk, start| match claim {
            Claim::Detected if of_journal => disk.find_log_data(start),
            Claim::Detected => disk.find_known_data(start, known),
            _ => disk.find_data(start),
        };
        let data_may_rot = faults.data_rot && (!of_journal || self.swarm.mortal.is_some());
        type Find<'a> = &'a dyn Fn(&Disk, u64) -> Option<u64>;
        let kinds: [(bool, Find, Named, Row); 3] = [
            (faults.metadata_rot, &Disk::find_meta, Named::MetadataRot, Row::MetadataRot),
            (faults.log_rot, &log_rot, Named::LogRot, Row::LogRot),
            (data_may_rot, &data_rot, Named::DataRot, Row::DataRot),
        ];
        for (wanted, find, named, row) in kinds {
            if !wanted || self.damaged {
                continue;
            }
            let disk = &mut self.machine.disks[device];
            let drawn = damage::rot(&mut self.dice, || find(disk, start));
            let Some(Rot { sector, bit }) = drawn else { continue };
            if self.trace {
                eprintln!("{} device {device}, sector {sector}: {named:?}", self.steps);
            }
            disk.rot(sector, bit);
            self.tallies.note(named);
            self.harm(row);
        }
        if self.swarm.journal == Some(device as u8) || self.to_copy().is_some() {
            return;
        }
        let disk = &mut self.machine.disks[device];
        if damage::is_stale(&mut self.dice, &faults) {
            self.tallies.note_if(disk.go_stale(), Named::Stale);
            self.harm(Row::StaleDevice);
        } else if faults.stale {
            disk.remember();
        }
    }

    /// Returns whether faults may happen to this device.
    pub(crate) fn may_fail(&self, device: u8) -> bool {
        let swarm = &self.swarm;
        if self.is_second(device) {
            return self.secure.second;
        }
        let of_it = swarm.victim.or(swarm.mortal).is_none_or(|victim| victim == device);
        of_it && (self.secure.victim || self.is_victim_stale)
    }

    /// Draws the actual destination of a write.
    pub(crate) fn detour(&mut self, command: &Command) -> Detour {
        let Command::Program { device, tally, .. } = command else { return Detour::None };
        if !self.may_fail(*device) {
            return Detour::None;
        }
        // When the first root of a replaced device is durable, another victim is chosen; so that
        // root must arrive on it.
        let is_fresh = self.config.members.fresh.contains(*device);
        let disk = &self.machine.disks[usize::from(*device)];
        let size = self.segments.is_none().then(|| disk.sectors());
        let sectors = tally.total().into();
        let drawn = damage::detour(&mut self.dice, &self.swarm, sectors, size, is_fresh);
        match drawn {
            Detour::None => {}
            Detour::Lost => self.tallies.note(Named::LostWrite),
            Detour::To(_) => self.tallies.note(Named::MisdirectedWrite),
        }
        drawn
    }
}

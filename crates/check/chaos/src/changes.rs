//! Changes of the member list: before a life a volume gets another device, or starts to remove one
//! of its devices; the removal may be cancelled later.
//!
//! - A device is destroyed when the layer reports it removed and the superblocks record it.
//! - A cut may come before the superblocks record the removal; the device is then present again,
//!   unchanged.

use hostftl_core::{AdminCommand, AdminOutcome, DeviceSet, Layer};
use hostftl_layers::{AnyLayer, Mode};

use crate::disk::Disk;
use crate::draw::changes::{AddedDevice, added_device};
use crate::draw::fate::Fate;
use crate::draw::members;
use crate::events::Named;
use crate::world::World;

impl World {
    /// Chooses which devices are added or removed before a life that starts in `mode`.
    pub(crate) fn change_members(&mut self, mode: Mode) {
        if mode != Mode::Open || !self.swarm.changes {
            return;
        }
        if self.dice.chance(if self.swarm.spares { 300 } else { 120 }) {
            self.add_device();
        }
        if self.dice.chance(200) {
            self.begin_to_leave();
        }
    }

    /// After a durable root, may cancel the removal of a device, if the layer still can.
    pub(crate) fn perhaps_cancel(&mut self, layer: &mut AnyLayer) {
        let leaving = layer.members().leaving();
        let often = if self.swarm.is_stress { 250 } else { 60 };
        let Some(device) = leaving.first().filter(|_| self.swarm.changes) else { return };
        if !self.dice.chance(often) {
            return;
        }
        let done = layer.operate(AdminCommand::Cancel(device));
        if done == Ok(AdminOutcome::Started) {
            self.stays.insert(device);
        }
        // The power may be cut before the superblocks record the cancellation.
        if done == Ok(AdminOutcome::Started) && self.dice.chance(800) {
            self.config.members.leaving.remove(device);
            self.tallies.note(Named::Stayed);
            self.report_change("stays", DeviceSet::single(device));
        }
    }

    /// After a durable root, may start the removal of a device while the volume is served, if the
    /// layer permits it. The superblocks record it immediately.
    pub(crate) fn perhaps_remove(&mut self, layer: &mut AnyLayer) {
        let may = self.swarm.online_changes;
        // The superblocks would record all these changes together.
        let members = self.config.members;
        let untold = (layer.members().removed() - members.removed)
            | (members.spare - layer.members().spares());
        if !may || !untold.is_empty() || !self.dice.chance(150) {
            return;
        }
        let device = self.dice.below(self.swarm.devices.into()) as u8;
        if layer.operate(AdminCommand::Remove(device)) != Ok(AdminOutcome::Started) {
            return;
        }
        self.config.members.leaving = layer.members().leaving();
        self.config.exported = self.plan.limits.exported;
        self.stays.remove(device);
        self.tallies.note(Named::LeavesOnline);
        self.report_change("is to leave while the volume is served", DeviceSet::single(device));
    }

    /// After a durable root, checks that no device with a cancelled removal was removed.
    pub(crate) fn observe_stays(&mut self, layer: &AnyLayer) -> Result<(), String> {
        // A spare may replace a lost device, which is then removed.
        if !self.config.members.spare.is_within(layer.members().spares()) {
            self.stays = DeviceSet::EMPTY;
        }
        let left = layer.members().removed() & self.stays;
        self.stays -= layer.members().lost();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("devices {left:?} were removed after their removal was cancelled"))
        }
    }

    fn report_change(&self, what: &str, devices: DeviceSet) {
        if self.trace {
            eprintln!("{} devices {devices:?}: {what}", self.steps);
        }
    }

    fn add_device(&mut self) {
        // New devices are added behind the journal's device too.
        let count = self.infos.len() as u8;
        let stack = (&self.infos[0], count.into());
        let (has_parity, is_zoned) = (self.config.log.parity > 0, self.segments.is_some());
        let drawn = added_device(&mut self.dice, &self.swarm, stack, has_parity, is_zoned);
        let Some(AddedDevice { info, is_spare }) = drawn else { return };
        let mut config = self.config.clone();
        if config.members.born == 0 {
            config.members.born = count;
        }
        if is_spare {
            config.members.spare.insert(count);
        }
        config.exported = 0;
        self.infos.push(info.clone());
        let Ok(plan) = AnyLayer::plan(&config, &self.infos) else {
            self.infos.pop();
            return;
        };
        let mut disk = Disk::default();
        disk.reset(info.sectors, self.swarm.volatile, self.swarm.destage, self.segments);
        self.machine.disks.truncate(count.into());
        self.machine.disks.push(disk);
        let old = self.plan.limits.exported;
        config.exported = if is_spare { old } else { plan.limits.exported.max(old) };
        config.members.fresh.insert(count);
        let Ok(plan) = AnyLayer::plan(&config, &self.infos) else {
            self.infos.pop();
            return;
        };
        (self.config, self.plan) = (config, plan);
        self.swarm.devices = u32::from(count) + 1;
        self.model.grow(plan.limits.exported);
        self.workload.grow(plan.limits.exported);
        self.tallies.note(Named::Added);
        self.report_change("comes", DeviceSet::single(count));
    }

    /// Starts the removal of a device, if enough others are good.
    fn begin_to_leave(&mut self) {
        let members = self.config.members;
        let all = self.devices() - members.removed;
        let lost = match self.swarm.victim {
            Some(victim) if self.is_victim_stale => self.buried.with(victim),
            _ => self.buried,
        };
        let all = all - (members.spare | self.journal_device());
        let Some(leaves) = members::pick_one(&mut self.dice, all) else { return };
        let left = (all - (lost | members.fresh | members.leaving)).without(leaves);
        let parity = u32::from(self.config.log.parity);
        if left.len() <= parity || members.fresh.contains(leaves) {
            return;
        }
        self.config.members.leaving.insert(leaves);
        self.stays.remove(leaves);
        self.config.exported = self.plan.limits.exported;
        self.tallies.note(Named::Leaves);
        self.report_change("is to leave", DeviceSet::single(leaves));
    }

    /// After a durable root, destroys the removed devices once the superblocks record the removal.
    pub(crate) fn observe_leaving(&mut self, layer: &AnyLayer, fate: &mut Fate) {
        let left = layer.members().removed() - self.config.members.removed;
        let taken = self.config.members.spare - layer.members().spares();
        if (left | taken).is_empty() || self.dice.chance(300) {
            return;
        }
        if !taken.is_empty() {
            self.config.members.spare -= taken;
            self.config.members.leaving |= layer.members().leaving();
            self.config.exported = self.plan.limits.exported;
            self.tallies.note(Named::SpareTaken);
            self.report_change("takes the place of a lost one", taken);
        }
        if left.is_empty() {
            return;
        }
        self.swarm.second_victim =
            self.swarm.second_victim.filter(|second| !left.contains(*second));
        self.config.members.removed |= left;
        self.config.members.leaving -= left;
        self.config.exported = self.plan.limits.exported;
        self.buried |= left;
        self.tallies.note(Named::Removed);
        self.report_change("has left", left);
        for device in left.iter().map(usize::from) {
            let size = self.infos[device].sectors;
            let (volatile, destage) = (self.swarm.volatile, self.swarm.destage);
            self.machine.disks[device].reset(size, volatile, destage, self.segments);
            self.forget_copy(device);
        }
        if self.swarm.victim.is_some_and(|victim| left.contains(victim)) {
            self.choose_next_victim(left, fate);
        }
    }

    /// Formats the volume anew with its present devices.
    pub(crate) fn begin_as_made(&mut self) {
        let it = &mut self.config.members;
        if it.born == 0 && (it.removed | it.leaving | it.spare).is_empty() {
            return;
        }
        let none = DeviceSet::EMPTY;
        (it.born, it.removed, it.leaving, it.spare) = (0, none, none, none);
        self.config.exported = 0;
        self.keep_journal_behind();
        self.plan = AnyLayer::plan(&self.config, &self.infos).expect("it was wider than before");
        self.workload.grow(self.plan.limits.exported);
    }
}

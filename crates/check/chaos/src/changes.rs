//! Changes of the member list: before a life a volume gets another device, or starts to remove one
//! of its devices; the removal may be cancelled later.
//!
//! - A device is destroyed when the layer reports it removed and the superblocks record it.
//! - A cut may come before the superblocks record the removal; the device is then present again,
//!   unchanged.

use hostftl_core::{Answer, Layer, Verb};
use hostftl_layers::{AnyLayer, Mode};

use crate::disk::Disk;
use crate::draw::changes::{Newcomer, newcomer};
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
        let often = if self.swarm.busy { 250 } else { 60 };
        if leaving == 0 || !self.swarm.changes || !self.dice.chance(often) {
            return;
        }
        let device = leaving.trailing_zeros() as u8;
        let done = layer.operate(Verb::Cancel(device));
        if done == Ok(Answer::Begun) {
            self.stays |= 1 << device;
        }
        // The power may be cut before the superblocks record the cancellation.
        if done == Ok(Answer::Begun) && self.dice.chance(800) {
            self.config.members.leaving &= !(1 << device);
            self.tallies.note(Named::Stayed);
            self.tell_change("stays", 1 << device);
        }
    }

    /// After a durable root, may start the removal of a device while the volume is served, if the
    /// layer permits it. The superblocks record it immediately.
    pub(crate) fn perhaps_remove(&mut self, layer: &mut AnyLayer) {
        let may = self.swarm.live_changes;
        // The superblocks would record all these changes together.
        let members = self.config.members;
        let untold =
            layer.members().removed() & !members.gone | members.spare & !layer.members().spares();
        if !may || untold != 0 || !self.dice.chance(150) {
            return;
        }
        let device = self.dice.below(self.swarm.devices.into()) as u8;
        if layer.operate(Verb::Remove(device)) != Ok(Answer::Begun) {
            return;
        }
        self.config.members.leaving = layer.members().leaving();
        self.config.exported = self.plan.limits.exported;
        self.stays &= !(1 << device);
        self.tallies.note(Named::LeavesLive);
        self.tell_change("is to leave while the volume is served", 1 << device);
    }

    /// After a durable root, checks that no device with a cancelled removal was removed.
    pub(crate) fn look_at_stays(&mut self, layer: &AnyLayer) -> Result<(), String> {
        // A spare may replace a lost device, which is then removed.
        if self.config.members.spare & !layer.members().spares() != 0 {
            self.stays = 0;
        }
        let left = layer.members().removed() & self.stays;
        self.stays &= !layer.members().lost();
        match left {
            0 => Ok(()),
            _ => Err(format!("devices {left:#b} have left, and were told to stay after all")),
        }
    }

    fn tell_change(&self, what: &str, devices: u16) {
        if self.trace {
            eprintln!("{} devices {devices:#b}: {what}", self.steps);
        }
    }

    fn add_device(&mut self) {
        // New devices are added behind the journal's device too.
        let count = self.infos.len() as u32;
        let stack = (&self.infos[0], count);
        let (has_parity, is_zoned) = (self.config.log.parity > 0, self.segments.is_some());
        let drawn = newcomer(&mut self.dice, &self.swarm, stack, has_parity, is_zoned);
        let Some(Newcomer { info, is_spare }) = drawn else { return };
        let mut config = self.config.clone();
        if config.members.born == 0 {
            config.members.born = count as u8;
        }
        if is_spare {
            config.members.spare |= 1 << count;
        }
        config.exported = 0;
        self.infos.push(info.clone());
        let Ok(plan) = AnyLayer::plan(&config, &self.infos) else {
            self.infos.pop();
            return;
        };
        let mut disk = Disk::default();
        disk.reset(info.sectors, self.swarm.volatile, self.swarm.destage, self.segments);
        self.machine.disks.truncate(count as usize);
        self.machine.disks.push(disk);
        let old = self.plan.limits.exported;
        config.exported = if is_spare { old } else { plan.limits.exported.max(old) };
        config.members.fresh |= 1 << count;
        let Ok(plan) = AnyLayer::plan(&config, &self.infos) else {
            self.infos.pop();
            return;
        };
        (self.config, self.plan) = (config, plan);
        self.swarm.devices = count + 1;
        self.model.grow(plan.limits.exported);
        self.workload.grow(plan.limits.exported);
        self.tallies.note(Named::Added);
        self.tell_change("comes", 1 << count);
    }

    /// Starts the removal of a device, if enough others are good.
    fn begin_to_leave(&mut self) {
        let members = self.config.members;
        let all = ((1_u32 << self.swarm.devices) - 1) as u16 & !members.gone;
        let lost = match self.swarm.victim {
            Some(victim) if self.gone => self.buried | 1 << victim,
            _ => self.buried,
        };
        let all = all & !(members.spare | self.journal_bit());
        let Some(leaves) = members::one_of(&mut self.dice, all) else { return };
        let leaves = 1 << leaves;
        let left = all & !(lost | members.fresh | members.leaving | leaves);
        let parity = u32::from(self.config.log.parity);
        if left.count_ones() <= parity || members.fresh & leaves != 0 {
            return;
        }
        self.config.members.leaving |= leaves;
        self.stays &= !leaves;
        self.config.exported = self.plan.limits.exported;
        self.tallies.note(Named::Leaves);
        self.tell_change("is to leave", leaves);
    }

    /// After a durable root, destroys the removed devices once the superblocks record the removal.
    pub(crate) fn look_at_leaving(&mut self, layer: &AnyLayer, fate: &mut Fate) {
        let left = layer.members().removed() & !self.config.members.gone;
        let taken = self.config.members.spare & !layer.members().spares();
        if left | taken == 0 || self.dice.chance(300) {
            return;
        }
        if taken != 0 {
            self.config.members.spare &= !taken;
            self.config.members.leaving |= layer.members().leaving();
            self.config.exported = self.plan.limits.exported;
            self.tallies.note(Named::SpareTaken);
            self.tell_change("takes the place of a lost one", taken);
        }
        if left == 0 {
            return;
        }
        self.swarm.second = self.swarm.second.filter(|second| left >> second & 1 == 0);
        self.config.members.gone |= left;
        self.config.members.leaving &= !left;
        self.config.exported = self.plan.limits.exported;
        self.buried |= left;
        self.tallies.note(Named::Removed);
        self.tell_change("has left", left);
        for device in (0..16).filter(|device| left >> device & 1 == 1) {
            let size = self.infos[device].sectors;
            let (volatile, destage) = (self.swarm.volatile, self.swarm.destage);
            self.machine.disks[device].reset(size, volatile, destage, self.segments);
            self.forget_copy(device);
        }
        if self.swarm.victim.is_some_and(|victim| left >> victim & 1 == 1) {
            self.choose_next_victim(left, fate);
        }
    }

    /// Formats the volume anew with its present devices.
    pub(crate) fn begin_as_made(&mut self) {
        let it = &mut self.config.members;
        if it.born == 0 && it.gone | it.leaving | it.spare == 0 {
            return;
        }
        (it.born, it.gone, it.leaving, it.spare) = (0, 0, 0, 0);
        self.config.exported = 0;
        self.keep_journal_behind();
        self.plan = AnyLayer::plan(&self.config, &self.infos).expect("it was wider than before");
        self.workload.grow(self.plan.limits.exported);
    }
}

//! Faults of two devices at the same time, for layers with two parities: the victim and a second
//! device.
//!
//! - Both have faults only while the layer reports that it can lose both, or that it can lose the
//!   second device after the loss of the victim.
//! - When the second device is lost, it becomes an earlier victim.

use hostftl_core::{DeviceSet, Layer};
use hostftl_layers::{AnyLayer, Mode};

use crate::draw::fate::Dying;
use crate::draw::members;
use crate::events::Named;
use crate::world::World;

impl World {
    /// Returns whether this is the second device.
    pub(crate) fn is_second(&self, device: u8) -> bool {
        self.swarm.second_victim == Some(device)
    }

    /// Returns whether a device dies or times out when that is due.
    pub(crate) fn is_dying(&self, device: u8, dying: Dying) -> bool {
        let fits =
            if self.is_second(device) { dying != Dying::Victim } else { dying != Dying::Second };
        fits && self.may_fail(device)
    }

    /// Returns the devices whose commands may be late; while some hang, no other device may be
    /// late.
    pub(crate) fn may_be_late(&self) -> DeviceSet {
        let victim = self.swarm.victim.into_iter().collect();
        match self.swarm.parity {
            2 if self.is_victim_stale => self.buried | victim,
            2 => self.buried,
            _ => victim,
        }
    }

    /// Records that a device missed writes, so that it is no longer up to date.
    pub(crate) fn mark_stale(&mut self, device: u8) {
        if self.is_second(device) {
            self.bury_second();
        } else if self.swarm.victim == Some(device) {
            self.is_victim_stale();
        }
    }

    fn bury_second(&mut self) {
        let Some(second) = self.swarm.second_victim.take() else { return };
        self.tallies.note_if(self.is_victim_stale || !self.buried.is_empty(), Named::TwoLost);
        self.buried.insert(second);
        if self.trace {
            eprintln!("{} the second device, {second}, is lost", self.steps);
        }
    }

    /// Before a life that starts in `mode`, may remove the second device permanently.
    pub(crate) fn miss_second(&mut self, mode: Mode) {
        let may = mode == Mode::Open && self.swarm.faults.device_failure;
        let Some(second) = self.swarm.second_victim.filter(|second| may && self.may_fail(*second))
        else {
            return;
        };
        if self.dice.chance(if self.swarm.is_stress { 550 } else { 200 }) {
            self.bury_second();
            self.config.members.missing.insert(second);
        }
    }

    /// After a durable root, makes a lost second device an earlier victim, and may choose another
    /// one when the layer can lose two devices again.
    pub(crate) fn observe_second_victim(&mut self, layer: &AnyLayer) {
        if self.swarm.second_victim.is_some_and(|second| layer.members().lost().contains(second)) {
            self.bury_second();
        }
        let whole = self.swarm.parity > 1 && !self.is_victim_stale && may_lose(layer) > 1;
        if self.swarm.second_victim.is_some() || !whole || !self.dice.chance(300) {
            return;
        }
        let members = self.config.members;
        let out = self.buried | self.journal_device() | members.fresh | members.spare;
        let out = out | members.removed | members.leaving;
        let out = out | self.swarm.victim.into_iter().collect();
        let others = self.devices() - out;
        if let Some(second) = members::pick_one(&mut self.dice, others) {
            self.swarm.second_victim = Some(second);
            self.victims.insert(second);
        }
    }

    /// Returns whether the layer can lose the second device, either after the loss of the victim or
    /// together with it.
    pub(crate) fn second_is_secure(&self, layer: &AnyLayer) -> bool {
        let knows = self.swarm.victim.is_none_or(|it| layer.members().lost().contains(it));
        may_lose(layer) > u32::from(!knows)
    }
}

/// Returns the number of further devices that a layer can lose.
pub(crate) fn may_lose(layer: &AnyLayer) -> u32 {
    layer.gauges().map_or(0, |gauges| gauges.may_lose)
}

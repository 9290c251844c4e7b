//! Two devices to which faults happen at once, where a layer has two parities: beside the victim
//! there is a second one.
//!
//! Invariants
//! - Faults happen to both only while the layer says that it can do without both, or without the
//!   second one since it has lost the victim.
//! - When the second one is lost, it is an earlier victim from then on.

use hostftl_core::Layer;
use hostftl_layers::{AnyLayer, Mode};

use crate::draw::fate::Dying;
use crate::draw::members;
use crate::events::Named;
use crate::world::World;

impl World {
    /// Whether this is the second one.
    pub(crate) fn is_second(&self, device: u8) -> bool {
        self.swarm.second == Some(device)
    }

    /// Whether a device dies, or hangs, when that is due.
    pub(crate) fn is_dying(&self, device: u8, dying: Dying) -> bool {
        let fits =
            if self.is_second(device) { dying != Dying::Victim } else { dying != Dying::Second };
        fits && self.may_fail(device)
    }

    /// Devices of which commands may be late: of no other device any may be, while some hang.
    pub(crate) fn may_be_late(&self) -> u16 {
        let victim = self.swarm.victim.map_or(0, |victim| 1 << victim);
        match self.swarm.parity {
            2 => self.buried | if self.gone { victim } else { 0 },
            _ => victim,
        }
    }

    /// A device missed something, so that it does not belong to the volume any more.
    pub(crate) fn is_gone(&mut self, device: u8) {
        if self.is_second(device) {
            self.bury_second();
        } else if self.swarm.victim == Some(device) {
            self.victim_is_gone();
        }
    }

    fn bury_second(&mut self) {
        let Some(second) = self.swarm.second.take() else { return };
        self.tallies.note_if(self.gone || self.buried != 0, Named::TwoLost);
        self.buried |= 1 << second;
        if self.trace {
            eprintln!("{} the second device, {second}, is lost", self.steps);
        }
    }

    /// Before a life that begins in `mode`: perhaps the second one is missing from now on.
    pub(crate) fn miss_second(&mut self, mode: Mode) {
        let may = mode == Mode::Open && self.swarm.faults.dead;
        let Some(second) = self.swarm.second.filter(|second| may && self.may_fail(*second)) else {
            return;
        };
        if self.dice.chance(if self.swarm.busy { 550 } else { 200 }) {
            self.bury_second();
            self.config.members.missing |= 1 << second;
        }
    }

    /// A root is durable: whoever the layer has lost is an earlier victim, and when it can do
    /// without two devices again, there may be another one.
    pub(crate) fn look_at_second(&mut self, layer: &AnyLayer) {
        if self.swarm.second.is_some_and(|second| layer.members().lost() >> second & 1 == 1) {
            self.bury_second();
        }
        let whole = self.swarm.parity > 1 && !self.gone && may_lose(layer) > 1;
        if self.swarm.second.is_some() || !whole || !self.dice.chance(300) {
            return;
        }
        let members = self.config.members;
        let out = self.buried | self.journal_bit() | members.fresh | members.spare;
        let out = out | members.gone | members.leaving;
        let out = out | self.swarm.victim.map_or(0, |victim| 1 << victim);
        let all = ((1_u32 << self.swarm.devices) - 1) as u16;
        if let Some(second) = members::one_of(&mut self.dice, all & !out) {
            self.swarm.second = Some(second);
            self.victims |= 1 << second;
        }
    }

    /// Whether the layer can do without the second one, since it has lost the victim, or can do
    /// without that too.
    pub(crate) fn second_is_secure(&self, layer: &AnyLayer) -> bool {
        let knows = self.swarm.victim.is_none_or(|it| layer.members().lost() >> it & 1 == 1);
        may_lose(layer) > u32::from(!knows)
    }
}

/// How many devices a layer can do without beside those that it does without already.
pub(crate) fn may_lose(layer: &AnyLayer) -> u32 {
    layer.gauges().map_or(0, |gauges| gauges.may_lose)
}

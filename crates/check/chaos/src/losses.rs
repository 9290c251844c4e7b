//! Successive losses: when a layer has restored its redundancy after a loss, the next victim is
//! chosen.
//!
//! Invariant: the victim fails only while the layer reports that it can lose it, or after it has
//! failed already. Earlier victims never return.

use hostftl_core::{AdminCommand, BLOCK, DeviceSet, Gauges, HostError, Layer, MetaBuf, SECTOR};
use hostftl_layers::{AnyLayer, Mode};

use crate::disk::Survival;
use crate::draw::fate::Fate;
use crate::draw::members::{self, Presence, Replacement};
use crate::events::Named;
use crate::second_victim::may_lose;
use crate::workload::Kind;
use crate::world::World;

/// Maximum number of blocks in flight to a layer's devices; as many may have been acknowledged
/// since.
const WRITES: u64 = 256;

impl World {
    /// Prepares a life that starts in `mode`: adds, removes and hides devices.
    pub(crate) fn choose_missing(&mut self, mode: Mode) {
        self.change_members(mode);
        self.replace(mode);
        self.config.members.missing = self.buried;
        // A cancellation that the superblocks do not record is not expected to hold.
        self.stays -= self.config.members.leaving;
        self.refused_for_now = false;
        self.renew_journal(mode);
        self.miss_journal(mode);
        let Some(victim) = self.swarm.victim.filter(|_| mode == Mode::Open) else { return };
        let (was_stale, is_secure) = (self.is_victim_stale, self.secure.victim);
        let drawn = members::presence(&mut self.dice, &self.swarm, was_stale, is_secure);
        let Presence { is_missing, is_stale } = drawn;
        if is_missing {
            self.config.members.missing.insert(victim);
            self.is_victim_stale = true;
            self.tallies.note(Named::Degraded);
        }
        self.tallies.note_if(is_stale, Named::Returned);
        self.miss_second(mode);
    }

    /// Chooses whether a device replaces a lost one, before a life that starts in `mode`. It stays
    /// in `fresh` until the layer trusts it.
    pub(crate) fn replace(&mut self, mode: Mode) {
        let can = mode == Mode::Open;
        let Some(victim) = self.swarm.victim.filter(|_| can) else { return };
        let lost = self.buried | DeviceSet::single_if(self.is_victim_stale, victim);
        let (lost, fresh) = (lost - self.config.members.removed, self.config.members.fresh);
        for (device, how) in members::replacements(&mut self.dice, lost, fresh, victim) {
            if how == Replacement::New {
                self.put_new(device);
                self.tallies.note(Named::Replaced);
                continue;
            }
            self.config.members.fresh.insert(device);
            self.config.members.returning.insert(device);
            self.is_victim_stale = false;
            self.secure.victim = false;
            self.tallies.note(Named::CameBack);
        }
    }

    /// Puts an empty device in the place of a lost one, recorded in the superblocks.
    fn put_new(&mut self, device: u8) {
        let at = usize::from(device);
        let (size, swarm) = (self.infos[at].sectors, &self.swarm);
        self.machine.disks[at].reset(size, swarm.volatile, swarm.destage, self.segments);
        let members = &mut self.config.members;
        members.fresh.insert(device);
        members.returning.remove(device);
        members.leaving.remove(device);
        self.buried.remove(device);
        self.is_victim_stale &= self.swarm.victim != Some(device);
        self.swarm.second_victim = self.swarm.second_victim.filter(|second| *second != device);
        self.secure.victim = false;
        if self.trace {
            eprintln!("{} device {device} is replaced", self.steps);
        }
    }

    /// Chooses a lost device to replace while the volume is served; `None` while commands to it are
    /// in flight.
    pub(crate) fn choose_to_replace(
        &mut self,
        layer: &AnyLayer,
        is_busy: impl Fn(u8) -> bool,
    ) -> Option<u8> {
        let may = self.swarm.online_changes;
        let others = self.config.members.removed | self.journal_device();
        let lost = layer.members().lost() - (others | layer.members().coming());
        let lost = (lost & self.devices()).first()?;
        (may && !is_busy(lost) && self.dice.chance(20)).then_some(lost)
    }

    /// Replaces a device that a running layer has lost by an empty one, or brings it back with its
    /// contents. It may die again. Returns the command for the layer.
    pub(crate) fn put_online(&mut self, device: u8, fate: &mut Fate) -> AdminCommand {
        // Zones cannot be continued while the volume is served.
        let back = self.segments.is_none() && self.swarm.victim == Some(device);
        let comes_back = back && self.dice.chance(400);
        let command = if comes_back { self.put_back(device) } else { self.put_new_online(device) };
        self.config.members.missing.remove(device);
        if self.swarm.victim == Some(device) {
            fate.draw_for_next_victim(&mut self.dice);
        }
        command
    }

    fn put_new_online(&mut self, device: u8) -> AdminCommand {
        self.put_new(device);
        let at = usize::from(device);
        // The epochs of the new device start at 0.
        for epochs in [&mut self.epochs, &mut self.known] {
            epochs.get_mut(at).into_iter().for_each(|epoch| *epoch = 0);
        }
        self.tallies.note(Named::ReplacedOnline);
        AdminCommand::Replaced { device, discard: self.infos[at].discard }
    }

    /// Brings a lost device back. It may have lost power, and with it its cache.
    fn put_back(&mut self, device: u8) -> AdminCommand {
        let at = usize::from(device);
        let survival = if self.dice.chance(500) { Survival::Everything } else { Survival::Nothing };
        self.machine.disks[at].cut(survival, &mut self.dice);
        self.config.members.fresh.insert(device);
        self.config.members.returning.insert(device);
        (self.is_victim_stale, self.secure.victim) = (false, false);
        self.tallies.note(Named::CameBackOnline);
        let disk = &self.machine.disks[at];
        let mut read = |lba: u64, buf: &mut MetaBuf| {
            let sectors = (buf.pages().len() * BLOCK / SECTOR) as u32;
            let bytes = disk.read(lba, sectors);
            let pages = buf.pages_mut().iter_mut().zip(bytes.unwrap_or(&[]).chunks(BLOCK));
            pages.for_each(|(page, bytes)| page.0.copy_from_slice(bytes));
            bytes.is_some()
        };
        let roots = self.config.kind.registration().promises.roots.expect("members of it change");
        let has = (roots.last_on)(&self.config, &self.infos, device, &mut read);
        AdminCommand::Returned { device, has: has.expect("it was planned on these devices") }
    }

    /// After a durable root, removes from `fresh` the devices that the root trusts.
    pub(crate) fn observe_fresh(&mut self, layer: &AnyLayer, fate: &mut Fate) {
        // A device that is missing again has not joined: it is still joining, or was removed.
        let others = layer.members().coming() | layer.members().lost() | layer.members().removed();
        let joined = self.config.members.fresh - others;
        self.config.members.fresh -= joined;
        let returned = self.config.members.returning & joined;
        self.config.members.returning -= joined;
        self.tallies.note_if(!joined.is_empty(), Named::Joined);
        // A device that returned may have undetected damage, so it stays the victim; a new one does
        // not.
        let faults = &self.swarm.faults;
        let rots = faults.read_error || faults.metadata_rot || faults.log_rot || faults.data_rot;
        let may_be_damaged = rots || faults.lost || faults.misdirected || faults.stale;
        let new = if may_be_damaged { joined - returned } else { joined };
        let of_victim = self.swarm.victim.is_some_and(|it| new.contains(it));
        if of_victim && layer.members().lost().is_within(self.buried) {
            self.choose_next_victim(new, fate);
        }
    }

    /// Records that the victim missed writes, so that it is no longer up to date.
    pub(crate) fn is_victim_stale(&mut self) {
        let new =
            self.swarm.victim.is_some() && !std::mem::replace(&mut self.is_victim_stale, true);
        self.is_victim_stale = self.swarm.victim.is_some();
        self.tallies.note_if(new && !self.buried.is_empty(), Named::SecondLoss);
    }

    /// Returns whether the remaining devices may be too small for the exported size. This is only
    /// possible after several losses.
    pub(crate) fn is_too_small(&self, kind: Kind, error: HostError) -> bool {
        let changes = matches!(kind, Kind::Write | Kind::Trim | Kind::Zeroes);
        // A device in removal takes its space with it.
        let leaves = self.config.members.leaving;
        let shrinks = !self.buried.is_empty() || !leaves.is_empty();
        changes && error == HostError::NoSpace && shrinks
    }

    /// After a durable root, lets another device fail from now on, if the layer can lose it.
    pub(crate) fn bury(&mut self, layer: &AnyLayer, fate: &mut Fate) {
        let Some(victim) = self.swarm.victim else { return };
        let lost = layer.members().lost().contains(victim);
        // A failed zone stays offline, even when the layer cannot lose its device any more.
        let stays = self.segments.is_some() && self.swarm.faults.bad_segment;
        if !lost || stays || may_lose(layer) == 0 {
            return;
        }
        self.buried.insert(victim);
        self.tallies.note(Named::Protected);
        self.choose_next_victim(DeviceSet::single(victim), fate);
    }

    /// Handles a scrub that verified all valid data without remaining faults. All earlier damage is
    /// repaired, so another device may be damaged.
    pub(crate) fn scrubbed(&mut self, layer: &AnyLayer, fate: &mut Fate) {
        let Some(victim) = self.swarm.victim.filter(|_| self.swarm.journal.is_none()) else {
            return;
        };
        if self.swarm.faults.concern_data_only() && !self.is_victim_stale && may_lose(layer) > 0 {
            self.tallies.note(Named::ScrubThenNext);
            self.choose_next_victim(DeviceSet::single(victim), fate);
        }
    }

    /// Records before a step whether the volume is nearly full: trims of the step may free space
    /// after it has refused a write.
    pub(crate) fn observe_room(&mut self, layer: &AnyLayer) {
        self.was_full = self.config.log.logical_size.is_some() && is_nearly_full(layer);
    }

    /// Returns whether a volume that exports more than fits had no space for a write.
    pub(crate) fn is_out_of_room(&self, kind: Kind, error: HostError, layer: &AnyLayer) -> bool {
        let is_full = || self.was_full || is_nearly_full(layer);
        kind == Kind::Write && error == HostError::NoSpace && is_full()
    }

    /// Selects another device for faults, which is not in `spared`.
    pub(crate) fn choose_next_victim(&mut self, spared: DeviceSet, fate: &mut Fate) {
        let out = self.buried | spared | self.swarm.second_victim.into_iter().collect();
        let all = self.devices() - self.journal_device();
        let Some(next) = members::pick_one(&mut self.dice, all - out) else { return };
        (self.swarm.victim, self.is_victim_stale, self.secure.victim) = (Some(next), false, false);
        self.victims.insert(next);
        if self.trace {
            eprintln!("{} the next victim is device {next}", self.steps);
        }
        fate.draw_for_next_victim(&mut self.dice);
    }

    /// Updates whether the layer can lose the next victim. When the host leaves no space, stripes
    /// again include lost devices, with missing chunks.
    pub(crate) fn observe_protection(&mut self, layer: &AnyLayer) {
        let changed = !(self.buried | self.config.members.fresh).is_empty() || !self.secure.victim;
        if changed && !self.is_victim_stale {
            self.secure.victim = may_lose(layer) > u32::from(self.swarm.second_victim.is_some());
        }
        self.secure.second = self.swarm.second_victim.is_some()
            && if self.is_victim_stale { self.second_is_secure(layer) } else { self.secure.victim };
    }
}

/// Returns whether a volume that exports more than fits may lack space for the data in flight.
fn is_nearly_full(layer: &AnyLayer) -> bool {
    let near = |gauges: Gauges| {
        gauges.valid_limit > 0 && gauges.valid + WRITES * BLOCK as u64 > gauges.valid_limit
    };
    layer.gauges().is_some_and(near)
}

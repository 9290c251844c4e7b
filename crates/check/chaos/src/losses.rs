//! One loss after the other: when a layer made itself able to lose another device, the next one is
//! chosen.
//!
//! Invariant: the victim fails only while the layer says that it can do without it, or since it has
//! failed already. Earlier victims never come back.

use hostftl_core::{BLOCK, Gauges, HostError, Layer, MetaBuf, SECTOR, Verb};
use hostftl_layers::{AnyLayer, Mode};

use crate::disk::Survival;
use crate::draw::fate::Fate;
use crate::draw::members::{self, Presence, Replacement};
use crate::events::Named;
use crate::second::may_lose;
use crate::workload::Kind;
use crate::world::World;

/// So many blocks may be on their way to a layer's devices at once, and as many be answered since.
const WRITES: u64 = 256;

impl World {
    /// Prepares a life that begins in `mode`: devices come, leave and are missing.
    pub(crate) fn choose_missing(&mut self, mode: Mode) {
        self.change_members(mode);
        self.replace(mode);
        self.config.members.missing = self.buried;
        // What the superblocks do not know yet of one that stays is forgotten.
        self.stays &= !self.config.members.leaving;
        self.refused_for_now = false;
        self.renew_journal(mode);
        self.miss_journal(mode);
        let Some(victim) = self.swarm.victim.filter(|_| mode == Mode::Open) else { return };
        let (is_gone, is_secure) = (self.gone, self.secure.victim);
        let drawn = members::presence(&mut self.dice, &self.swarm, is_gone, is_secure);
        let Presence { is_missing, is_stale } = drawn;
        if is_missing {
            self.config.members.missing |= 1 << victim;
            self.gone = true;
            self.tallies.note(Named::Degraded);
        }
        self.tallies.note_if(is_stale, Named::Returned);
        self.miss_second(mode);
    }

    /// Chooses whether a device comes in the place of one that is lost, before a life that begins
    /// in `mode`. It stays fresh until the layer believes it.
    pub(crate) fn replace(&mut self, mode: Mode) {
        let can = mode == Mode::Open;
        let Some(victim) = self.swarm.victim.filter(|_| can) else { return };
        let lost = self.buried | if self.gone { 1 << victim } else { 0 };
        let (lost, fresh) = (lost & !self.config.members.gone, self.config.members.fresh);
        for (device, how) in members::replacements(&mut self.dice, lost, fresh, victim) {
            if how == Replacement::New {
                self.put_new(device);
                self.tallies.note(Named::Replaced);
                continue;
            }
            self.config.members.fresh |= 1 << device;
            self.config.members.returning |= 1 << device;
            self.gone = false;
            self.secure.victim = false;
            self.tallies.note(Named::CameBack);
        }
    }

    /// Another device, which holds nothing, is in the place of one that is lost: the superblocks
    /// say so.
    fn put_new(&mut self, device: u8) {
        let (bit, at) = (1 << device, usize::from(device));
        let (size, swarm) = (self.infos[at].sectors, &self.swarm);
        self.machine.disks[at].reset(size, swarm.volatile, swarm.destage, self.segments);
        let members = &mut self.config.members;
        (members.fresh, members.returning) = (members.fresh | bit, members.returning & !bit);
        members.leaving &= !bit;
        self.buried &= !bit;
        self.gone &= self.swarm.victim != Some(device);
        self.swarm.second = self.swarm.second.filter(|second| *second != device);
        self.secure.victim = false;
        if self.trace {
            eprintln!("{} device {device} is replaced", self.steps);
        }
    }

    /// The lost device that may be replaced while the volume is served; none while commands to it
    /// are under way.
    pub(crate) fn choose_to_replace(
        &mut self,
        layer: &AnyLayer,
        is_busy: impl Fn(u8) -> bool,
    ) -> Option<u8> {
        let may = self.swarm.live_changes;
        let others = self.config.members.gone | self.journal_bit();
        let lost = layer.members().lost() & !(others | layer.members().coming());
        let lost = (0..self.swarm.devices as u8).find(|device| lost >> device & 1 == 1)?;
        (may && !is_busy(lost) && self.dice.chance(20)).then_some(lost)
    }

    /// A device comes in the place of one that a layer has lost that goes on: another, which holds
    /// nothing, or the same, with what it had. It may die again. What the layer is to be told.
    pub(crate) fn put_live(&mut self, device: u8, fate: &mut Fate) -> Verb {
        // What is in zones can't be gone on with while the volume is served.
        let back = self.segments.is_none() && self.swarm.victim == Some(device);
        let comes_back = back && self.dice.chance(400);
        let verb = if comes_back { self.put_back(device) } else { self.put_new_live(device) };
        self.config.members.missing &= !(1 << device);
        if self.swarm.victim == Some(device) {
            fate.draw_for_next_victim(&mut self.dice);
        }
        verb
    }

    fn put_new_live(&mut self, device: u8) -> Verb {
        self.put_new(device);
        let at = usize::from(device);
        // What is durable there, is so from now on.
        for epochs in [&mut self.epochs, &mut self.known] {
            epochs.get_mut(at).into_iter().for_each(|epoch| *epoch = 0);
        }
        self.tallies.note(Named::ReplacedLive);
        Verb::Replaced { device, discard: self.infos[at].discard }
    }

    /// It may have been without power, and may lack what it had not made durable.
    fn put_back(&mut self, device: u8) -> Verb {
        let (bit, at) = (1 << device, usize::from(device));
        let survival = if self.dice.chance(500) { Survival::Everything } else { Survival::Nothing };
        self.machine.disks[at].cut(survival, &mut self.dice);
        self.config.members.fresh |= bit;
        self.config.members.returning |= bit;
        (self.gone, self.secure.victim) = (false, false);
        self.tallies.note(Named::CameBackLive);
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
        Verb::Returned { device, has: has.expect("it was planned on these devices") }
    }

    /// A root is durable: whoever it lets everybody believe is not fresh any more.
    pub(crate) fn look_at_fresh(&mut self, layer: &AnyLayer, fate: &mut Fate) {
        // One that is missing again has not joined: it is still to come, or has left.
        let others = layer.members().coming() | layer.members().lost() | layer.members().removed();
        let joined = self.config.members.fresh & !others;
        self.config.members.fresh &= !joined;
        let returned = self.config.members.returning & joined;
        self.config.members.returning &= !joined;
        self.tallies.note_if(joined != 0, Named::Joined);
        // Another victim may have damage that nobody has found yet.
        // What came back may have damage that nobody has found yet: then it stays the victim.
        let faults = &self.swarm.faults;
        let rots = faults.read_error || faults.metadata_rot || faults.log_rot || faults.data_rot;
        let may_be_damaged = rots || faults.lost || faults.misdirected || faults.stale;
        let new = if may_be_damaged { joined & !returned } else { joined };
        let of_victim = self.swarm.victim.is_some_and(|it| new >> it & 1 == 1);
        if of_victim && layer.members().lost() & !self.buried == 0 {
            self.choose_next_victim(new, fate);
        }
    }

    /// The victim missed something, so that it does not belong to the volume any more.
    pub(crate) fn victim_is_gone(&mut self) {
        let new = self.swarm.victim.is_some() && !std::mem::replace(&mut self.gone, true);
        self.gone = self.swarm.victim.is_some();
        self.tallies.note_if(new && self.buried != 0, Named::SecondLoss);
    }

    /// Whether what is left of the devices is too small for all that the volume exports: after one
    /// loss it never is.
    pub(crate) fn is_too_small(&self, kind: Kind, error: HostError) -> bool {
        let changes = matches!(kind, Kind::Write | Kind::Trim | Kind::Zeroes);
        // What is to leave takes its room along.
        let leaves = self.config.members.leaving;
        let shrinks = self.buried != 0 || leaves != 0;
        changes && error == HostError::NoSpace && shrinks
    }

    /// A root is durable: another device may fail from now on, if the layer can do without it.
    pub(crate) fn bury(&mut self, layer: &AnyLayer, fate: &mut Fate) {
        let Some(victim) = self.swarm.victim else { return };
        let lost = layer.members().lost() >> victim & 1 == 1;
        // A zone that failed stays so, also when the layer can't do without its device any more.
        let stays = self.segments.is_some() && self.swarm.faults.bad_segment;
        if !lost || stays || may_lose(layer) == 0 {
            return;
        }
        self.buried |= 1 << victim;
        self.tallies.note(Named::Protected);
        self.choose_next_victim(1 << victim, fate);
    }

    /// A scrub went through all that lives, and left nothing wrong: what was harmed before it began
    /// is mended, so another device may be harmed.
    pub(crate) fn scrubbed(&mut self, layer: &AnyLayer, fate: &mut Fate) {
        let Some(victim) = self.swarm.victim.filter(|_| self.swarm.journal.is_none()) else {
            return;
        };
        if self.swarm.faults.are_of_data_alone() && !self.gone && may_lose(layer) > 0 {
            self.tallies.note(Named::ScrubThenNext);
            self.choose_next_victim(1 << victim, fate);
        }
    }

    /// Before a step: trims that it ends make room, and what it refused before had none.
    pub(crate) fn look_at_room(&mut self, layer: &AnyLayer) {
        self.was_full = self.config.log.logical_size.is_some() && is_nearly_full(layer);
    }

    /// Whether a volume that exports more than fits has no room for a write, or had none.
    pub(crate) fn is_out_of_room(&self, kind: Kind, error: HostError, layer: &AnyLayer) -> bool {
        let is_full = || self.was_full || is_nearly_full(layer);
        kind == Kind::Write && error == HostError::NoSpace && is_full()
    }

    /// From now on faults happen to another device, which is not one of `spared`.
    pub(crate) fn choose_next_victim(&mut self, spared: u16, fate: &mut Fate) {
        let out = self.buried | spared | self.swarm.second.map_or(0, |second| 1 << second);
        let all = ((1_u32 << self.swarm.devices) - 1) as u16 & !self.journal_bit();
        let Some(next) = members::one_of(&mut self.dice, all & !out) else { return };
        (self.swarm.victim, self.gone, self.secure.victim) = (Some(next), false, false);
        self.victims |= 1 << next;
        if self.trace {
            eprintln!("{} the next victim is device {next}", self.steps);
        }
        fate.draw_for_next_victim(&mut self.dice);
    }

    /// Looks whether the layer can still do without the next victim: when what the host writes
    /// leaves no room, rows go to lost devices again.
    pub(crate) fn look_at_protection(&mut self, layer: &AnyLayer) {
        let changed = (self.buried | self.config.members.fresh) != 0 || !self.secure.victim;
        if changed && !self.gone {
            self.secure.victim = may_lose(layer) > u32::from(self.swarm.second.is_some());
        }
        self.secure.second = self.swarm.second.is_some()
            && if self.gone { self.second_is_secure(layer) } else { self.secure.victim };
    }
}

/// Whether what is on its way may not fit any more into a volume that exports more than fits.
fn is_nearly_full(layer: &AnyLayer) -> bool {
    let near = |gauges: Gauges| {
        gauges.most_live > 0 && gauges.live + WRITES * BLOCK as u64 > gauges.most_live
    };
    layer.gauges().is_some_and(near)
}

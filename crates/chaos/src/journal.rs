//! The journal's device of a log, and lives without it.

use hostftl_core::DeviceInfo;
use hostftl_layers::{LayerKind, Mode};

use crate::copies::Copied;
use crate::dice::Dice;
use crate::events::Named;
use crate::matrix::{Claims, Row};
use crate::swarm::{Faults, Swarm};
use crate::world::World;

/// Chooses whether a log has a journal, on what device, and whether faults happen to it alone.
///
/// # Errors
/// When SEMANTICS.md does not admit the run.
pub fn choose(
    seed: u64,
    layer: LayerKind,
    swarm: &mut Swarm,
    claims: &mut Claims,
) -> Result<Option<DeviceInfo>, String> {
    let mut dice = Dice::new(!seed, layer as u64);
    if !dice.chance(layer.registration().chaos.journal) {
        return Ok(None);
    }
    let journal = swarm.devices as u8;
    swarm.journal = Some(journal);
    if swarm.parity == 0 && dice.chance(950) {
        swarm.mortal = Some(journal);
        *claims = Claims::of_journal(layer)?;
        swarm.faults = Faults::of(claims, &mut dice);
        swarm.faults.stale |= claims.admits(Row::StaleDevice) && dice.chance(400);
        swarm.deadline = if swarm.faults.hang { 1 << 40 } else { 0 };
    }
    if dice.chance(600) {
        swarm.mix[4] = dice.pick(&[5, 20, 60]);
    }
    let unit = dice.pick(&[1, 8, 8, 16]);
    let slots = dice.pick(&[4, 5, 6, 8, 12, 30, 80, 80]);
    let slot = u64::from((32 + swarm.superpage).next_multiple_of(unit));
    let mut info = DeviceInfo::block(slots * slot + dice.below(slot), unit);
    info.volatile_cache = swarm.volatile;
    Ok(Some(info))
}

/// In so many of a thousand clean stops another device comes in the place of the journal's.
const RENEWED: u32 = 80;
/// Keeps the dice for that apart from all others.
const SALT: u64 = 0x6a6f_7572;

impl World {
    /// Chooses whether an empty device comes in the place of the journal's: what was stopped
    /// cleanly needs nothing of the old one.
    pub(crate) fn renew_journal(&mut self, mode: Mode) {
        let Some(journal) = self.swarm.journal.filter(|_| mode == Mode::Open) else { return };
        let mut dice = Dice::new(self.volume ^ self.steps, SALT);
        if !self.clean || self.has_copy() || !dice.chance(RENEWED) {
            return;
        }
        let (swarm, at) = (&self.swarm, usize::from(journal));
        let sectors = self.infos[at].sectors;
        self.machine.disks[at].reset(sectors, swarm.volatile, swarm.destage, None);
        if self.to_copy() == Some(journal) {
            self.copied = Copied::Not; // What was remembered is of the old one.
        }
        self.tallies.note(Named::JournalReplaced);
    }

    /// Chooses whether the journal is missing from a life that begins in `mode`.
    pub(crate) fn miss_journal(&mut self, mode: Mode) {
        let Some(journal) = self.swarm.journal.filter(|_| mode == Mode::Open) else { return };
        let mortal = self.swarm.mortal == Some(journal) && self.swarm.faults.dead;
        if mortal && self.dice.chance(150) {
            self.config.members.missing |= 1 << journal;
            self.tallies.note(Named::JournalAway);
        }
    }

    /// The journal is there.
    pub(crate) fn bring_journal(&mut self) {
        if let Some(journal) = self.swarm.journal {
            self.config.members.missing &= !(1 << journal);
        }
        self.bring_true_device();
    }

    /// The journal's bit in a set of devices.
    pub(crate) fn journal_bit(&self) -> u16 {
        self.swarm.journal.map_or(0, |journal| 1 << journal)
    }

    /// A volume that is made anew has its journal behind all other devices: those that came behind
    /// that are no part of it.
    pub(crate) fn keep_journal_behind(&mut self) {
        let Some(journal) = self.swarm.journal else { return };
        let is_part = |device: &u8| *device < journal;
        let swarm = &mut self.swarm;
        swarm.devices = journal.into();
        swarm.victim = swarm.victim.map(|victim| if is_part(&victim) { victim } else { 0 });
        swarm.second = swarm.second.filter(|it| is_part(it) && Some(*it) != swarm.victim);
        self.infos.truncate(usize::from(journal) + 1);
        self.machine.disks.truncate(self.infos.len());
    }

    /// The journal's device, if it may die, and no other.
    pub(crate) fn mortal_journal(&self) -> Option<u8> {
        self.swarm.mortal.filter(|_| self.swarm.mortal == self.swarm.journal)
    }

    /// A volume may be refused without its journal, unless it was stopped cleanly, and when the
    /// journal did not answer before it died.
    ///
    /// # Errors
    /// When it may not.
    pub(crate) fn refused_without_journal(&mut self, hung_once: bool) -> Result<(), String> {
        if self.clean && !hung_once {
            return Err(
                "refused without its journal, which a clean stop did not leave needed".into()
            );
        }
        self.tallies.note(Named::JournalNeeded);
        self.clean = false;
        self.refused_for_now = true;
        Ok(())
    }
}

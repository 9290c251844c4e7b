//! The journal's device of a log, and lives without it.

use hostftl_layers::Mode;

use crate::dice::Dice;
use crate::draw::copies::Copied;
use crate::events::Named;
use crate::world::World;

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

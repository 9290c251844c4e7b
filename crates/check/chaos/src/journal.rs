//! Journal device of a log, and lives without it.

use hostftl_core::DeviceSet;
use hostftl_layers::Mode;

use crate::dice::Dice;
use crate::draw::copies::Copied;
use crate::events::Named;
use crate::world::World;

/// Number of clean stops in a thousand after which another device replaces the journal's.
const RENEWED: u32 = 80;
/// Separates the dice of this choice from all others.
const SALT: u64 = 0x6a6f_7572;

impl World {
    /// Chooses whether an empty device replaces the journal's. After a clean stop, no data of the
    /// old one is needed.
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

    /// Chooses whether the journal is missing from a life that starts in `mode`.
    pub(crate) fn miss_journal(&mut self, mode: Mode) {
        let Some(journal) = self.swarm.journal.filter(|_| mode == Mode::Open) else { return };
        let mortal = self.swarm.mortal == Some(journal) && self.swarm.faults.device_failure;
        if mortal && self.dice.chance(150) {
            self.config.members.missing.insert(journal);
            self.tallies.note(Named::JournalAway);
        }
    }

    /// Makes the journal present again.
    pub(crate) fn bring_journal(&mut self) {
        if let Some(journal) = self.swarm.journal {
            self.config.members.missing.remove(journal);
        }
        self.bring_true_device();
    }

    /// Returns the set of the journal's device, which is empty without a journal.
    pub(crate) fn journal_device(&self) -> DeviceSet {
        self.swarm.journal.into_iter().collect()
    }

    /// Returns all devices.
    pub(crate) fn devices(&self) -> DeviceSet {
        DeviceSet::first_n(self.swarm.devices as usize)
    }

    /// Restores the order for formatting, with the journal behind all other devices; devices added
    /// behind it are dropped.
    pub(crate) fn keep_journal_behind(&mut self) {
        let Some(journal) = self.swarm.journal else { return };
        let is_part = |device: &u8| *device < journal;
        let swarm = &mut self.swarm;
        swarm.devices = journal.into();
        swarm.victim = swarm.victim.map(|victim| if is_part(&victim) { victim } else { 0 });
        swarm.second_victim =
            swarm.second_victim.filter(|it| is_part(it) && Some(*it) != swarm.victim);
        self.infos.truncate(usize::from(journal) + 1);
        self.machine.disks.truncate(self.infos.len());
    }

    /// Returns the journal's device, if it is the only one that may die.
    pub(crate) fn mortal_journal(&self) -> Option<u8> {
        self.swarm.mortal.filter(|_| self.swarm.mortal == self.swarm.journal)
    }

    /// Accepts that a volume is refused without its journal, unless it was stopped cleanly. After a
    /// clean stop, a journal that timed out before it died is still an excuse.
    pub(crate) fn refused_without_journal(&mut self, timed_out_once: bool) -> Result<(), String> {
        if self.clean && !timed_out_once {
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

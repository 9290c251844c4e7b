//! The journal's device of a log, lives without it, and lives with an older copy of it.

use hostftl_core::{Command, DeviceInfo};
use hostftl_layers::{LayerKind, Mode};

use crate::dice::Dice;
use crate::events::Named;
use crate::life::{End, Life, Phase};
use crate::matrix::{Claims, Row};
use crate::swarm::{Faults, Swarm};
use crate::world::World;

/// What is known of the copy of the journal's device that was made last.
///
/// A copy is put in the place of the device only when it is the same, or when a layer must notice
/// that it is not: it lacks the beginning of a life that was ready since, or a record that was
/// durable before a root was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// There is none.
    Not,
    /// It lacks nothing that a layer must miss.
    Early,
    /// It lacks a record that is durable, since when so many roots were.
    Lacking(u32),
    /// It may come in the place of the device.
    Known,
    /// It is in the place of the device.
    Here,
}

impl Copied {
    /// A root is durable: the second one was begun after the first.
    pub(crate) fn root_done(&mut self) {
        *self = match *self {
            Copied::Lacking(0) => Copied::Lacking(1),
            Copied::Lacking(_) => Copied::Known,
            other => other,
        }
    }

    /// A life is ready.
    pub(crate) fn life_begun(&mut self) {
        if matches!(self, Copied::Early | Copied::Lacking(_)) {
            *self = Copied::Known;
        }
    }
}

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
    if layer != LayerKind::Log || !dice.chance(400) {
        return Ok(None);
    }
    let journal = swarm.devices as u8;
    swarm.journal = Some(journal);
    if !swarm.parity && dice.chance(700) {
        swarm.mortal = Some(journal);
        *claims = Claims::of_journal()?;
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

impl World {
    /// Chooses whether the journal is missing from a life that begins in `mode`.
    pub(crate) fn miss_journal(&mut self, mode: Mode) {
        let Some(journal) = self.swarm.journal.filter(|_| mode == Mode::Open) else { return };
        let mortal = self.swarm.mortal == Some(journal) && self.swarm.faults.dead;
        if mortal && self.dice.chance(150) {
            self.config.missing = 1 << journal;
            self.tallies.note(Named::JournalAway);
        }
    }

    /// The journal is there.
    pub(crate) fn bring_journal(&mut self) {
        if let Some(journal) = self.swarm.journal {
            self.config.missing &= !(1 << journal);
            self.bring_true_journal(journal);
        }
    }

    fn bring_true_journal(&mut self, journal: u8) {
        if self.has_copy() {
            self.machine.disks[usize::from(journal)].exchange();
            self.copied = Copied::Not;
        }
    }

    /// Whether an older copy is in the place of the journal's device.
    fn has_copy(&self) -> bool {
        self.copied == Copied::Here
    }

    /// The journal's device, where copies of it may come.
    fn journal_to_copy(&self) -> Option<u8> {
        self.swarm
            .mortal
            .filter(|_| self.swarm.faults.stale && self.swarm.mortal == self.swarm.journal)
    }

    /// Before a life: puts a copy in the place of the journal's device, or makes one. What a first
    /// life made before it was cut off is made again alike: a copy of that would be no older one.
    pub(crate) fn exchange_journal(&mut self, mode: Mode) {
        let Some(journal) = self.journal_to_copy().filter(|_| mode == Mode::Open) else { return };
        let disk = &mut self.machine.disks[usize::from(journal)];
        match self.copied {
            Copied::Known if disk.differs() && self.dice.chance(400) => {
                disk.exchange();
                self.copied = Copied::Here;
                self.tallies.note(Named::JournalCopied);
            }
            Copied::Here => {}
            Copied::Not => {
                disk.remember();
                self.copied = Copied::Known;
            }
            _ if self.dice.chance(300) => self.copied = Copied::Not,
            _ => {}
        }
    }
}

impl Life<'_> {
    /// Whether the journal is missing, or does not answer any more.
    pub(crate) fn lacks_journal(&self) -> bool {
        let mortal = self.w.swarm.mortal.filter(|_| self.w.swarm.mortal == self.w.swarm.journal);
        mortal.is_some_and(|journal| self.is_dead(journal))
    }

    /// A command is over: what does the copy of the journal's device lack, and is it the time for
    /// another one?
    pub(crate) fn follow_journal(&mut self, command: &Command, went_well: bool) {
        let Some(journal) = self.w.journal_to_copy() else { return };
        if command.device() != Some(journal) || !went_well {
            return;
        }
        let disk = &mut self.w.machine.disks[usize::from(journal)];
        match (self.w.copied, command) {
            // The layer has taken it for the device.
            (Copied::Here, Command::Program { .. }) => self.w.copied = Copied::Not,
            (Copied::Early, Command::Flush { .. }) if disk.differs() => {
                self.w.copied = Copied::Lacking(0);
            }
            (Copied::Not | Copied::Known, _)
                if self.phase == Phase::Ready && self.w.dice.chance(20) =>
            {
                disk.remember();
                self.w.copied = Copied::Early;
            }
            _ => {}
        }
    }

    /// Whether an older copy of the journal is all that is wrong.
    pub(crate) fn has_copy(&self) -> bool {
        self.w.has_copy() && self.errors == 0
    }

    /// A volume is refused with an older copy of its journal, unless it was stopped cleanly.
    pub(crate) fn refused_with_copy(&mut self) {
        if self.w.clean {
            self.fail("refused with an older journal, which a clean stop left unneeded".into());
        }
        self.w.tallies.note(Named::JournalStale);
        self.w.refused_for_now = true;
        self.w.bring_true_journal(self.w.swarm.journal.expect("it has a copy"));
        self.phase = Phase::Over(End::Refused);
    }

    /// A volume may be refused without its journal, unless it was stopped cleanly, and when the
    /// journal did not answer before it died.
    pub(crate) fn refused_without_journal(&mut self) {
        if self.w.clean && !self.hung_once {
            self.fail(
                "refused without its journal, which a clean stop did not leave needed".into(),
            );
        }
        self.w.tallies.note(Named::JournalNeeded);
        self.w.clean = false;
        self.w.refused_for_now = true;
        self.phase = Phase::Over(End::Refused);
    }
}

//! Requests of an operator to a running layer, and checks of their results.

use hostftl_core::{AdminCommand, AdminOutcome, Layer, Refusal, Scrub, TaskEnd, TaskKind};

use super::Life;
use crate::draw::admin;
use crate::events::Named;

impl Life<'_> {
    /// Makes a request of an operator.
    pub(super) fn operate(&mut self) {
        // Where two devices are lost at a time, a scrub would rarely complete.
        let goes_on = self.w.swarm.is_stress && self.w.swarm.parity > 1;
        let command = admin::draw(&mut self.w.dice, goes_on);
        self.w.observe("", || format!("{command:?}"));
        self.w.tallies.note(Named::AdminCommand);
        let had_none = self.layer.tasks().iter().all(|task| task.kind != TaskKind::Scrub);
        let answer = self.layer.operate(command);
        let works = !self.layer.has_failed();
        match (command, answer) {
            (AdminCommand::Scrub(Scrub::Start(place)), Ok(AdminOutcome::Started)) if had_none => {
                (self.scrubs_all, self.roots_of_scrub) = (place == 0, 0);
            }
            (AdminCommand::Scrub(Scrub::Start(_)), Err(_)) if had_none && works => {
                self.expect(Err(format!("{command:?} was answered {answer:?}")));
            }
            (_, Err(Refusal::Unable)) => self.expect(Err(format!("{command:?} can't be done"))),
            _ => {}
        }
    }

    /// May replace a lost device while the volume is served. The superblocks record it first, and
    /// the power may be cut before the layer is notified. Returns whether it was replaced.
    pub(super) fn replace_online(&mut self) -> bool {
        let flights = &self.flights;
        let is_busy = |device| flights.any_to(device);
        let Some(device) = self.w.choose_to_replace(&self.layer, is_busy) else { return false };
        match self.layer.operate(AdminCommand::MayReplace(device)) {
            Ok(AdminOutcome::Started) => {}
            Ok(AdminOutcome::NoChange) | Err(Refusal::Because(_) | Refusal::Damaged(_)) => {
                return false;
            }
            answer => {
                self.expect(Err(format!("device {device} may be replaced: {answer:?}")));
                return false;
            }
        }
        let command = self.w.put_online(device, &mut self.fate);
        if self.w.dice.chance(200) && self.fate.cut_now(self.steps) {
            return false;
        }
        self.w.observe("", || format!("{command:?}"));
        let answer = self.layer.operate(command);
        if answer != Ok(AdminOutcome::Started) {
            self.expect(Err(format!("{command:?} was answered {answer:?}")));
        }
        true
    }

    /// Checks the end of a scrub that found `beyond` blocks that cannot be rebuilt and repaired
    /// `mended` stripes.
    pub(super) fn scrub_over(
        &mut self,
        end: TaskEnd,
        beyond: u64,
        mended: u64,
    ) -> Result<(), String> {
        let w = &mut *self.w;
        let harmed = !w.victims.is_empty() || w.damaged || self.errors.excuses() > 0;
        if mended + beyond > 0 && !harmed {
            return Err(format!(
                "a scrub reported {mended} repairs and {beyond} losses, but nothing was damaged"
            ));
        }
        if mended > 0 && self.roots_of_scrub == 0 {
            return Err(format!(
                "a scrub reported {mended} repairs, but no root made them durable"
            ));
        }
        w.tallies.note_if(end == TaskEnd::Done, Named::Scrubbed);
        w.tallies.note_if(mended > 0, Named::ScrubRepaired);
        if end == TaskEnd::Done && self.scrubs_all && beyond == 0 {
            w.scrubbed(&self.layer, &mut self.fate);
        }
        Ok(())
    }
}

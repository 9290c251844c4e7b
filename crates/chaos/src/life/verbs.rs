//! What an operator wants of a layer that serves, and whether what comes of it is true.

use hostftl_core::{Answer, Layer, Refusal, Scrub, Setting, TaskEnd, Verb};

use super::Life;
use crate::events::Named;

impl Life<'_> {
    /// An operator wants something.
    pub(super) fn operate(&mut self) {
        let dice = &mut self.w.dice;
        let verb = match dice.below(10) {
            0..5 => Verb::Scrub(Scrub::Start(dice.pick(&[0, 0, 0, 0, 2]))),
            5 => Verb::Scrub(Scrub::Pause),
            6 => Verb::Scrub(Scrub::Resume),
            7 => Verb::Set(Setting::RebuildShare(dice.between(1, 100) as u8)),
            8 => Verb::Set(Setting::Gc(dice.below(4) as u16)),
            _ => Verb::Scrub(Scrub::Stop),
        };
        self.w.observe("", || format!("{verb:?}"));
        self.w.tallies.note(Named::Verb);
        let had_none = self.layer.tasks().is_empty();
        let answer = self.layer.operate(verb);
        let works = !self.layer.has_failed();
        match (verb, answer) {
            (Verb::Scrub(Scrub::Start(place)), Ok(Answer::Begun)) if had_none => {
                self.scrubs_all = place == 0;
            }
            (Verb::Scrub(Scrub::Start(_)), Err(_)) if had_none && works => {
                self.expect(Err(format!("{verb:?} was answered {answer:?}")));
            }
            (_, Err(Refusal::Unable)) => self.expect(Err(format!("{verb:?} can't be done"))),
            _ => {}
        }
    }

    /// A scrub is over, which left so many blocks that nothing can mend, and mended something in so
    /// many rows.
    pub(super) fn scrub_over(
        &mut self,
        end: TaskEnd,
        beyond: u64,
        mended: u64,
    ) -> Result<(), String> {
        let w = &mut *self.w;
        let harmed = w.victims != 0 || w.damaged || self.errors.excuses() > 0;
        if mended + beyond > 0 && !harmed {
            return Err(format!("a scrub found {mended} and {beyond}, and nothing was harmed"));
        }
        w.tallies.note_if(end == TaskEnd::Done, Named::Scrubbed);
        w.tallies.note_if(mended > 0, Named::ScrubMended);
        if end == TaskEnd::Done && self.scrubs_all && beyond == 0 {
            w.scrubbed(&self.layer, &mut self.fate);
        }
        Ok(())
    }
}

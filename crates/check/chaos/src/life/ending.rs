//! Start and end of a life, and the checks of both.

use hostftl_core::{DeviceSet, Event, Layer};
use hostftl_layers::Mode;

use super::{Life, Phase};
use crate::events::Named;
use crate::reported_damage;

/// End of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The layer stopped as requested.
    Stopped,
    /// The power was cut; contains whether the layer had become ready before.
    Cut(bool),
    /// The layer refused the volume after damage.
    Refused,
}

impl Life<'_> {
    /// Checks an event of the layer.
    pub(super) fn noted(&mut self, event: Event) {
        let (w, errors) = (&mut *self.w, &self.errors);
        let judged = match event {
            Event::Ready { replayed, dropped } => self.became_ready(replayed, dropped),
            Event::Stopped => self.stopped(),
            Event::Unrecoverable(why) => self.refused(why),
            Event::DeviceFailed { device, abandoned, .. } => {
                w.tallies.note_if(abandoned, Named::Abandoned);
                if errors.any() {
                    Ok(())
                } else {
                    Err(format!("device {device} is reported as failed, but did not fail"))
                }
            }
            Event::Lost { sectors } => self.reported_damage.lost(sectors, errors, w),
            Event::Corrupt { lba, sectors } => {
                self.reported_damage.corrupt(lba, sectors, errors, w)
            }
            Event::Repaired { device, lba, sectors } => {
                self.mended.insert(device);
                reported_damage::note_repaired(device, lba, sectors, w)
            }
            Event::Failing { device, is_lost, .. } => {
                w.tallies.note(if is_lost { Named::Faulted } else { Named::Failing });
                if is_lost {
                    w.mark_stale(device);
                }
                let any = w.swarm.victim.is_none() && (w.damaged || errors.any());
                if w.victims.contains(device) || any {
                    Ok(())
                } else {
                    Err(format!("device {device} is reported as failing, but was not damaged"))
                }
            }
            Event::Older { device } if w.to_copy().is_some_and(|it| it != device) => {
                Err(format!("device {device} is reported as an older copy, but is not"))
            }
            Event::CheckpointDone => {
                self.roots_of_scrub += 1;
                w.observe_fresh(&self.layer, &mut self.fate);
                w.bury(&self.layer, &mut self.fate);
                w.observe_second_victim(&self.layer);
                let stays = w.observe_stays(&self.layer);
                w.observe_leaving(&self.layer, &mut self.fate);
                w.perhaps_cancel(&mut self.layer);
                w.perhaps_remove(&mut self.layer);
                w.copied.root_done();
                w.tallies.note(Named::Checkpoint);
                stays
            }
            Event::Over { end, beyond, repaired: mended, .. } => {
                self.scrub_over(end, beyond, mended)
            }
            Event::Older { .. } | Event::GcStarted | Event::Full => {
                w.tallies.note(match event {
                    Event::Older { .. } => Named::OlderReported,
                    Event::GcStarted => Named::Gc,
                    _ => Named::Full,
                });
                Ok(())
            }
        };
        self.expect(judged);
    }

    fn became_ready(&mut self, replayed: u64, dropped: u64) -> Result<(), String> {
        if self.phase != Phase::Starting {
            return Err("ready, but the layer was not starting".into());
        }
        self.phase = Phase::Ready;
        self.w.clean = false;
        self.w.ready_with_copy()?;
        self.w.life_begun();
        self.w.start_steps = self.steps;
        let cut_every = self.w.cut_every();
        self.fate.draw_when_ready(&mut self.w.dice, self.steps, &self.w.swarm, cut_every);
        self.w.tallies.note_if(replayed > 0, Named::CutReplayed);
        self.w.tallies.note_if(dropped > 0, Named::CutDropped);
        self.check();
        let missing = self.w.config.members.missing - self.w.config.members.removed;
        // The superblocks may not record removals yet.
        let lost = self.layer.members().lost() | self.layer.members().removed() & missing;
        let second = self.w.swarm.second_victim.into_iter().collect::<DeviceSet>();
        // A device with too many faults may be given up in the same step, which is reported after
        // this event.
        let limit = self.w.config.log.fault_after;
        let failing = if limit > 0 { self.w.victims } else { DeviceSet::EMPTY };
        let known = second | self.w.buried | failing | self.w.config.members.fresh;
        let others = |victim: u8| !lost.is_within(known.with(victim));
        if !missing.is_within(lost) || self.w.swarm.victim.is_some_and(others) {
            return Err(format!("missing are {missing:?}, the layer does without {lost:?}"));
        }
        if self.mode == Mode::Open && (self.audited || self.w.dice.chance(self.w.swarm.audit)) {
            self.audited = true;
            self.w.workload.audit();
        }
        Ok(())
    }

    fn stopped(&mut self) -> Result<(), String> {
        let Phase::Stopping(begin) = self.phase else {
            return Err("stopped without a request".into());
        };
        self.phase = Phase::Over(End::Stopped);
        let out = self.layer.members().lost() | self.layer.members().removed();
        if !self.transient_faults.unflushed().is_within(out) && !self.layer.has_failed() {
            return Err("stopped cleanly after a failed flush".into());
        }
        if !self.errors.any() && (!self.layer.idle() || !self.flights.are_given_up()) {
            return Err("stopped with work in flight".into());
        }
        if self.errors.excuses() == 0 {
            self.w.model.end_flush(begin);
            self.w.clean = true;
            self.w.tallies.note(Named::CleanStop);
            self.w.tallies.note_if(self.audited, Named::Audit);
        }
        Ok(())
    }

    /// Checks a refusal of the volume: some faults excuse it permanently, and some for this life.
    fn refused(&mut self, why: &'static str) -> Result<(), String> {
        let journal = self.w.mortal_journal();
        let lacks_journal =
            journal.is_some_and(|it| self.has_failed(it) || self.transient_faults.any());
        let starting = self.phase == Phase::Starting;
        // A stack with redundancy opens without a device that timed out.
        let timed_out = self.fate.timed_out_once() && self.w.swarm.victim.is_some() && starting;
        let passing = self.transient_faults.are_alone(&self.errors, self.w) && starting;
        self.phase = Phase::Over(End::Refused);
        if lacks_journal {
            return self.w.refused_without_journal(self.fate.timed_out_once());
        }
        if self.w.has_copy() && !self.errors.any() {
            return self.w.refused_with_copy();
        }
        if timed_out || passing {
            self.w.tallies.note_if(!timed_out, Named::RefusedForNow);
            self.w.refused_for_now = true;
        } else if self.w.damaged || self.errors.excuses() > 0 {
            self.w.tallies.note(Named::Refused);
        } else {
            return Err(format!("expected to open, found unrecoverable: {why}"));
        }
        Ok(())
    }

    /// Ends the life immediately, by a power cut or a kill of the process.
    pub(super) fn cut(mut self) -> End {
        let starting = matches!(self.phase, Phase::New | Phase::Starting);
        let (tallies, open) = (&mut self.w.tallies, self.mode == Mode::Open);
        tallies.note_if(starting && open, Named::CutRecovery);
        tallies.note_if(starting && !open, Named::CutFormat);
        tallies.note_if(self.host.is_unserved() && open, Named::CutTwice);
        tallies.note_if(matches!(self.phase, Phase::Stopping(_)), Named::CutStop);
        self.host.note_cut(tallies);
        self.w.cut_power(&mut self.flights);
        self.switch_off();
        End::Cut(!starting)
    }

    /// Discards every handle and request at the end of a life.
    pub(super) fn switch_off(&mut self) {
        self.layer.power_off();
        self.flights.void();
        self.host.abandon_all(self.w);
        self.w.model.begin_life();
    }
}

//! Faults of one life and their times: a power cut, commands that time out, a device that dies.

use hostftl_core::{Cause, Command};

use super::swarm::Swarm;
use crate::dice::Dice;

/// Number of cuts after which a seed has no more early ones.
const MOST_EARLY_CUTS: u64 = 200;

/// Selection of the faulty devices that die, or time out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dying {
    /// The victim.
    Victim,
    /// The second device.
    Second,
    /// Both at the same time.
    Both,
}

/// Schedule of faults of one life. Steps and commands to devices are counted from its start.
#[derive(Debug)]
pub(crate) struct Fate {
    /// Whether this life has no faults.
    is_fault_free: bool,
    /// Step before which the power is cut.
    cut_at: u64,
    /// Command from which on commands time out.
    hang_at: u64,
    /// Whether all commands of the victim time out from then on, instead of one, and whether any
    /// did.
    all_hang: bool,
    timed_out_once: bool,
    /// Command from which on a device has failed.
    fail_at: u64,
    /// Devices that time out and die.
    dying: Dying,
    /// Number of commands to devices so far.
    commands: u64,
}

impl Fate {
    /// Creates a schedule without faults; with `fault_free` none will be added.
    pub(crate) fn new(fault_free: bool) -> Self {
        let never = u64::MAX;
        let (cut_at, hang_at, fail_at) = (never, never, never);
        let (all_hang, timed_out_once, dying, commands) = (false, false, Dying::Victim, 0);
        Fate {
            is_fault_free: fault_free,
            cut_at,
            hang_at,
            all_hang,
            timed_out_once,
            fail_at,
            dying,
            commands,
        }
    }

    /// Returns whether this life has no faults.
    pub(crate) fn is_fault_free(&self) -> bool {
        self.is_fault_free
    }

    /// Draws the faults of a life, including a cut during its start, after `cuts` cuts. The last
    /// start took `start_steps` steps.
    pub(crate) fn draw(dice: &mut Dice, swarm: &Swarm, cuts: u64, start_steps: u64) -> Self {
        let mut fate = Fate::new(false);
        if swarm.faults.cut && cuts < MOST_EARLY_CUTS && dice.chance(swarm.cut_early) {
            fate.cut_at = 1 + dice.below(start_steps + 5);
        }
        if swarm.faults.hang && dice.chance(400) {
            fate.hang_at = 1 + dice.below(if swarm.victim.is_some() { 3000 } else { 300 });
            fate.all_hang = swarm.victim.is_some() && dice.chance(600);
        }
        // A stack with redundancy runs for a long time before and after the loss of a device.
        let (often, within) = if swarm.victim.is_some() { (200, 3000) } else { (400, 300) };
        if swarm.faults.device_failure && dice.chance(often) {
            fate.fail_at = 1 + dice.below(within);
        }
        if swarm.second_victim.is_some() {
            fate.dying = dice.pick(&[Dying::Victim, Dying::Second, Dying::Both, Dying::Both]);
        }
        fate
    }

    /// Draws the time of the cut for a life that became ready after `steps` steps, if its power may
    /// be cut: typically every `cut_every` steps.
    pub(crate) fn draw_when_ready(
        &mut self,
        dice: &mut Dice,
        steps: u64,
        swarm: &Swarm,
        cut_every: u64,
    ) {
        if swarm.faults.cut && !self.is_fault_free && self.cut_at == u64::MAX {
            self.cut_at = steps + 1 + dice.below(2 * cut_every);
        }
    }

    /// Draws a cut during the stop, which is short and would rarely be hit otherwise.
    pub(crate) fn draw_for_stop(&mut self, dice: &mut Dice, steps: u64) {
        if self.cut_at < u64::MAX && dice.chance(400) {
            let within = dice.pick(&[2, 2, 30]);
            self.cut_at = steps + 1 + dice.below(within);
        }
    }

    /// Draws when the next victim fails.
    pub(crate) fn draw_for_next_victim(&mut self, dice: &mut Dice) {
        let soon = self.commands + 1 + dice.below(3000);
        self.fail_at = if dice.chance(400) { soon } else { u64::MAX };
        self.hang_at = u64::MAX;
    }

    /// Cuts the power now if a cut is scheduled; returns whether it is.
    pub(crate) fn cut_now(&mut self, steps: u64) -> bool {
        let is_cut = self.cut_at < u64::MAX;
        if is_cut {
            self.cut_at = steps;
        }
        is_cut
    }

    /// Returns whether the power is cut after `steps` steps.
    pub(crate) fn is_cut(&self, steps: u64) -> bool {
        steps >= self.cut_at
    }

    /// Counts a command to a device. For a rare kind of command, moves the cut forward, so that it
    /// occurs while the command is in flight.
    pub(crate) fn begin_command(
        &mut self,
        dice: &mut Dice,
        command: &Command,
        steps: u64,
        swarm: &Swarm,
    ) {
        self.commands += 1;
        let rare = match command {
            Command::Flush { .. } | Command::Reset { .. } => true,
            Command::Read { cause, .. } => *cause == Cause::Gc,
            Command::Program { tally, .. } => tally.get(Cause::Host) < tally.total(),
            _ => false,
        };
        if rare && self.cut_at < u64::MAX && dice.chance(swarm.aim) {
            self.cut_at = self.cut_at.min(steps + 1 + dice.below(10));
        }
    }

    /// Returns the number of commands to devices so far.
    pub(crate) fn commands(&self) -> u64 {
        self.commands
    }

    /// Returns whether the death of a device is due, and whether this is its first command.
    pub(crate) fn is_death_due(&self) -> (bool, bool) {
        (self.commands >= self.fail_at, self.commands == self.fail_at)
    }

    /// Returns the devices that time out and die.
    pub(crate) fn dying(&self) -> Dying {
        self.dying
    }

    /// Returns whether a command times out now, if its device may.
    pub(crate) fn is_hang_due(&self) -> bool {
        self.commands >= self.hang_at
    }

    /// Records that a command times out.
    pub(crate) fn hang(&mut self) {
        assert!(self.is_hang_due(), "a command hangs when it is to");
        if !self.all_hang {
            self.hang_at = u64::MAX;
        }
        self.timed_out_once = true;
    }

    /// Returns whether all commands of the victim time out after the first one.
    pub(crate) fn all_hang(&self) -> bool {
        self.all_hang
    }

    /// Returns whether a command timed out.
    pub(crate) fn timed_out_once(&self) -> bool {
        self.timed_out_once
    }
}

#[cfg(test)]
mod tests {
    use hostftl_layers::LayerKind;

    use super::*;
    use crate::draw;

    fn swarm() -> Swarm {
        draw::seed(0, LayerKind::Log).expect("it is admitted").swarm
    }

    #[test]
    fn either_one_command_or_all_hang() {
        let (mut dice, swarm, flush) = (Dice::new(1, 1), swarm(), Command::Flush { device: 0 });
        for all_hang in [false, true] {
            let mut fate = Fate { hang_at: 2, all_hang, ..Fate::new(false) };
            fate.begin_command(&mut dice, &flush, 1, &swarm);
            assert!(!fate.is_hang_due() && !fate.timed_out_once());
            fate.begin_command(&mut dice, &flush, 2, &swarm);
            assert!(fate.is_hang_due());
            fate.hang();
            assert_eq!((fate.is_hang_due(), fate.timed_out_once()), (all_hang, true));
        }
    }

    #[test]
    fn a_calm_life_is_never_cut() {
        let (mut dice, mut swarm) = (Dice::new(1, 1), swarm());
        swarm.faults.cut = true;
        let mut fate = Fate::new(true);
        fate.draw_when_ready(&mut dice, 10, &swarm, 30);
        fate.draw_for_stop(&mut dice, 20);
        assert!(!fate.is_cut(u64::MAX - 1));
        let mut fate = Fate::new(false);
        fate.draw_when_ready(&mut dice, 10, &swarm, 30);
        assert!(!fate.is_cut(10) && fate.is_cut(u64::MAX - 1));
    }

    #[test]
    fn without_faults_a_life_has_no_cut_hang_or_failure() {
        let (mut dice, mut swarm) = (Dice::new(1, 1), swarm());
        swarm.faults = Default::default();
        for _ in 0..1000 {
            let fate = Fate::draw(&mut dice, &swarm, 0, 10);
            assert_eq!((fate.cut_at, fate.hang_at, fate.fail_at), (u64::MAX, u64::MAX, u64::MAX));
        }
    }
}

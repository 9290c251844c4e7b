//! Transient faults: their rates per seed and life, and the commands that fail.

use super::swarm::{Faults, Swarm};
use crate::dice::Dice;
use crate::matrix::{Claim, Claims, Row};

/// Separates this random stream from the others of the seed.
const SALT: u64 = 0x60;

/// Separates the stream for devices whose reads fail repeatedly.
const FAILING: u64 = 0x6661_696c;

/// Draws the number of faults after which a layer gives up a failing device, if it differs from the
/// default.
pub(crate) fn fault_limit(seed: u64) -> Option<u16> {
    let mut dice = Dice::new(!seed, FAILING);
    dice.chance(700).then(|| dice.pick(&[0, 1, 3, 6, 20]))
}

/// Draws the transient faults of a seed and adds them to its other faults.
pub(crate) fn draw(seed: u64, claims: &Claims, swarm: &Swarm) -> Faults {
    let mut dice = Dice::new(seed, SALT);
    let mut some = |row: Row, permille| dice.chance(permille) && claims.admits(row);
    let mut faults = swarm.faults;
    faults.write_error = some(Row::WriteError, 250);
    faults.flush_error = some(Row::FlushError, 250);
    faults.no_space = some(Row::NoSpace, 400);
    let rot = some(Row::DataRot, 200) && claims.get(Row::DataRot) == Claim::Detected;
    faults.data_rot |= rot;
    let may_fail = swarm.victim.is_some() && claims.get(Row::ReadError) == Claim::Kept;
    faults.failing = may_fail && Dice::new(seed, FAILING).chance(250);
    faults
}

/// Failure rates of one life, and the period in which a device is full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// One in this number of writes and trims fails, and one in this number of flushes; 0 for none.
    writes: u64,
    flushes: u64,
    /// One in this number of reads fails; 0 for none.
    reads: u64,
    /// Device commands during which a device is full: the first, and the end of the range.
    full: (u64, u64),
}

/// Write that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteFault {
    /// Whether the device is full.
    pub is_full: bool,
    /// Whether the device stays full in the following lives.
    pub remains: bool,
    /// Sectors that reach the device.
    pub written: Written,
}

/// Part of a failed write that reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// No sector.
    Nothing,
    /// Some sectors.
    Part,
    /// All sectors.
    Whole,
}

/// Draws an event that occurs once in `rate` times; 0 for never.
fn one_in(dice: &mut Dice, rate: u64) -> bool {
    rate > 0 && dice.below(rate) == 0
}

impl Rates {
    /// Draws the rates of a life whose device is full at the start or not, and whether the device
    /// stays full.
    pub(crate) fn draw(dice: &mut Dice, swarm: &Swarm, full: bool) -> (Self, bool) {
        let (mut rates, faults) = (Rates::default(), swarm.faults);
        if faults.write_error && dice.chance(500) {
            rates.writes = dice.pick(&[20, 200, 2000]);
        }
        if faults.flush_error && dice.chance(500) {
            rates.flushes = dice.pick(&[2, 10, 50]);
        }
        if faults.failing && dice.chance(500) {
            rates.reads = dice.pick(&[1, 3, 20]);
        }
        if !faults.no_space {
            return (rates, full);
        }
        // The device gets space again in some later life.
        let stays = !dice.chance(400);
        if full && stays {
            rates.full = (0, u64::MAX);
        } else if dice.chance(400) {
            let from = 1 + dice.below(if swarm.victim.is_some() { 3000 } else { 1000 });
            let length = dice.pick(&[1, 10, 300, u64::MAX]);
            rates.full = (from, from.saturating_add(length));
        }
        (rates, full && stays)
    }

    /// Draws whether a read fails.
    pub(crate) fn read_fails(&self, dice: &mut Dice) -> bool {
        one_in(dice, self.reads)
    }

    /// Draws whether a flush fails.
    pub(crate) fn flush_fails(&self, dice: &mut Dice) -> bool {
        one_in(dice, self.flushes)
    }

    /// Draws whether a write or trim fails, after `commands` commands to devices. A segment whose
    /// program or reset fails goes offline, which is another fault; so a write to a segment fails
    /// only when the device is full, and no part of it is written.
    pub(crate) fn write_fails(
        &self,
        dice: &mut Dice,
        commands: u64,
        is_zoned: bool,
    ) -> Option<WriteFault> {
        let (from, to) = self.full;
        let is_full = (from..to).contains(&commands) && dice.chance(900);
        let fails = !is_zoned && one_in(dice, self.writes);
        if !is_full && !fails {
            return None;
        }
        let written = match dice.below(3) {
            _ if is_zoned => Written::Nothing,
            0 => Written::Nothing,
            1 if !is_full => Written::Whole,
            _ => Written::Part,
        };
        Some(WriteFault { is_full, remains: is_full && to == u64::MAX, written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_rate_never_fails_and_draws_no_number() {
        let mut dice = Dice::new(1, 1);
        let before = dice.clone().bits();
        let rates = Rates::default();
        assert!(!rates.read_fails(&mut dice) && !rates.flush_fails(&mut dice));
        assert_eq!(rates.write_fails(&mut dice, 1, false), None);
        assert_eq!(dice.bits(), before);
    }

    #[test]
    fn a_full_device_takes_partial_writes_and_a_zoned_one_none() {
        let mut dice = Dice::new(1, 1);
        let rates = Rates { full: (5, u64::MAX), ..Rates::default() };
        assert_eq!(rates.write_fails(&mut dice, 4, false), None);
        for is_zoned in [false, true] {
            let faults = (0..1000).filter_map(|_| rates.write_fails(&mut dice, 5, is_zoned));
            let faults: Vec<WriteFault> = faults.collect();
            assert!(faults.len() > 800, "nine in ten");
            assert!(faults.iter().all(|it| it.is_full && it.remains));
            assert!(faults.iter().all(|it| it.written != Written::Whole));
            let parts = faults.iter().any(|it| it.written == Written::Part);
            assert_eq!(parts, !is_zoned);
        }
    }
}

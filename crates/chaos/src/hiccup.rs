//! Faults that pass: a read, a write, a trim or a flush fails, and the next one works; a device is
//! full.
//!
//! A write that failed is on the medium in part, as a whole or not at all. A flush that failed may
//! have made some of what it covers durable; some is still to be written, and some the device
//! forgets: reads see it, later flushes say that all is well, and when the device is opened again,
//! or the power fails, it is gone. So do the page caches of operating systems.

use hostftl_core::{Command, DeviceError, HostError};

use crate::dice::Dice;
use crate::disk::Disk;
use crate::errors::Errors;
use crate::events::Named;
use crate::exec::Detour;
use crate::fate::Fate;
use crate::flights::Flight;
use crate::matrix::{Claim, Claims, Row};
use crate::swarm::Swarm;
use crate::workload::Kind;
use crate::world::World;

/// Keeps this stream of chance apart from the seed's other ones.
const SALT: u64 = 0x60;

/// The same for devices of which reads fail repeatedly.
const FAILING: u64 = 0x6661_696c;

/// What fails in one life and works again, and what came of that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hiccups {
    /// One in so many writes and trims fails, and one in so many flushes; 0 for none.
    writes: u64,
    flushes: u64,
    /// One in so many reads fails; 0 for none.
    reads: u64,
    /// The commands to devices while which a device is full: from this one on, and up to that.
    full: (u64, u64),
    /// Errors given to the layer for which the host may be given one, and those of them that say
    /// that the device is full.
    errors: u64,
    fulls: u64,
    /// Whether something failed.
    any: bool,
    /// Devices of which a flush failed for which the host may be given an error.
    unflushed: u16,
}

impl Hiccups {
    /// Whether something failed.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Chooses which of these faults this life has.
    pub fn choose(&mut self, w: &mut World) {
        let faults = w.swarm.faults;
        let dice = &mut w.dice;
        if faults.write_error && dice.chance(500) {
            self.writes = dice.pick(&[20, 200, 2000]);
        }
        if faults.flush_error && dice.chance(500) {
            self.flushes = dice.pick(&[2, 10, 50]);
        }
        if faults.failing && dice.chance(500) {
            self.reads = dice.pick(&[1, 3, 20]);
        }
        if !faults.no_space {
            return;
        }
        // Somebody makes room, sooner or later.
        w.full &= !dice.chance(400);
        if w.full {
            self.full = (0, u64::MAX);
        } else if dice.chance(400) {
            let from = 1 + dice.below(if w.swarm.victim.is_some() { 3000 } else { 1000 });
            let length = dice.pick(&[1, 10, 300, u64::MAX]);
            self.full = (from, from.saturating_add(length));
        }
    }

    /// Whether a command fails now, and the next may work.
    pub fn strike(
        &mut self,
        flight: &mut Flight,
        fate: &Fate,
        errors: &mut Errors,
        w: &mut World,
    ) -> Option<DeviceError> {
        let device = flight.command.device()?;
        if fate.is_calm() || !w.may_fail(device) || flight.is_late() {
            return None;
        }
        if let Command::Read { .. } = flight.command {
            return self.read_fails(errors, w);
        }
        let error = match flight.command {
            Command::Flush { device } => self.flush_fails(device, flight.stamp, w)?,
            Command::Program { .. } | Command::Reset { .. } => {
                self.write_fails(flight, fate, errors, w)?
            }
            _ => return None,
        };
        if w.trace {
            eprintln!("{} {error}: {}", w.steps, crate::trace::command(&flight.command));
        }
        let (row, named) = match (error, &flight.command) {
            (DeviceError::NoSpace, _) => (Row::NoSpace, Named::NoSpace),
            (_, Command::Flush { .. }) => (Row::FlushError, Named::FlushError),
            _ => (Row::WriteError, Named::WriteError),
        };
        w.tallies.note(named);
        let excused = u64::from(errors.add(row, &w.claims));
        self.any = true;
        let flush = matches!(flight.command, Command::Flush { .. });
        let unflushed = flush && excused > 0 && w.swarm.journal.is_none();
        self.unflushed |= u16::from(unflushed) << device;
        self.errors += excused;
        self.fulls += excused * u64::from(error == DeviceError::NoSpace);
        Some(error)
    }

    fn read_fails(&self, errors: &mut Errors, w: &mut World) -> Option<DeviceError> {
        if self.reads == 0 || w.dice.below(self.reads) != 0 {
            return None;
        }
        errors.add(Row::ReadError, &w.claims);
        w.tallies.note(Named::ReadError);
        Some(DeviceError::Media)
    }

    fn flush_fails(&self, device: u8, stamp: u32, w: &mut World) -> Option<DeviceError> {
        let per = self.flushes;
        if per == 0 || w.dice.below(per) != 0 {
            return None;
        }
        w.machine.disks[usize::from(device)].flush_fails(stamp, &mut w.dice);
        // What was written late finds no room, too.
        let full = w.swarm.faults.no_space && w.dice.chance(200);
        Some(if full { DeviceError::NoSpace } else { DeviceError::Media })
    }

    fn write_fails(
        &self,
        flight: &mut Flight,
        fate: &Fate,
        errors: &mut Errors,
        w: &mut World,
    ) -> Option<DeviceError> {
        let (from, to) = self.full;
        let full = (from..to).contains(&fate.commands()) && w.dice.chance(900);
        let per = self.writes;
        // A segment whose program or reset fails is offline: that is another fault.
        let zoned = w.segments.is_some();
        let fails = per > 0 && !zoned && w.dice.below(per) == 0;
        if !full && !fails {
            return None;
        }
        if full {
            w.full |= to == u64::MAX;
            errors.disorder();
        }
        match w.dice.below(3) {
            _ if zoned => {}
            0 => {}
            1 if !full => {
                let (command, stamp) = (&mut flight.command, flight.stamp);
                let _ = w.machine.run(command, stamp, Detour::None, &mut w.dice);
            }
            _ => w.machine.run_in_part(&flight.command, flight.stamp, &mut w.dice),
        }
        Some(if full { DeviceError::NoSpace } else { DeviceError::Media })
    }

    /// Whether all that the host may be given errors for are faults that pass.
    pub fn are_alone(&self, errors: &Errors, w: &World) -> bool {
        self.errors > 0 && self.errors == errors.excuses() && !w.damaged
    }

    /// Devices of which a flush failed, so that the layer must say that it has failed, or does
    /// without them: nothing lies there.
    pub fn unflushed(&self) -> u16 {
        self.unflushed
    }

    /// What is wrong with an error that a request was given, if no other fault excuses it.
    pub fn wrong_error(
        &self,
        kind: Kind,
        error: HostError,
        errors: &Errors,
        w: &World,
    ) -> Option<&'static str> {
        if error == HostError::NoSpace && self.fulls == 0 {
            return Some("and no device was full");
        }
        if !self.are_alone(errors, w) || w.gave_up {
            return None;
        }
        let full_alone = self.fulls == self.errors;
        match kind {
            Kind::Read => Some("and only writes and flushes had failed"),
            _ if full_alone && error != HostError::NoSpace => Some("and a device was full"),
            _ => None,
        }
    }
}

/// Faults after which a layer gives up a failing device.
pub fn fault_limit(seed: u64) -> Option<u16> {
    let mut dice = Dice::new(!seed, FAILING);
    dice.chance(700).then(|| dice.pick(&[0, 1, 3, 6, 20]))
}

/// Chooses which of these faults a seed has.
pub fn choose(seed: u64, claims: &Claims, swarm: &mut Swarm) {
    let mut dice = Dice::new(seed, SALT);
    let mut some = |row: Row, permille| dice.chance(permille) && claims.admits(row);
    swarm.faults.write_error = some(Row::WriteError, 250);
    swarm.faults.flush_error = some(Row::FlushError, 250);
    swarm.faults.no_space = some(Row::NoSpace, 400);
    let rot = some(Row::DataRot, 200) && claims.get(Row::DataRot) == Claim::Detected;
    swarm.faults.data_rot |= rot;
    let may_fail = swarm.victim.is_some() && claims.get(Row::ReadError) == Claim::Kept;
    swarm.faults.failing = may_fail && Dice::new(seed, FAILING).chance(250);
}

impl World {
    /// The devices are opened: what they count as clean and did not write is not there any more.
    pub(crate) fn reopen(&mut self) {
        let mut lost = 0;
        for disk in &mut self.machine.disks {
            lost += disk.reopen(&mut self.dice);
        }
        self.tallies.note_if(lost > 0, Named::FlushLost);
        self.epochs = self.machine.disks.iter().map(Disk::epoch).collect();
    }
}

//! Transient faults: a read, write, trim or flush fails and the next one works, or a device is full
//! for some time.
//!
//! A failed write is on the medium in part, completely or not at all. Of the sectors that a failed
//! flush covers, some may be durable, some are still dirty, and some are dropped: reads return
//! them, later flushes succeed, but they are lost when the device is reopened or the power fails.
//! The page caches of operating systems behave like this.

use hostftl_core::{Command, DeviceError, DeviceSet, HostError};

use crate::disk::Disk;
use crate::draw::fate::Fate;
use crate::draw::transient::{Rates, Written};
use crate::errors::Errors;
use crate::events::Named;
use crate::exec::Detour;
use crate::flights::Flight;
use crate::matrix::Row;
use crate::workload::Kind;
use crate::world::World;

/// Transient faults of one life and their consequences.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TransientFaults {
    rates: Rates,
    /// Errors for which the host may receive an error; `fulls` counts those of a full device.
    errors: u64,
    fulls: u64,
    /// Whether any command failed.
    any: bool,
    /// Devices with a failed flush for which the host may receive an error.
    unflushed: DeviceSet,
}

impl TransientFaults {
    /// Returns whether any command failed.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Creates the state of a life with these rates.
    pub(crate) fn new(rates: Rates) -> Self {
        TransientFaults { rates, ..TransientFaults::default() }
    }

    /// Fails a command with a transient fault, or returns `None`.
    pub(crate) fn strike(
        &mut self,
        flight: &mut Flight,
        fate: &Fate,
        errors: &mut Errors,
        w: &mut World,
    ) -> Option<DeviceError> {
        let device = flight.command.device()?;
        if fate.is_fault_free() || !w.may_fail(device) || flight.is_late() {
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
        self.unflushed |= DeviceSet::single_if(unflushed, device);
        self.errors += excused;
        self.fulls += excused * u64::from(error == DeviceError::NoSpace);
        Some(error)
    }

    fn read_fails(&self, errors: &mut Errors, w: &mut World) -> Option<DeviceError> {
        if !self.rates.read_fails(&mut w.dice) {
            return None;
        }
        errors.add(Row::ReadError, &w.claims);
        w.tallies.note(Named::ReadError);
        Some(DeviceError::Media)
    }

    fn flush_fails(&self, device: u8, stamp: u32, w: &mut World) -> Option<DeviceError> {
        if !self.rates.flush_fails(&mut w.dice) {
            return None;
        }
        w.machine.disks[usize::from(device)].flush_fails(stamp, &mut w.dice);
        // Late writes of a cache can find the device full, too.
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
        let is_zoned = w.segments.is_some();
        let fault = self.rates.write_fails(&mut w.dice, fate.commands(), is_zoned)?;
        w.full |= fault.remains;
        if fault.is_full {
            errors.disorder();
        }
        match fault.written {
            Written::Nothing => {}
            Written::Whole => {
                let (command, stamp) = (&mut flight.command, flight.stamp);
                let _ = w.machine.run(command, stamp, Detour::None, &mut w.dice);
            }
            Written::Part => w.machine.run_in_part(&flight.command, flight.stamp, &mut w.dice),
        }
        Some(if fault.is_full { DeviceError::NoSpace } else { DeviceError::Media })
    }

    /// Returns whether transient faults are the only excuse for errors of the host.
    pub(crate) fn are_alone(&self, errors: &Errors, w: &World) -> bool {
        self.errors > 0 && self.errors == errors.excuses() && !w.damaged
    }

    /// Returns the devices with a failed flush. The layer must report its own failure or treat them
    /// as lost, because their data is not durable.
    pub(crate) fn unflushed(&self) -> DeviceSet {
        self.unflushed
    }

    /// Returns the fault of an error reply that no other fault excuses.
    pub(crate) fn wrong_error(
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

impl World {
    /// Opens the devices again, which discards sectors that a failed flush marked clean.
    pub(crate) fn reopen(&mut self) {
        let mut lost = 0;
        for disk in &mut self.machine.disks {
            lost += disk.reopen(&mut self.dice);
        }
        self.tallies.note_if(lost > 0, Named::FlushLost);
        self.epochs = self.machine.disks.iter().map(Disk::epoch).collect();
    }
}

//! Segments that fail.

use hostftl_core::{Command, DeviceError};

use crate::disk::Refusal;
use crate::draw::fate::Fate;
use crate::errors::Errors;
use crate::events::Named;
use crate::matrix::{Claim, Row};
use crate::world::World;

/// At most one in this number of segments fails.
const BAD_SHARE: usize = 32;
/// Number of failed segments of a device at which a layer may run out of suitable ones; it may fail
/// at any time then.
const MANY_BAD: usize = 3;

impl World {
    /// Takes some segments of blank devices offline.
    pub(crate) fn break_some(&mut self) {
        if self.segments.is_none() || !self.swarm.faults.bad_segment {
            return;
        }
        for device in 0..self.machine.disks.len() {
            while may_break(self, device as u8) && self.dice.chance(300) {
                let lba = self.dice.below(self.machine.disks[device].sectors());
                if is_spared(self, device as u8, lba) {
                    break;
                }
                self.machine.disks[device].break_segment(lba, true);
            }
        }
    }
}

/// Returns whether one more segment of a device may fail: the total is limited, and if the layer
/// tolerates the loss of a device, only its segments fail.
fn may_break(world: &World, device: u8) -> bool {
    let disks = &world.machine.disks;
    let bad: usize = disks.iter().map(|disk| disk.offline().0).sum();
    let spared = world.swarm.victim.is_some_and(|victim| victim != device);
    let spared = spared && !world.is_second(device);
    let may = !spared && (world.swarm.victim.is_none() || world.may_fail(device));
    may && bad < disks[usize::from(device)].offline().1 / BAD_SHARE
}

/// Returns whether the target that has this sector lost as many segments as it tolerates.
fn is_spared(world: &World, device: u8, lba: u64) -> bool {
    let disk = &world.machine.disks[usize::from(device)];
    world.places.place_at(lba).is_some_and(|place| {
        let (bad, all) = disk.offline_in(place);
        bad >= all / BAD_SHARE
    })
}

/// Counts segments that failed in earlier lives: they may have been the last tolerable ones.
pub(crate) fn remember_broken(errors: &mut Errors, w: &World) {
    let does_without = w.claims.get(Row::BadSegment) == Claim::Kept;
    let many = w.machine.disks.iter().any(|disk| disk.offline().0 >= MANY_BAD);
    if many && (w.swarm.victim.is_some() || !does_without) {
        errors.add(Row::BadSegment, &w.claims);
    }
}

/// Sometimes fails a program or reset, and takes its segment offline.
pub(crate) fn break_segment(
    command: &Command,
    fate: &Fate,
    errors: &mut Errors,
    w: &mut World,
) -> Option<DeviceError> {
    let (&Command::Program { device, lba, .. } | &Command::Reset { device, lba, .. }) = command
    else {
        return None;
    };
    let breaks = w.swarm.faults.bad_segment
        && !fate.is_fault_free()
        && w.machine.disks[usize::from(device)].segment_at(lba).is_some()
        && w.dice.chance(3)
        && may_break(w, device)
        && !is_spared(w, device, lba);
    if !breaks {
        return None;
    }
    let disk = &mut w.machine.disks[usize::from(device)];
    disk.break_segment(lba, matches!(command, Command::Reset { .. }));
    w.tallies.note(Named::BadSegment);
    errors.add(Row::BadSegment, &w.claims);
    Some(DeviceError::Media)
}

/// Returns whether a segment refused `command` because of an earlier fault. A refusal for a
/// violated rule is a fault of the layer.
pub(crate) fn segment_refused(
    command: &Command,
    errors: &mut Errors,
    w: &World,
) -> Result<bool, String> {
    match w.machine.refusal {
        None => return Ok(false),
        Some(Refusal::Rule(_)) if errors.is_disordered() => {}
        Some(Refusal::Rule(what)) => {
            return Err(format!("{}: {what}", crate::trace::command(command)));
        }
        Some(Refusal::Unreadable) => {}
        Some(Refusal::Offline) => {
            errors.add(Row::BadSegment, &w.claims);
        }
    }
    Ok(true)
}

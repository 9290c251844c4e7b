//! Reports of a layer about damaged media: they must be true, and precede the error that they
//! explain.

use hostftl_core::{DeviceSet, HostError, Layer};
use hostftl_layers::AnyLayer;

use crate::errors::Errors;
use crate::events::Named;
use crate::second_victim::may_lose;
use crate::workload::PlannedRequest;
use crate::world::World;

/// Reports of one life.
#[derive(Debug, Default)]
pub(crate) struct ReportedDamage {
    /// Ranges of the host that were reported corrupt: first sector and end.
    corrupt: Vec<(u64, u64)>,
}

impl ReportedDamage {
    /// Checks a report that `sectors` sectors are lost.
    pub(crate) fn lost(
        &mut self,
        sectors: u32,
        errors: &Errors,
        w: &mut World,
    ) -> Result<(), String> {
        if !has_fault(errors, w) {
            return Err(format!("{sectors} sectors are reported as lost, but nothing was damaged"));
        }
        w.gave_up = true;
        w.tallies.note(Named::SectorsLost);
        Ok(())
    }

    /// Checks a report that a range of the host is corrupt.
    pub(crate) fn corrupt(
        &mut self,
        lba: u64,
        sectors: u32,
        errors: &Errors,
        w: &mut World,
    ) -> Result<(), String> {
        let end = lba + u64::from(sectors);
        if !has_fault(errors, w) {
            return Err(format!("{sectors} sectors at {lba} are reported as corrupt, but are not"));
        }
        if sectors == 0 || end > w.plan.limits.exported {
            return Err(format!("invalid report of {sectors} corrupt sectors at {lba}"));
        }
        self.corrupt.push((lba, end));
        w.tallies.note(Named::CorruptReported);
        Ok(())
    }

    /// Returns the fault of a read error whose cause was not reported before.
    pub(crate) fn unreported(
        &self,
        request: PlannedRequest,
        error: HostError,
        layer: &AnyLayer,
        w: &World,
    ) -> Option<&'static str> {
        let tells = w.promises().tells_corrupt && error == HostError::Io;
        if !tells || layer.has_failed() {
            return None;
        }
        let end = request.lba + request.sectors;
        let covers = |&(first, last): &(u64, u64)| request.lba < last && first < end;
        (!self.corrupt.iter().any(covers)).then_some("without a report of the cause")
    }
}

/// Returns whether a fault happened to the medium or to a command.
fn has_fault(errors: &Errors, w: &World) -> bool {
    w.damaged || errors.excuses() > 0
}

/// Checks that the layer can lose fewer devices while it has damage on the devices `damaged`,
/// reported in this step and therefore not repaired durably.
pub(crate) fn exposed(damaged: DeviceSet, layer: &AnyLayer, w: &World) -> Result<(), String> {
    let may_lose = may_lose(layer);
    let damaged = damaged - (layer.members().lost() | layer.members().removed());
    if !damaged.is_empty() && may_lose >= w.swarm.parity.into() {
        return Err(format!("devices {damaged:?} have damage, and {may_lose} more may be lost"));
    }
    Ok(())
}

/// Checks a report that a range of a device was repaired.
pub(crate) fn note_repaired(
    device: u8,
    lba: u64,
    sectors: u32,
    w: &mut World,
) -> Result<(), String> {
    let size = w.machine.disks.get(usize::from(device)).map_or(0, |disk| disk.sectors());
    let harmed = w.victims.contains(device);
    if !harmed || sectors == 0 || lba + u64::from(sectors) > size {
        return Err(format!(
            "invalid report of {sectors} repaired sectors at {lba} of device {device}"
        ));
    }
    w.tallies.note(Named::RepairReported);
    Ok(())
}

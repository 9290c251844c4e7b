//! What the layer says of a damaged medium: only what is true, before the answer that comes of it.

use hostftl_core::{HostError, Layer};
use hostftl_layers::AnyLayer;

use crate::errors::Errors;
use crate::events::Named;
use crate::second::may_lose;
use crate::workload::Wish;
use crate::world::World;

/// What the layer said in one life.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Ranges of the host that are said to be corrupt: the first sector, and the end.
    corrupt: Vec<(u64, u64)>,
}

impl Heard {
    /// So many sectors are said to be lost.
    pub(crate) fn lost(
        &mut self,
        sectors: u32,
        errors: &Errors,
        w: &mut World,
    ) -> Result<(), String> {
        if !has_fault(errors, w) {
            return Err(format!("{sectors} sectors are said to be lost and nothing was damaged"));
        }
        w.gave_up = true;
        w.tallies.note(Named::SectorsLost);
        Ok(())
    }

    /// A range of the host is said to be corrupt.
    pub(crate) fn corrupt(
        &mut self,
        lba: u64,
        sectors: u32,
        errors: &Errors,
        w: &mut World,
    ) -> Result<(), String> {
        let end = lba + u64::from(sectors);
        if !has_fault(errors, w) {
            return Err(format!("{sectors} sectors at {lba} are said to be corrupt and are not"));
        }
        if sectors == 0 || end > w.plan.limits.exported {
            return Err(format!("{sectors} sectors at {lba} are said to be corrupt"));
        }
        self.corrupt.push((lba, end));
        w.tallies.note(Named::CorruptTold);
        Ok(())
    }

    /// What is wrong with an error of a read that nobody was told the reason of.
    pub(crate) fn untold(
        &self,
        wish: Wish,
        error: HostError,
        layer: &AnyLayer,
        w: &World,
    ) -> Option<&'static str> {
        let tells = w.promises().tells_corrupt && error == HostError::Io;
        if !tells || layer.has_failed() {
            return None;
        }
        let end = wish.lba + wish.sectors;
        let covers = |&(first, last): &(u64, u64)| wish.lba < last && first < end;
        (!self.corrupt.iter().any(covers)).then_some("before anybody heard why")
    }
}

/// Whether something happened to the medium or to a command.
fn has_fault(errors: &Errors, w: &World) -> bool {
    w.damaged || errors.excuses() > 0
}

/// Damage of the devices `damaged` was reported in this step, so that no repair is durable: the
/// layer can do without one device less.
pub(crate) fn exposed(damaged: u16, layer: &AnyLayer, w: &World) -> Result<(), String> {
    let may_lose = may_lose(layer);
    let damaged = damaged & !(layer.members().lost() | layer.members().removed());
    if damaged != 0 && may_lose >= w.swarm.parity.into() {
        return Err(format!("devices {damaged:#b} have damage, and {may_lose} more may be lost"));
    }
    Ok(())
}

/// A range of a device is said to be mended.
pub(crate) fn mended(device: u8, lba: u64, sectors: u32, w: &mut World) -> Result<(), String> {
    let size = w.machine.disks.get(usize::from(device)).map_or(0, |disk| disk.sectors());
    let harmed = w.victims >> device & 1 == 1;
    if !harmed || sectors == 0 || lba + u64::from(sectors) > size {
        return Err(format!("{sectors} sectors at {lba} of device {device} are said to be mended"));
    }
    w.tallies.note(Named::MendedTold);
    Ok(())
}

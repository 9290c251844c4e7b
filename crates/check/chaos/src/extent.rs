//! Range of a device that a command accesses.

use hostftl_core::Command;

/// Device, first sector, number of sectors, and whether the command writes.
pub(crate) type Extent = (u8, u64, u64, bool);

/// Returns the extent of `command`, if it accesses a range of sectors.
pub(crate) fn extent(command: &Command) -> Option<Extent> {
    match command {
        Command::Read { device, lba, into, .. } => {
            Some((*device, *lba, into.sectors().into(), false))
        }
        Command::Program { device, lba, tally, .. } => {
            Some((*device, *lba, tally.total().into(), true))
        }
        Command::Reset { device, lba, sectors } => Some((*device, *lba, *sectors, true)),
        Command::Mark { device, lba, .. } => Some((*device, *lba, 1, true)),
        _ => None,
    }
}

/// Returns whether the order of two commands matters.
pub(crate) fn overlap(a: Option<Extent>, b: Option<Extent>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    a.0 == b.0 && (a.3 || b.3) && a.1 < b.1 + b.2 && b.1 < a.1 + a.2
}

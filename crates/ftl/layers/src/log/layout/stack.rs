//! Common properties of the devices of a volume.

use hostftl_core::{DeviceInfo, DeviceKind, DeviceSet, SECTORS_PER_BLOCK};

use crate::config::PlanError;

/// Returns the sectors of a chunk, if the superpage is possible on these devices, and the alignment
/// of programs.
pub(super) fn grains(
    superpage: u32,
    devices: &[DeviceInfo],
    zones: Option<Zones>,
) -> Result<(u32, u32), PlanError> {
    if !(4 * SECTORS_PER_BLOCK..=2048).contains(&superpage)
        || !superpage.is_multiple_of(SECTORS_PER_BLOCK)
    {
        return Err(PlanError("log needs a chunk of 16 KiB to 1 MiB, in steps of 4 KiB"));
    }
    let zone_unit = zones.map_or(1, |zones| zones.unit);
    let unit = devices.iter().map(|device| device.iu_sectors).max().unwrap_or(1).max(zone_unit);
    if unit > superpage || !superpage.is_multiple_of(unit) {
        return Err(PlanError(
            "log needs a superpage that is a multiple of the indirection unit of \
             its devices",
        ));
    }
    let padded = devices.iter().filter(|device| !device.merges);
    let align = padded.map(|device| device.iu_sectors).max().unwrap_or(1);
    let align = align.max(zone_unit).max(SECTORS_PER_BLOCK);
    Ok((superpage, if align.is_multiple_of(SECTORS_PER_BLOCK) { align } else { superpage }))
}

/// Common properties of the zones of all devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Zones {
    pub size: u32,
    pub unit: u32,
    pub max_open: u32,
}

/// Returns the zones of all devices that are not `missing`; `None` for block devices.
pub(super) fn zones(
    missing: DeviceSet,
    devices: &[DeviceInfo],
) -> Result<Option<Zones>, PlanError> {
    let mut found: Option<Option<Zones>> = None;
    for (_, device) in (0..).zip(devices).filter(|(at, _)| !missing.contains(*at)) {
        let zones = match device.kind {
            DeviceKind::Block => None,
            DeviceKind::Zoned(it) if it.unreadable > 0 => {
                return Err(PlanError(
                    "log needs zones that are readable up to their write pointers; use pblk",
                ));
            }
            DeviceKind::Zoned(it) => {
                Some(Zones { size: it.size, unit: it.write_unit, max_open: it.max_open })
            }
        };
        if found.is_some_and(|found| found != zones) {
            return Err(PlanError(
                "log takes either block devices or zoned devices in one volume; zoned devices \
                 need zones of the same size and kind",
            ));
        }
        found = Some(zones);
    }
    Ok(found.flatten())
}

//! Erases the zones of joining devices. Their contents are useless, and a zone is written from its
//! beginning, so they are erased before the volume is opened.

use hostftl_core::Command;

use crate::log::array::Array;
use crate::log::layout::{At, ROOT_ZONES};
use crate::log::ops::Cx;
use crate::log::recovery::{Recovery, Step};

/// Zones erased at once.
const MOST: u32 = 8;

impl Recovery {
    /// Erases the zones of a joining device from zone `from` on, then those of the next joining
    /// device.
    pub(super) fn erase_joining(
        &mut self,
        device: u8,
        from: u32,
        array: &mut Array,
        cx: &mut Cx,
    ) -> bool {
        if device == array.layout().devices {
            return self.go(Step::Tops(0));
        }
        if !array.media.devices.untrusted().contains(device) {
            return self.go(Step::Erase(device + 1, 0));
        }
        let Some(zone) = next_written(device, from, array) else {
            if !self.sent.is_empty() {
                return false;
            }
            self.sent.send_to_joining(
                device,
                Command::Flush { device },
                &mut array.media.devices,
                cx,
            );
            return self.go(Step::Erased(device));
        };
        if self.sent.count() == MOST || cx.outputs_left() < MOST as usize {
            return false;
        }
        let lba = match zone.checked_sub(ROOT_ZONES) {
            Some(segment) => array.layout().lba(At { segment, slot: 0, sector: 0 }),
            None => array.mapping.checkpoint.roots().copy_at(zone, 0),
        };
        let command = Command::Reset { device, lba, sectors: array.layout().column.into() };
        self.sent.send_to_joining(device, command, &mut array.media.devices, cx);
        self.go(Step::Erase(device, zone + 1))
    }

    /// Notes that the zone at sector `lba` of a device is erased.
    pub(super) fn zone_erased(&self, (device, lba): (u8, u64), array: &mut Array) {
        match array.media.devices.layout().zone_at(lba) {
            None => array.mapping.checkpoint.roots_mut().was_reset(device, lba),
            Some((segment, _)) => array.media.devices.zones_mut().was_reset(segment, device),
        }
    }
}

/// Returns the first written zone of a device from `from` on. Root zones come first.
fn next_written(device: u8, from: u32, array: &mut Array) -> Option<u32> {
    if let Some(zone) = array.mapping.checkpoint.roots_mut().written(device, from) {
        return Some(zone);
    }
    let zones = array.media.devices.zones();
    let mut segments = from.saturating_sub(ROOT_ZONES)..array.layout().segments;
    let holds = |it: &u32| zones.sent(*it, device) > 0 && !zones.has_failed(*it, device);
    segments.find(holds).map(|segment| segment + ROOT_ZONES)
}

//! Geometry of the devices of a volume, which a new device file adopts.

use hostftl_core::{DeviceKind, SECTOR, Segments};
use hostftl_format::zonefile::head_sectors;
use hostftl_io::{Backing, Device};

/// Geometry for a new device file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerGeometry {
    /// Length of the file in bytes: that of the shortest device.
    pub size: Option<u64>,
    /// Zones of the others; `None` if they are not zoned.
    pub zones: Option<Segments>,
}

impl PeerGeometry {
    /// Returns the geometry of these devices.
    pub(crate) fn from_devices<'a>(devices: impl Iterator<Item = &'a Device>) -> Self {
        let mut it = PeerGeometry::default();
        for device in devices {
            // The size of a zoned file includes its table, which is not part of the device.
            let bytes = device.bytes() + zone_table(device);
            it.size = Some(it.size.map_or(bytes, |least| least.min(bytes)));
            if let DeviceKind::Zoned(zones) = device.info().kind {
                let count = (device.info().sectors / u64::from(zones.size)) as u32;
                let count = it.zones.map_or(count, |others| others.count.min(count));
                it.zones = Some(Segments { count, ..zones });
            }
        }
        it
    }

    /// Returns the number of data sectors that a new device must have; `None` if devices may
    /// differ.
    pub(crate) fn needed(&self) -> Option<u64> {
        self.zones.map(|zones| u64::from(zones.size) * u64::from(zones.count))
    }

    /// Returns the geometry with a file of at least `sectors` sectors.
    pub(crate) fn with_room(self, sectors: u64) -> Self {
        PeerGeometry { size: self.size.map(|size| size.max(sectors * SECTOR as u64)), ..self }
    }
}

/// Returns the bytes of a zoned file before its first zone.
fn zone_table(device: &Device) -> u64 {
    match (device.backing(), device.info().kind) {
        (Backing::File, DeviceKind::Zoned(zones)) => head_sectors(zones.count) * SECTOR as u64,
        _ => 0,
    }
}

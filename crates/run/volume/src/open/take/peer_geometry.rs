//! What is known of the devices of a volume beside which another comes: a file that is made for it
//! is like theirs.

use hostftl_core::{DeviceKind, SECTOR, Segments};
use hostftl_format::zonefile::head_sectors;
use hostftl_io::{Backing, Device};

/// See the module text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// How long the file is, in bytes: as long as the shortest that is there.
    pub size: Option<u64>,
    /// The zones of the others; none where they have none.
    pub zones: Option<Segments>,
}

impl Beside {
    /// That of these devices.
    pub(crate) fn of<'a>(devices: impl Iterator<Item = &'a Device>) -> Self {
        let mut it = Beside::default();
        for device in devices {
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

    /// Sectors of data of which a device that comes has as many as the others; none where they may
    /// differ.
    pub(crate) fn needed(&self) -> Option<u64> {
        self.zones.map(|zones| u64::from(zones.size) * u64::from(zones.count))
    }

    /// The same with a file of at least so many sectors.
    pub(crate) fn with_room(self, sectors: u64) -> Self {
        Beside { size: self.size.map(|size| size.max(sectors * SECTOR as u64)), ..self }
    }
}

/// Bytes of a zoned file before those that its device shows.
fn zone_table(device: &Device) -> u64 {
    match (device.backing(), device.info().kind) {
        (Backing::File, DeviceKind::Zoned(zones)) => head_sectors(zones.count) * SECTOR as u64,
        _ => 0,
    }
}

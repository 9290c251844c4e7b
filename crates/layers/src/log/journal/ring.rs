//! Where records lie on the journal's device.

use hostftl_core::{DeviceInfo, DeviceKind, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::log::journal::MOST_PAGES;

use crate::config::{LayerConfig, PlanError};

/// More slots than this are not used: recovery looks at each.
const MOST_SLOTS: u64 = 512;
/// Fewer make no ring.
const LEAST_SLOTS: u64 = 4;
/// Sectors of blocks in a record, at the most.
const MOST_DATA: u32 = 1024;

/// A ring of slots. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// Slots.
    pub slots: u32,
    /// Sectors of each.
    pub slot: u32,
    /// Sectors of blocks in a record, at the most.
    pub data: u32,
    /// Programs are whole multiples of this.
    pub align: u32,
}

impl Ring {
    /// The ring on a device of a volume with this chunk.
    fn new(device: &DeviceInfo, chunk: u32) -> Result<Self, PlanError> {
        if device.kind != DeviceKind::Block {
            return Err(PlanError("the journal can't lie on a zoned device"));
        }
        let align = device.map_unit.next_multiple_of(SECTORS_PER_BLOCK);
        let data = chunk.min(MOST_DATA);
        let slot = (MOST_PAGES * SECTORS_PER_BLOCK + data).next_multiple_of(align);
        let slots = device.sectors / u64::from(slot);
        if slots < LEAST_SLOTS {
            return Err(PlanError("the journal's device is too small: it must hold four records"));
        }
        Ok(Ring { slots: slots.min(MOST_SLOTS) as u32, slot, data, align })
    }

    /// The slot of a record.
    pub fn slot_of(&self, number: u64) -> u32 {
        (number % u64::from(self.slots)) as u32
    }

    /// The first sector of a slot.
    pub fn at(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.slot)
    }

    /// Bytes of blocks in a record, at the most.
    pub fn bytes(&self) -> u32 {
        self.data * SECTOR as u32
    }
}

/// Segments of so many slots that are kept free for what `rows` open rows of the host held, and
/// those that their stream opens ahead.
pub fn segments_for(rows: u32, slots: u32) -> u32 {
    rows.div_ceil(slots) + 2
}

/// The devices of the rows, and the ring of the journal, whose device is the last.
pub fn split<'a>(
    config: &LayerConfig,
    devices: &'a [DeviceInfo],
) -> Result<(&'a [DeviceInfo], Option<Ring>), PlanError> {
    if !config.log.journal {
        return Ok((devices, None));
    }
    match devices.split_last() {
        Some((journal, rows)) if !rows.is_empty() && rows.len() < 16 => {
            Ok((rows, Some(Ring::new(journal, config.superpage)?)))
        }
        _ => Err(PlanError("log takes 1 to 15 devices and the journal's behind them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;

    #[test]
    fn records_lie_within_the_device() {
        let mut config = LayerConfig::new(LayerKind::Log);
        config.log.journal = true;
        for (unit, chunk) in [(1, 128), (8, 32), (32, 128), (128, 128), (24, 2048)] {
            config.superpage = chunk;
            let devices = [DeviceInfo::block(1 << 20, 8), DeviceInfo::block(20_000, unit)];
            let (rows, ring) = split(&config, &devices).unwrap();
            let ring = ring.unwrap();
            assert_eq!(rows.len(), 1);
            assert!(ring.slot.is_multiple_of(ring.align) && ring.slots >= 4);
            assert!(ring.slot >= ring.data + MOST_PAGES * SECTORS_PER_BLOCK);
            assert!(ring.at(ring.slot_of(u64::from(ring.slots) * 7 - 1) + 1) <= 20_000);
        }
        let small = [DeviceInfo::block(1 << 20, 8), DeviceInfo::block(600, 8)];
        assert!(split(&config, &small).is_err() && split(&config, &small[..1]).is_err());
        config.log.journal = false;
        assert_eq!(split(&config, &small).unwrap(), (&small[..], None));
    }
}

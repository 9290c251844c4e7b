//! Ring of record slots on the journal device.

use alloc::borrow::Cow;

use hostftl_core::{DeviceInfo, DeviceKind, DeviceSet, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::log::journal::MOST_PAGES;

use crate::config::{LayerConfig, PlanError};

/// Maximum number of slots; recovery reads the head of each.
const MOST_SLOTS: u64 = 512;
/// Minimum number of slots.
const LEAST_SLOTS: u64 = 4;
/// Maximum sectors of blocks in a record.
const MOST_DATA: u32 = 1024;

/// Ring of slots. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// Number of its device.
    device: u8,
    /// Number of slots.
    pub slots: u32,
    /// Length of a slot.
    pub slot: u32,
    /// Maximum sectors of blocks in a record.
    pub data: u32,
    /// Alignment: programs are whole multiples of this.
    pub align: u32,
}

impl Ring {
    /// Returns the ring on a device, for a volume with this chunk.
    fn new(number: usize, device: &DeviceInfo, chunk: u32) -> Result<Self, PlanError> {
        if device.kind != DeviceKind::Block {
            return Err(PlanError(
                "log can't use a zoned device as its journal; use a block device",
            ));
        }
        // Slots are whole indirection units, so the drive never reads and merges old data for a
        // record.
        let align = device.iu_sectors.next_multiple_of(SECTORS_PER_BLOCK);
        let data = chunk.min(MOST_DATA);
        let slot = (MOST_PAGES * SECTORS_PER_BLOCK + data).next_multiple_of(align);
        let slots = device.sectors / u64::from(slot);
        if slots < LEAST_SLOTS {
            return Err(PlanError("the journal device is too small; it must hold four records"));
        }
        let (device, slots) = (number as u8, slots.min(MOST_SLOTS) as u32);
        Ok(Ring { device, slots, slot, data, align })
    }

    /// Returns the number of its device.
    pub fn device(&self) -> u8 {
        self.device
    }

    /// Returns the set of its device.
    pub fn device_set(&self) -> DeviceSet {
        DeviceSet::single(self.device)
    }

    /// Returns the slot of a record.
    pub fn record_slot(&self, number: u64) -> u32 {
        (number % u64::from(self.slots)) as u32
    }

    /// Returns the first sector of a slot.
    pub fn at(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.slot)
    }

    /// Returns the maximum bytes of blocks in a record.
    pub fn bytes(&self) -> u32 {
        self.data * SECTOR as u32
    }
}

/// Returns the number of segments of `slots` slots that are reserved for the contents of `stripes`
/// open host stripes, including the next segments of their stream.
pub(crate) fn segments_for(stripes: u32, slots: u32) -> u32 {
    stripes.div_ceil(slots) + 2
}

/// Splits the devices into those of the stripes and the ring of the journal. The journal device is
/// the last one with which the volume was created; devices that were added later follow it. Its
/// place among the devices of the stripes then counts as a removed device, as long as the first.
pub(crate) fn split<'a>(
    config: &LayerConfig,
    devices: &'a [DeviceInfo],
) -> Result<(Cow<'a, [DeviceInfo]>, Option<Ring>), PlanError> {
    if !config.log.journal {
        return Ok((devices.into(), None));
    }
    let made = match config.members.born {
        0 => devices.len(),
        born => usize::from(born).min(devices.len()),
    };
    if !(2..=16).contains(&made) || devices.len() > 16 {
        return Err(PlanError("log takes 1 to 15 devices, followed by the journal device"));
    }
    let number = made - 1;
    let ring = Ring::new(number, &devices[number], config.superpage)?;
    let stripes = if made == devices.len() {
        devices[..number].into()
    } else {
        let mut stripes = devices.to_vec();
        stripes[number] = devices[0].clone();
        stripes.into()
    };
    Ok((stripes, Some(ring)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;

    #[test]
    fn records_fit_the_device() {
        let mut config = LayerConfig::new(LayerKind::Log);
        config.log.journal = true;
        for (unit, chunk) in [(1, 128), (8, 32), (32, 128), (128, 128), (24, 2048)] {
            config.superpage = chunk;
            let devices = [DeviceInfo::block(1 << 20, 8), DeviceInfo::block(20_000, unit)];
            let (stripes, ring) = split(&config, &devices).unwrap();
            let ring = ring.unwrap();
            assert_eq!(stripes.len(), 1);
            assert!(ring.slot.is_multiple_of(ring.align) && ring.slots >= 4);
            assert!(ring.slot >= ring.data + MOST_PAGES * SECTORS_PER_BLOCK);
            assert!(ring.at(ring.record_slot(u64::from(ring.slots) * 7 - 1) + 1) <= 20_000);
        }
        let small = [DeviceInfo::block(1 << 20, 8), DeviceInfo::block(600, 8)];
        assert!(split(&config, &small).is_err() && split(&config, &small[..1]).is_err());
        config.log.journal = false;
        assert_eq!(split(&config, &small).unwrap(), (Cow::from(&small[..]), None));
    }

    #[test]
    fn a_journal_keeps_its_index_between_members() {
        let mut config = LayerConfig::new(LayerKind::Log);
        (config.log.journal, config.superpage) = (true, 32);
        let [one, journal] = [1 << 20, 20_000].map(|sectors| DeviceInfo::block(sectors, 8));
        let devices = [one.clone(), journal.clone(), one.clone(), one.clone()];
        config.members.born = 2;
        let (stripes, ring) = split(&config, &devices).unwrap();
        assert_eq!((stripes.len(), ring.unwrap().device()), (4, 1));
        assert!(stripes.iter().all(|it| *it == one));
        config.members.born = 0;
        assert_eq!(split(&config, &devices[..2]).unwrap().1.unwrap(), ring.unwrap());
    }
}

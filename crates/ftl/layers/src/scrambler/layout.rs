//! Positions on the device, and the size of the exported volume.
//!
//! The device is divided into pages of its map unit: four pages for the roots (two roots of two
//! copies), two areas of map images, a ring of log, and the data pages, each with the same number
//! of slots.

use hostftl_core::{Ack, DeviceInfo, DeviceKind, Limits, SECTORS_PER_BLOCK};
use hostftl_format::scrambler::MAP_ENTRIES;

use super::pages;
use super::params::{BY_REQUESTS, DEFAULT_SLOT, Params};
use crate::plan::{Plan, PlanError};

/// Maximum number of pages written concurrently.
pub(super) const FILLS: usize = 16;
/// Maximum number of waiting log pages, and of log pages in one round.
pub(super) const PENDING_PAGES: u32 = 4;
/// Minimum number of data pages that are not exported.
const LEAST_SPARE: u64 = 8;
/// Number of slots that a device must stay below: slots are 32-bit numbers.
const MOST_SLOTS: u64 = u32::MAX as u64 - 1;
/// Minimum number of data pages.
const LEAST_PAGES: u64 = 24;
/// Maximum length of a transfer in sectors: 1 MiB.
const MAX_TRANSFER: u32 = 2048;
/// Minimum number of log pages in the ring.
const LEAST_RING: u32 = 16 * PENDING_PAGES;

/// Sizes and positions of everything on the device. Lengths are in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Length of a page of the device.
    pub page: u32,
    /// Length of a slot.
    pub slot: u32,
    /// Number of slots in a page.
    pub per_page: u32,
    /// Number of pages in an area of images.
    pub area: u32,
    /// Number of pages in the ring.
    pub ring: u32,
    /// Number of data pages.
    pub count: u32,
    /// Number of logical slots.
    pub slots: u32,
    discards: bool,
}

impl Layout {
    /// Lays out the device. `spare` is the share of the data that is not exported, in thousandths.
    ///
    /// # Errors
    /// If the device or the parameters do not fit the layer.
    pub(super) fn new(
        params: &Params,
        spare: u32,
        devices: &[DeviceInfo],
    ) -> Result<Self, PlanError> {
        let [device] = devices else {
            return Err(PlanError("scrambler takes exactly one device"));
        };
        if !device.collection_hint || device.kind != DeviceKind::Block {
            return Err(PlanError(
                "scrambler needs a block device that reports its next GC victim; use a drive with \
                 hint=true",
            ));
        }
        let Params { slot, .. } = *params;
        let page = device.iu_sectors;
        if slot == BY_REQUESTS {
            return Err(PlanError(
                "scrambler: slot=auto needs a sample of the requests; set slot \
                 to a size",
            ));
        }
        let slot = match slot {
            0 => page,
            DEFAULT_SLOT => Self::default_slot(device.sectors, page),
            slot => slot,
        };
        if !page.is_multiple_of(SECTORS_PER_BLOCK) || page > MAX_TRANSFER {
            return Err(PlanError(
                "scrambler needs an indirection unit of 4 KiB to 1 MiB, in steps \
                 of 4 KiB",
            ));
        }
        if !page.is_multiple_of(slot) || page / slot > pages::MOST_SLOTS {
            return Err(PlanError(
                "scrambler: a page of the device must hold 1 to 64 slots; set slot to a divisor \
                 of the page",
            ));
        }
        let cut = Self::cut(spare, device.sectors / u64::from(page), page, slot)?;
        Ok(Layout { discards: device.discard, ..cut })
    }

    /// Returns the slot size of the default: 4 KiB, doubled while the device has too many slots.
    fn default_slot(sectors: u64, page: u32) -> u32 {
        let mut slot = DEFAULT_SLOT;
        while sectors / u64::from(slot) >= MOST_SLOTS && page.is_multiple_of(2 * slot) {
            slot *= 2;
        }
        slot
    }

    fn cut(spare: u32, total: u64, page: u32, slot: u32) -> Result<Self, PlanError> {
        let (per_page, blocks) = (page / slot, page / SECTORS_PER_BLOCK);
        let slots = total * u64::from(per_page);
        if slots >= MOST_SLOTS {
            return Err(PlanError(
                "scrambler maps less than 2^32 slots, 64 TiB with slots of 16 KiB; use larger \
                 slots (slot=), up to a page of the device",
            ));
        }
        let area = slots.div_ceil(MAP_ENTRIES as u64).div_ceil(blocks.into()) as u32;
        let ring = LEAST_RING.div_ceil(blocks).max(2 * area);
        let own = u64::from(4 + 2 * area + ring);
        let count = total.saturating_sub(own);
        if count < LEAST_PAGES {
            return Err(PlanError("scrambler: the device is too small; use a larger one"));
        }
        let spare = (count * u64::from(spare) / 1000).max(LEAST_SPARE);
        let slots = (count - spare.min(count - 1)) * u64::from(per_page);
        let (count, slots) = (count as u32, slots as u32);
        let discards = false;
        Ok(Layout { page, slot, per_page, area, ring, count, slots, discards })
    }

    /// Returns whether the device supports discards.
    pub(super) fn discards(&self) -> bool {
        self.discards
    }

    /// Returns the resources and limits of the layer.
    pub(super) fn plan(&self, map_bytes: u64, meta_bytes: u64) -> Plan {
        let limits = Limits {
            exported: u64::from(self.slots) * u64::from(self.slot),
            max_transfer: MAX_TRANSFER / self.page * self.page,
            align: self.page,
            ack: Ack::Media,
        };
        let (buffers, buffer_sectors) = (FILLS as u32, self.page);
        Plan { limits, buffers, buffer_sectors, map_bytes, meta_bytes }
    }

    /// Returns the number of 4 KiB metadata pages in a page of the device.
    pub(super) fn blocks(&self) -> u32 {
        self.page / SECTORS_PER_BLOCK
    }

    /// Returns the number of log pages in the ring.
    pub(super) fn ring_len(&self) -> u64 {
        u64::from(self.ring) * u64::from(self.blocks())
    }

    /// Returns the sector of a copy of a root.
    pub(super) fn root_at(&self, number: u64, copy: u32) -> u64 {
        (number % 2 * 2 + u64::from(copy)) * u64::from(self.page)
    }

    /// Returns the sector of a page of images.
    pub(super) fn image_at(&self, area: u32, index: u32) -> u64 {
        u64::from(4 + area * self.area + index) * u64::from(self.page)
    }

    /// Returns the sector of a log page.
    pub(super) fn log_at(&self, seq: u64) -> u64 {
        let from = u64::from(4 + 2 * self.area) * u64::from(self.page);
        from + seq % self.ring_len() * u64::from(SECTORS_PER_BLOCK)
    }

    /// Returns the sector of a data page.
    pub(super) fn data_at(&self, page: u32) -> u64 {
        let from = u64::from(4 + 2 * self.area + self.ring) + u64::from(page);
        from * u64::from(self.page)
    }

    /// Returns the sector of a slot.
    pub(super) fn slot_at(&self, slot: u32) -> u64 {
        self.data_at(0) + u64::from(slot) * u64::from(self.slot)
    }

    /// Returns the data page that contains a sector, or `None` outside the data.
    pub(super) fn page_at(&self, lba: u64) -> Option<u32> {
        let index = lba.checked_sub(self.data_at(0))? / u64::from(self.page);
        u32::try_from(index).ok().filter(|index| *index < self.count)
    }
}

//! Where everything lies on the device, and how much of it the host gets.
//!
//! The device is cut into pages, its map units: four for the roots (two slots, each written twice),
//! two areas for images of the map, a ring of log, and those for data, each with the same number
//! of slots.

use hostftl_core::{Ack, DeviceInfo, DeviceKind, Limits, SECTORS_PER_BLOCK};
use hostftl_format::scrambler::MAP_ENTRIES;

use super::pages;
use super::params::{BY_REQUESTS, Params};
use crate::plan::{Plan, PlanError};

/// Pages that are written at the same time.
pub(super) const FILLS: usize = 16;
/// Log pages that can wait, and that one round writes.
pub(super) const PENDING_PAGES: u32 = 4;
/// Pages of data that the host never gets, at least.
const LEAST_SPARE: u64 = 8;
/// The fewest pages of data.
const LEAST_PAGES: u64 = 24;
/// The longest transfer, in sectors: 1 MiB.
const MAX_TRANSFER: u32 = 2048;
/// Log pages in the ring, at least.
const LEAST_RING: u32 = 16 * PENDING_PAGES;

/// See the module text. Lengths are in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// A page of the device.
    pub page: u32,
    /// A slot.
    pub slot: u32,
    /// Slots in a page.
    pub per_page: u32,
    /// Pages of an area for images.
    pub area: u32,
    /// Pages of the ring.
    pub ring: u32,
    /// Pages for data.
    pub count: u32,
    /// Logical slots.
    pub slots: u32,
    discards: bool,
}

impl Layout {
    /// Lays the device out, with so many thousandths of it that the host never gets.
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
                "scrambler needs a block device that tells what it collects next, and this one \
                 doesn't: use a drive with hint=true",
            ));
        }
        let Params { slot, .. } = *params;
        let page = device.map_unit;
        if slot == BY_REQUESTS {
            return Err(PlanError("scrambler: slot=auto is chosen by a sample of the requests"));
        }
        let slot = if slot == 0 { page } else { slot };
        if !page.is_multiple_of(SECTORS_PER_BLOCK) || page > MAX_TRANSFER {
            return Err(PlanError("scrambler needs a map unit in whole 4 KiB, of 1 MiB at most"));
        }
        if !page.is_multiple_of(slot) || page / slot > pages::MOST_SLOTS {
            return Err(PlanError(
                "scrambler: a page of the device is 1 to 64 slots: set slot to a divisor of it",
            ));
        }
        let cut = Self::cut(spare, device.sectors / u64::from(page), page, slot)?;
        Ok(Layout { discards: device.discard, ..cut })
    }

    fn cut(spare: u32, total: u64, page: u32, slot: u32) -> Result<Self, PlanError> {
        let (per_page, blocks) = (page / slot, page / SECTORS_PER_BLOCK);
        let slots = total * u64::from(per_page);
        if slots >= u64::from(u32::MAX) - 1 {
            return Err(PlanError(
                "scrambler maps less than 2^32 slots, 16 TiB with slots of 4 KiB: use larger ones \
                 (slot=), as large as a page of the device at most",
            ));
        }
        let area = slots.div_ceil(MAP_ENTRIES as u64).div_ceil(blocks.into()) as u32;
        let ring = LEAST_RING.div_ceil(blocks).max(2 * area);
        let own = u64::from(4 + 2 * area + ring);
        let count = total.saturating_sub(own);
        if count < LEAST_PAGES {
            return Err(PlanError("scrambler: the device is too small"));
        }
        let spare = (count * u64::from(spare) / 1000).max(LEAST_SPARE);
        let slots = (count - spare.min(count - 1)) * u64::from(per_page);
        let (count, slots) = (count as u32, slots as u32);
        let discards = false;
        Ok(Layout { page, slot, per_page, area, ring, count, slots, discards })
    }

    /// Whether the device discards.
    pub(super) fn discards(&self) -> bool {
        self.discards
    }

    /// What the layer needs and gives.
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

    /// Metadata pages of 4 KiB in a page of the device.
    pub(super) fn blocks(&self) -> u32 {
        self.page / SECTORS_PER_BLOCK
    }

    /// Log pages in the ring.
    pub(super) fn ring_len(&self) -> u64 {
        u64::from(self.ring) * u64::from(self.blocks())
    }

    /// The sector of a copy of the root with a number.
    pub(super) fn root_at(&self, number: u64, copy: u32) -> u64 {
        (number % 2 * 2 + u64::from(copy)) * u64::from(self.page)
    }

    /// The sector of a page of images.
    pub(super) fn image_at(&self, area: u32, index: u32) -> u64 {
        u64::from(4 + area * self.area + index) * u64::from(self.page)
    }

    /// The sector of a log page.
    pub(super) fn log_at(&self, seq: u64) -> u64 {
        let from = u64::from(4 + 2 * self.area) * u64::from(self.page);
        from + seq % self.ring_len() * u64::from(SECTORS_PER_BLOCK)
    }

    /// The sector of a page for data.
    pub(super) fn data_at(&self, page: u32) -> u64 {
        let from = u64::from(4 + 2 * self.area + self.ring) + u64::from(page);
        from * u64::from(self.page)
    }

    /// The sector of a slot.
    pub(super) fn slot_at(&self, slot: u32) -> u64 {
        self.data_at(0) + u64::from(slot) * u64::from(self.slot)
    }

    /// The page for data that begins at a sector, if one does.
    pub(super) fn page_at(&self, lba: u64) -> Option<u32> {
        let index = lba.checked_sub(self.data_at(0))? / u64::from(self.page);
        u32::try_from(index).ok().filter(|index| *index < self.count)
    }
}

//! Positions on the devices: two roots, the directory and the slots on the fast device, the pages
//! and the ledger on the slow one.

use hostftl_core::{DeviceInfo, DeviceKind, SECTORS_PER_BLOCK};
use hostftl_format::tier::{ENTRIES, LEDGER_SECTORS, MOST_PAGES};

use crate::config::PlanError;

/// Index of the fast device.
pub(super) const FAST: u8 = 0;
/// Index of the slow device.
pub(super) const SLOW: u8 = 1;
/// Maximum length of a transfer in sectors: 1 MiB.
pub(super) const MAX_TRANSFER: u32 = 2048;
/// Minimum number of slots.
const LEAST_SLOTS: u32 = 4;
/// The first sector of the directory.
const DIRECTORY: u64 = 2 * SECTORS_PER_BLOCK as u64;

/// Sizes and positions of everything on the two devices. Lengths are in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Length of a page, the unit of movement.
    pub page: u32,
    /// Number of slots on the fast device.
    pub slots: u32,
    /// Number of pages of the directory; each has two places.
    pub directory: u32,
    /// The first sector of slot 0.
    pub first: u64,
    /// Number of pages of the slow device.
    pub pages: u32,
    /// Sectors of the slow device, including the ledger.
    pub slow: u64,
}

impl Layout {
    /// Lays out a stack of two devices.
    ///
    /// # Errors
    /// If the devices or the page size do not fit the layer.
    pub(super) fn new(page: u32, devices: &[DeviceInfo]) -> Result<Self, PlanError> {
        let [fast, slow] = devices else {
            return Err(PlanError("tier takes two devices; name the fast one first"));
        };
        if fast.kind != DeviceKind::Block || slow.kind != DeviceKind::Block {
            return Err(PlanError("tier needs block devices"));
        }
        if page == 0 || !page.is_multiple_of(SECTORS_PER_BLOCK) || page > MAX_TRANSFER {
            return Err(PlanError("tier needs a page of 4 KiB to 1 MiB, in steps of 4 KiB"));
        }
        let wide = u64::from(page);
        let pages = slow.sectors.saturating_sub(LEDGER_SECTORS) / wide;
        let most = (fast.sectors.saturating_sub(DIRECTORY) / wide).min(pages);
        if pages > MOST_PAGES.into() {
            return Err(PlanError(
                "tier maps less than 2^32 pages of the slow device, 64 TiB with pages of 16 KiB; \
                 use larger pages (256 TiB with page=64k)",
            ));
        }
        // The directory grows with the slots, but takes less than one slot in a thousand.
        let mut slots = most as u32;
        loop {
            let directory = slots.div_ceil(ENTRIES as u32);
            let end = DIRECTORY + u64::from(2 * directory * SECTORS_PER_BLOCK);
            let first = end.next_multiple_of(wide);
            let fit = (fast.sectors.saturating_sub(first) / wide) as u32;
            if slots < LEAST_SLOTS {
                return Err(PlanError(
                    "tier needs devices that hold at least four pages and a \
                     directory",
                ));
            }
            if slots <= fit {
                let (pages, slow) = (pages as u32, slow.sectors);
                return Ok(Layout { page, slots, directory, first, pages, slow });
            }
            slots = fit.min(slots - 1);
        }
    }

    /// Returns the exported size in sectors.
    pub(super) fn exported(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page)
    }

    /// Returns the first sector of a slot on the fast device.
    #[inline]
    pub(super) fn slot_at(&self, slot: u32) -> u64 {
        self.first + u64::from(slot) * u64::from(self.page)
    }

    /// Returns the first sector of a page on the slow device.
    #[inline]
    pub(super) fn page_at(&self, page: u32) -> u64 {
        u64::from(page) * u64::from(self.page)
    }

    /// Returns the sector of a root.
    pub(super) fn root_at(number: u64) -> u64 {
        number % 2 * u64::from(SECTORS_PER_BLOCK)
    }

    /// Returns the sector of a page of the directory in a generation.
    pub(super) fn directory_at(page: u32, generation: u64) -> u64 {
        let place = u64::from(page) * 2 + generation % 2;
        DIRECTORY + place * u64::from(SECTORS_PER_BLOCK)
    }

    /// Returns the slots whose entries a page of the directory contains.
    pub(super) fn page_slots(&self, page: u32) -> core::ops::Range<u32> {
        let first = page * ENTRIES as u32;
        first..(first + ENTRIES as u32).min(self.slots)
    }

    /// Returns the page of the directory that contains a slot's entry.
    #[inline]
    pub(super) fn directory_page(slot: u32) -> u32 {
        slot / ENTRIES as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_fits_the_devices() {
        for fast in [200, 1000, 4099, 1 << 20] {
            let devices = [DeviceInfo::block(fast, 8), DeviceInfo::block(1 << 24, 8)];
            let layout = Layout::new(32, &devices).unwrap();
            let directory = Layout::directory_at(layout.directory - 1, 1) + 8;
            assert!(directory <= layout.first);
            assert!(layout.slot_at(layout.slots) <= fast);
            assert!(layout.slot_at(layout.slots) + 2 * 32 + 16 > fast, "hardly any is left over");
        }
    }

    #[test]
    fn unsuitable_devices_are_refused() {
        let of = |fast, slow| Layout::new(32, &[DeviceInfo::block(fast, 8), slow]);
        assert!(of(100, DeviceInfo::block(1 << 20, 8)).is_err());
        assert!(of(1 << 20, DeviceInfo::block(1 << 40, 8)).is_err(), "too many pages");
        assert!(Layout::new(32, &[DeviceInfo::block(1 << 20, 8)]).is_err());
        let small = of(1 << 20, DeviceInfo::block(336, 8)).unwrap();
        assert_eq!(small.slots, 10, "no more slots than pages");
    }
}

//! Where everything lies on the device, and how much of it the host gets.
//!
//! The device is cut into superpages: four for the roots (two slots, each written twice), two for
//! each map group (images alternate), and the rest for data.

use hostftl_core::{Ack, DeviceInfo, DeviceKind, Limits, SECTORS_PER_BLOCK};
use hostftl_format::hard::{MAP_ENTRIES, ROOT_GENERATIONS};

use crate::config::{LayerConfig, Plan, PlanError};

/// Data superpages that are kept spare at the least, so that collection always gains.
pub const MIN_SPARE: u32 = 64;
/// Superpages that may be open or on their way to the device; each has a staging buffer.
pub const STAGES: u32 = 8;
/// The longest transfer, in sectors: 1 MiB.
pub const MAX_TRANSFER: u32 = 2048;
/// The largest superpage, in sectors: a step looks at every staged slot at the most.
const MAX_SUPERPAGE: u32 = 2048;

/// The geometry of a `hard` volume. Lengths are in sectors unless they say superpages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Sectors in a superpage.
    pub superpage: u32,
    /// Superpages in one copy of a root.
    pub root: u32,
    /// Map groups.
    pub groups: u32,
    /// Superpages in the data area.
    pub count: u32,
    /// Sectors that the host sees.
    pub exported: u64,
}

impl Layout {
    /// The layout on one device.
    pub fn new(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Self, PlanError> {
        let [device] = devices else {
            return Err(PlanError("hard takes exactly one device"));
        };
        if device.kind != DeviceKind::Block {
            return Err(PlanError("hard needs a device that can be written anywhere"));
        }
        let sp = config.superpage;
        if !(2 * SECTORS_PER_BLOCK..=MAX_SUPERPAGE).contains(&sp)
            || !sp.is_multiple_of(SECTORS_PER_BLOCK)
        {
            return Err(PlanError("hard needs a superpage of 8 KiB to 1 MiB, in steps of 4 KiB"));
        }
        if config.spare_permille > 900 {
            return Err(PlanError("hard needs a spare share of at most 90 %"));
        }
        let total = device.sectors / u64::from(sp);
        if (total + 1) * u64::from(sp) > u64::from(u32::MAX) {
            return Err(PlanError("hard maps at most 2 TiB"));
        }
        Self::fit(sp, total as u32, config.spare_permille)
    }

    /// The map area depends on what is exported, and that on the map area: go round until it rests.
    fn fit(sp: u32, total: u32, permille: u32) -> Result<Self, PlanError> {
        let too_small = PlanError("the device is too small for hard with this superpage");
        let pages = sp / SECTORS_PER_BLOCK;
        let mut groups: u32 = 0;
        loop {
            let root = (1 + groups.div_ceil(ROOT_GENERATIONS as u32)).div_ceil(pages);
            let fixed = 4 * root + 2 * groups;
            let count = total.checked_sub(fixed).ok_or(too_small)?;
            let spare = (u64::from(count) * u64::from(permille)).div_ceil(1000) as u32;
            let live = count.checked_sub(spare.max(MIN_SPARE)).ok_or(too_small)?;
            if live == 0 {
                return Err(too_small);
            }
            let exported = u64::from(live) * u64::from(sp);
            let need = exported.div_ceil(u64::from(pages) * MAP_ENTRIES as u64) as u32;
            if need <= groups {
                return Ok(Layout { superpage: sp, root, groups, count, exported });
            }
            groups = need;
        }
    }

    /// What the layer needs and gives.
    pub fn plan(&self) -> Plan {
        let limits = Limits {
            exported: self.exported,
            max_transfer: MAX_TRANSFER,
            align: self.superpage.min(MAX_TRANSFER),
            ack: Ack::Buffer,
        };
        let map_bytes = 4 * (self.exported + u64::from(self.count) * u64::from(self.superpage));
        Plan { limits, buffers: STAGES, buffer_sectors: self.superpage, map_bytes }
    }

    /// Metadata pages in a superpage.
    pub fn pages(&self) -> u32 {
        self.superpage / SECTORS_PER_BLOCK
    }

    /// Map entries in a group.
    pub fn group_entries(&self) -> u64 {
        u64::from(self.pages()) * MAP_ENTRIES as u64
    }

    /// The first sector of root copy `copy` (0 or 1) of root `number`.
    pub fn root_at(&self, number: u64, copy: u32) -> u64 {
        let index = (number % 2) as u32 * 2 + copy;
        u64::from(index * self.root) * u64::from(self.superpage)
    }

    /// Pages in a root.
    pub fn root_pages(&self) -> u32 {
        1 + self.groups.div_ceil(ROOT_GENERATIONS as u32)
    }

    /// The first sector of the image of `group` with `generation`.
    pub fn group_at(&self, group: u32, generation: u32) -> u64 {
        u64::from(4 * self.root + 2 * group + generation % 2) * u64::from(self.superpage)
    }

    /// The first sector of data superpage `vsp`.
    pub fn data_at(&self, vsp: u32) -> u64 {
        u64::from(4 * self.root + 2 * self.groups + vsp) * u64::from(self.superpage)
    }

    /// Superpages that must be free before the host may open one.
    pub fn reserve(&self) -> u32 {
        FLOOR + 16 + self.count / 256
    }

    /// Superpages that hold log writes before a checkpoint is urgent.
    pub fn max_pinned(&self) -> u32 {
        ((self.count - (self.exported / u64::from(self.superpage)) as u32) / 4).max(8)
    }

    /// Superpages that may be opened between two checkpoints: this bounds recovery.
    pub fn interval(&self) -> u32 {
        (self.count / 2).clamp(64, 262_144)
    }
}

/// Superpages that collection leaves free for log writes.
pub const FLOOR: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LayerKind;

    #[test]
    fn the_paper_s_drive_needs_about_512_mib() {
        let config = LayerConfig::new(LayerKind::Hard);
        let layout = Layout::new(&config, &[DeviceInfo::block(1 << 26, 128)]).unwrap();
        let used = 4 * layout.root + 2 * layout.groups + layout.count;
        assert!(used <= (1 << 19) && used > (1 << 19) - 3);
        let mib = layout.plan().map_bytes >> 20;
        assert!((480..=512).contains(&mib), "{mib} MiB");
    }

    #[test]
    fn a_device_that_is_too_small_is_refused() {
        let config = LayerConfig::new(LayerKind::Hard);
        assert!(Layout::new(&config, &[DeviceInfo::block(64 * 128, 128)]).is_err());
        assert!(Layout::new(&config, &[DeviceInfo::block(80 * 128, 128)]).is_ok());
    }
}

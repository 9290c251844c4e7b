//! Resources and capacity of a log volume.

use hostftl_core::{Ack, Limits, SECTORS_PER_BLOCK};

use crate::config::Plan;
use crate::log::devices::membership::Membership;
use crate::log::gc::lane::Lane;
use crate::log::layout::{Layout, MAX_TRANSFER};
use crate::log::map::size::FRAME_BYTES;
use crate::log::params::Params;
use crate::log::segments::Segments;
use crate::log::zoned::write_pointers::Pointers;
use crate::policy::Separator;

impl Layout {
    /// Returns the resources and the capacity, given the number of buffers and their sectors.
    pub fn plan(&self, params: &Params, (buffers, buffer_sectors): (u32, u32)) -> Plan {
        let limits = Limits {
            exported: self.blocks * u64::from(SECTORS_PER_BLOCK),
            max_transfer: MAX_TRANSFER,
            align: SECTORS_PER_BLOCK,
            ack: Ack::Buffer,
        };
        // For each map page: its frame number, its image, and two marks.
        let tables = u64::from(self.tree.pages) * (4 + 12) + u64::from(self.tree.pages).div_ceil(4);
        let rates = Separator::memory(params.separation, self.reserves.classes, self.blocks);
        let map_bytes = u64::from(self.tree.frames) * FRAME_BYTES + tables + rates;
        let membership = Membership::BYTES * u64::from(self.segments);
        let segments = Segments::memory(self, params.gc) + Pointers::memory(self) + membership;
        let meta_bytes = segments + Lane::memory(self);
        Plan { limits, buffers, buffer_sectors, map_bytes, meta_bytes }
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::DeviceInfo;

    use super::*;
    use crate::config::LayerConfig;
    use crate::kind::LayerKind;

    /// Returns the sectors of a segment on one device of `gib` GiB with a reclaim unit of `mib`
    /// MiB.
    fn column(gib: u64, spare_permille: u32, mib: u64) -> u32 {
        let config = LayerConfig { spare_permille, ..LayerConfig::new(LayerKind::Log) };
        let device = DeviceInfo { reclaim_unit: mib << 11, ..DeviceInfo::block(gib << 21, 128) };
        let layout = Layout::new(&config, &[device]).unwrap();
        assert_eq!(layout.column, layout.slots * layout.chunk);
        layout.column
    }

    #[test]
    fn segments_match_or_divide_the_reclaim_unit() {
        let mib = |sectors: u32| sectors >> 11;
        assert_eq!(mib(column(16, 300, 64)), 64);
        assert_eq!(mib(column(4, 300, 64)), 32, "else the reserves exceed the spare");
        assert_eq!(mib(column(4, 70, 64)), 4, "no part of it leaves enough: as without one");
        assert_eq!(mib(column(4, 70, 0)), 4);
        assert_eq!(mib(column(8 << 10, 70, 1 << 10)), 1 << 10);
        assert!(mib(column(128 << 10, 70, 256 << 10)) <= 64 << 10, "grains of more have no count");
    }
}

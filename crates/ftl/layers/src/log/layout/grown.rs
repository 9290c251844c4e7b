//! Layouts of volumes after devices were added or removed.
//!
//! The position of segments never changes: they are laid out for the devices with which the volume
//! was created, and each device reserves space for the roots of a volume of sixteen devices. The
//! width of stripes changes, and with it the exported capacity.

use hostftl_core::{DeviceSet, SECTORS_PER_BLOCK};
use hostftl_format::log::{COUNTS, PAIRS, root_pages};

use super::{Layout, MOST_SEGMENT, Room, Tree};
use crate::config::PlanError;

/// Maximum number of devices.
const MOST_DEVICES: u64 = 16;
/// Maximum number of map pages.
const MOST_PAGES: u64 = 1 << 31;

impl Layout {
    /// Returns the layout of a volume with only the first `born` of these devices, or all if that
    /// is 0.
    pub(super) fn with_first(&self, born: u8) -> Self {
        let devices = if born == 0 { self.devices } else { born.min(self.devices) };
        let all = DeviceSet::first_n(devices.into());
        Layout { devices, members: all, stay: all, ..*self }
    }

    /// Returns this layout with the segments of the volume at its creation, and with `exported`
    /// sectors exported unless that is 0.
    pub(super) fn grown_from(
        &self,
        made: &Layout,
        room: &Room,
        exported: u64,
    ) -> Result<Self, PlanError> {
        let as_made = (made.devices, made.stay) == (self.devices, self.stay);
        if as_made && made.members == self.members && exported == 0 {
            return Ok(*made);
        }
        if u64::from(self.width()) * u64::from(made.column) > MOST_SEGMENT {
            return Err(PlanError("log can't take more devices: its segments are too long"));
        }
        // Root zones contain many roots, which would be longer for a larger map. So additional
        // zoned devices only add spare.
        let is_fixed = exported > 0 || self.zoned;
        let fixed = exported / u64::from(SECTORS_PER_BLOCK);
        let blocks = match (is_fixed, exported) {
            (false, _) => self.blocks,
            (true, 0) => made.blocks,
            (true, _) => fixed,
        };
        // Roots have at least as many directory pages as before.
        let Layout { slots, column, tree: Tree { pages, directories, counts, .. }, .. } = *made;
        let mut tree = self.tree;
        (tree.pages, tree.directories, tree.counts) = (pages, directories, counts);
        Layout { slots, column, blocks, tree, ..*self }.fit(room, is_fixed)
    }

    /// Returns the sectors of the root of the widest volume that this one may become.
    pub(super) fn widest_root(&self, sectors: u64) -> u32 {
        if self.zoned {
            return 0;
        }
        let segments = sectors / u64::from(self.column);
        let chunk = u64::from(self.chunk / SECTORS_PER_BLOCK);
        let blocks = segments * u64::from(self.slots) * chunk * MOST_DEVICES;
        let pages = blocks.div_ceil(self.tree.pairs()).min(MOST_PAGES);
        let pointed = pages.div_ceil(PAIRS as u64) + segments.div_ceil(COUNTS as u64);
        root_pages(pointed as u32) * SECTORS_PER_BLOCK
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::DeviceInfo;

    use super::*;
    use crate::config::LayerConfig;
    use crate::kind::LayerKind;

    #[test]
    fn membership_changes_keep_roots_and_segments() {
        for step in 0..200_u64 {
            let device = DeviceInfo::block((32 << 11) + step * 1000, 8);
            let mut config = LayerConfig::new(LayerKind::Log);
            (config.log.parity, config.log.few_pairs) = ((step % 3) as u8, true);
            config.log.map_memory = Some(0);
            let made = Layout::new(&config, &alloc::vec![device.clone(); 4]).unwrap();
            let exported = made.blocks * u64::from(SECTORS_PER_BLOCK);
            config.members.born = 4;
            let (mut leaves, mut spare, wider) = (config.clone(), config.clone(), config);
            (leaves.members.leaving, leaves.exported) = (DeviceSet::single(0), exported);
            (spare.members.spare, spare.exported) = (DeviceSet::single(4), exported);
            for (config, devices) in [(leaves, 4), (spare, 5), (wider, 6)] {
                let it = Layout::new(&config, &alloc::vec![device.clone(); devices]).unwrap();
                let places =
                    |it: &Layout| (it.first(), it.slots, it.column, it.segments, it.tree.room());
                assert_eq!((places(&it), it.tree.counts), (places(&made), made.tree.counts));
                assert!(it.tree.directories >= made.tree.directories && it.blocks >= made.blocks);
                assert!(it.root() <= it.tree.room(), "the root has room");
                assert!(it.tree.frames >= made.tree.frames, "replayed data has space");
            }
        }
    }

    /// Segments of a large device whose reclaim unit is unknown, or that has phases, are not so
    /// long that more devices could not join.
    #[test]
    fn a_volume_on_a_large_device_can_grow_to_sixteen() {
        for unit in [0, 64 << 11, 1 << 21] {
            let block = DeviceInfo::block(61 << 31, 128);
            let device = DeviceInfo { reclaim_unit: unit, ..block };
            let mut config = LayerConfig::new(LayerKind::Log);
            config.choose(core::slice::from_ref(&device), None);
            config.members.born = 1;
            let grown = Layout::new(&config, &alloc::vec![device; 16]);
            assert!(grown.is_ok(), "unit {unit}: {grown:?}");
        }
    }
}

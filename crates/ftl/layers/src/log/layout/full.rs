//! Bound of the valid data on devices that hold less than the volume exports, because it was
//! created so or devices were removed.

use hostftl_core::{DeviceInfo, DeviceSet, SECTORS_PER_BLOCK};
use hostftl_format::log::GRAIN;

use super::{Layout, Reserves};
use crate::config::LayerConfig;
use crate::plan::PlanError;

impl LayerConfig {
    /// Returns the maximum export, in sectors, of a new `log` volume on `devices` whose redundancy
    /// returns after the loss of any one of them without a new device.
    ///
    /// # Errors
    /// If no volume is possible on `devices`, or none without one of them.
    pub fn export_without_one(&self, devices: &[DeviceInfo]) -> Result<u64, PlanError> {
        let layout = Layout::new(self, devices)?;
        let kept = layout.reserves.kept() + layout.margin();
        let without = |lost| layout.blocks_on(layout.members - DeviceSet::single(lost), kept);
        match layout.members.iter().map(without).min() {
            None | Some(0) => Err(PlanError("log has no room for its data without one device")),
            Some(least) => Ok(layout.blocks.min(least) * u64::from(SECTORS_PER_BLOCK)),
        }
    }
}

impl Layout {
    /// Returns the maximum valid grains on these members; `None` if all exported blocks fit. After
    /// a removal only the space that garbage collection needs is kept free. A very small volume
    /// without any remaining space has no bound: no device can be removed from such a volume now,
    /// and one changed by an earlier version refuses writes only when garbage collection finds no
    /// space.
    pub fn valid_limit(&self, members: DeviceSet, reserves: &Reserves) -> Option<u64> {
        let held = if members == self.members { reserves.held } else { reserves.kept() };
        let most = self.valid_limit_on(members, held);
        (0 < most && most < u64::MAX).then_some(most)
    }

    /// Returns the free segments, beyond the reserves, without which data does not begin to move to
    /// fewer devices.
    pub fn margin(&self) -> u32 {
        2 + self.segments / 32
    }

    /// Returns the maximum valid grains in stripes on these devices while `kept` segments stay
    /// free. Compressed records waste less than a block of each chunk. Returns `u64::MAX` if all
    /// blocks fit uncompressed.
    pub fn valid_limit_on(&self, members: DeviceSet, kept: u32) -> u64 {
        let fits = self.blocks_on(members, kept);
        if fits == 0 {
            return 0;
        }
        if self.blocks <= fits {
            return u64::MAX;
        }
        let each = u64::from(self.chunk / SECTORS_PER_BLOCK);
        fits * (each - 1) / each * u64::from(4096 / GRAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;
    use crate::log::chunk_placement::set;

    #[test]
    fn capacity_shrinks_with_devices_and_ignores_thin_exports() {
        let devices = alloc::vec![DeviceInfo::block(32 << 11, 8); 4];
        let mut config = LayerConfig::new(LayerKind::Log);
        let plain = Layout::new(&config, &devices).unwrap();
        let most_live = |it: &Layout, members| it.valid_limit(members, &it.reserves);
        assert_eq!(most_live(&plain, set(0b1111)), None);
        let three = most_live(&plain, set(0b1011)).expect("a quarter is gone");
        assert!(three < plain.valid_limit_on(set(0b1011), 0).min(plain.blocks * 256));
        assert!(most_live(&plain, set(0b0011)).expect("half is gone") < three);
        config.log.logical_size = Some(1 << 30);
        let thin = Layout::new(&config, &devices).unwrap();
        let most = most_live(&thin, set(0b1111)).expect("it exports more than fits");
        assert!(0 < most && most <= plain.blocks * 256, "it keeps more free for its map");
    }
}

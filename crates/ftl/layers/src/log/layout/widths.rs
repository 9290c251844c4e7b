//! Width of the stripes of segments on a set of devices, and the resulting capacity.

use hostftl_core::{DeviceInfo, DeviceSet};

use super::Layout;
use super::lengths::MOST_DEVICES;

impl Layout {
    /// Returns the lengths up to which the devices may be used, in descending order. At each length
    /// there are enough devices for data besides parity. Zoned devices all have the same number of
    /// zones.
    pub(super) fn usable_lengths(
        &self,
        devices: &[DeviceInfo],
    ) -> impl Iterator<Item = u64> + use<> {
        let mut lengths = [0; MOST_DEVICES];
        let those = self.members.iter().filter_map(|device| devices.get(usize::from(device)));
        lengths.iter_mut().zip(those).for_each(|(to, device)| *to = device.sectors);
        lengths.sort_unstable_by_key(|length| core::cmp::Reverse(*length));
        let first = usize::from(if self.zoned { self.devices - 1 } else { self.parity });
        let count = usize::from(self.devices);
        let differs = move |at: &usize| *at == first || lengths[*at] < lengths[*at - 1];
        (first..count).filter(differs).map(move |at| lengths[at])
    }

    /// Returns the data chunks of the stripes of a segment on a set of devices; 0 if it cannot
    /// contain data.
    #[inline]
    pub fn width_on(&self, set: DeviceSet, segment: u32) -> u32 {
        self.lengths.on(set, segment).len().saturating_sub(self.parity.into())
    }

    /// Returns pairs of a number of segments and their data chunks per stripe on a set of devices.
    /// The widest come first; those without data are omitted.
    fn widths(&self, set: DeviceSet) -> impl Iterator<Item = (u32, u32)> {
        let mut first = 0;
        core::iter::from_fn(move || {
            let width = self.width_on(set, first);
            let end =
                self.lengths.ends(set).filter(|end| *end > first).min().unwrap_or(self.segments);
            let count = end - core::mem::replace(&mut first, end);
            (width > 0 && count > 0).then_some((count, width))
        })
    }

    /// Returns the number of segments that can contain data on a set of devices.
    pub fn usable(&self, set: DeviceSet) -> u32 {
        self.widths(set).map(|(count, _)| count).sum()
    }

    /// Returns the data chunks of the narrowest stripes on a set of devices; 0 if no data fits.
    pub fn narrowest(&self, set: DeviceSet) -> u32 {
        self.widths(set).last().map_or(0, |(_, width)| width)
    }

    /// Returns the incompressible blocks that fit on a set of devices while any `kept` segments
    /// stay free.
    pub fn blocks_on(&self, set: DeviceSet, kept: u32) -> u64 {
        if self.lengths.are_equal() {
            let width = set.len().saturating_sub(self.parity.into());
            return self.blocks_in(self.segments.saturating_sub(kept), width);
        }
        let mut kept = kept;
        let rest = self.widths(set).map(|(count, width)| {
            // In the worst case the widest segments are the free ones.
            let left = count.saturating_sub(kept);
            kept = kept.saturating_sub(count);
            self.blocks_in(left, width)
        });
        rest.sum()
    }

    /// Returns how many of the widest segments on a set of devices hold at most `blocks` blocks.
    pub(super) fn segments_within(&self, set: DeviceSet, blocks: u64) -> u32 {
        let mut left = blocks;
        let within = self.widths(set).map_while(|(count, width)| {
            let each = self.blocks_in(1, width);
            let fits = (left / each).min(count.into());
            left = if fits < u64::from(count) { 0 } else { left - fits * each };
            (fits > 0).then_some(fits as u32)
        });
        within.sum()
    }

    /// Returns the incompressible blocks in `segments` segments whose stripes have `width` data
    /// chunks.
    fn blocks_in(&self, segments: u32, width: u32) -> u64 {
        match width {
            0 => 0,
            _ => u64::from(segments) * self.blocks_per_stripe(width) * u64::from(self.slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LayerConfig;
    use crate::kind::LayerKind;
    use crate::log::chunk_placement::set;

    /// Returns a volume on devices of the given MiB.
    fn volume(mib: &[u64], parity: u8) -> Layout {
        let mut config = LayerConfig::new(LayerKind::Log);
        config.log.parity = parity;
        let device = |mib: &u64| DeviceInfo::block(mib << 11, 8);
        let devices = mib.iter().map(device).collect::<alloc::vec::Vec<_>>();
        Layout::new(&config, &devices).unwrap()
    }

    #[test]
    fn segments_use_only_devices_that_are_long_enough() {
        let it = volume(&[256, 512, 1024, 1024], 1);
        let widths = it.widths(set(0b1111)).collect::<alloc::vec::Vec<_>>();
        assert_eq!(widths.iter().map(|it| it.1).collect::<alloc::vec::Vec<_>>(), [3, 2, 1]);
        assert_eq!(it.usable(set(0b1111)), it.segments);
        for (count, end) in widths.iter().zip([256, 512, 1024]) {
            let share = f64::from(end as u16) / 1024.0 * f64::from(it.segments);
            let (first, width) = (f64::from(count.0), count.1);
            assert!(first <= share && width > 0, "{widths:?}");
        }
        let last = it.segments - 1;
        assert_eq!(
            (it.lengths.on(set(0b1111), 0), it.lengths.on(set(0b1111), last)),
            (set(0b1111), set(0b1100))
        );
        assert_eq!((it.width_on(set(0b1111), last), it.width_on(set(0b0111), last)), (1, 0));
        assert!(it.lengths.has(2, last) && !it.lengths.has(1, last) && it.lengths.has(0, 0));
        assert!(it.usable(set(0b0111)) < it.segments && it.narrowest(set(0b0011)) == 1);
        assert_eq!(it.lengths.owners(4, last), 2);
    }

    #[test]
    fn spare_space_is_taken_from_the_widest_segments() {
        let it = volume(&[256, 512, 512], 1);
        let (wide, narrow) = (it.widths(set(0b111)).next().unwrap().0, it.narrowest(set(0b111)));
        assert_eq!((it.width_on(set(0b111), 0), narrow), (2, 1));
        let one = |width| u64::from(it.segment_grains(width)) / 256;
        let all = it.blocks_on(set(0b111), 0);
        assert_eq!(all, u64::from(wide) * one(2) + u64::from(it.segments - wide) * one(1));
        assert_eq!(all - it.blocks_on(set(0b111), 1), one(2));
        assert_eq!(it.blocks_on(set(0b111), it.segments - 1), one(1));
        assert_eq!(it.segments_within(set(0b111), one(2)), 1);
        assert_eq!(it.segments_within(set(0b111), one(2) - 1), 0);
        assert_eq!(it.segments_within(set(0b111), all), it.segments);
    }

    #[test]
    fn space_on_too_few_devices_is_unused() {
        let equal = |mib: &[u64], parity| volume(mib, parity).lengths.are_equal();
        assert!(equal(&[512; 3], 1) && equal(&[256, 256, 1024], 1));
        assert!(equal(&[256, 256, 1024, 1024], 2) && !equal(&[256, 1024, 1024], 1));
    }
}

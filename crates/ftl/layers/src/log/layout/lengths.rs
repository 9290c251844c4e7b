//! Lengths of the devices of a volume: a segment is on all devices that are long enough.
//!
//! All devices have the first segments in common, and longer devices have more of them. So the
//! stripes of the last segments are on fewer devices and have fewer data chunks. A segment has at
//! least one data chunk; the rest of the longest devices is not used.

use hostftl_core::{DeviceInfo, DeviceSet};

use super::places::Places;

/// Maximum number of devices.
pub(super) const MOST_DEVICES: usize = 16;
/// Each device must have at least one segment in `LEAST_SHARE`.
const LEAST_SHARE: u64 = 16;

/// Number of segments on each device. Devices are numbered by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Number of segments of each device.
    counts: [u32; MOST_DEVICES],
    /// Devices that lack some of the volume's segments.
    short: DeviceSet,
    /// Positions of segments.
    places: Places,
}

impl Lengths {
    /// Returns the lengths of devices in a volume of `segments` segments of `column` sectors, from
    /// sector `first` on.
    pub fn new(devices: &[DeviceInfo], first: u64, column: u32, segments: u32) -> Self {
        let mut it = Lengths { places: Places::new(first, column), ..Lengths::default() };
        for (at, device) in devices.iter().enumerate() {
            let count = device.sectors.saturating_sub(first) / u64::from(column);
            it.counts[at] = count.min(segments.into()) as u32;
            it.short.set(at as u8, it.counts[at] < segments);
        }
        it
    }

    /// Returns the positions of segments.
    #[inline]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns whether all devices have all segments.
    #[inline]
    pub fn are_equal(&self) -> bool {
        self.short.is_empty()
    }

    /// Returns whether a device has a segment.
    #[inline]
    pub fn has(&self, device: u8, segment: u32) -> bool {
        !self.short.contains(device) || segment < self.count(device)
    }

    /// Returns the devices of a set that have a segment.
    #[inline]
    pub fn on(&self, set: DeviceSet, segment: u32) -> DeviceSet {
        let lack = (set & self.short).iter().filter(|device| segment >= self.count(*device));
        lack.fold(set, DeviceSet::without)
    }

    #[inline]
    fn count(&self, device: u8) -> u32 {
        self.counts[usize::from(device)]
    }

    /// Returns the segment counts of the devices of a set that lack some, in no order.
    pub(super) fn ends(&self, set: DeviceSet) -> impl Iterator<Item = u32> {
        (set & self.short).iter().map(|device| self.count(device))
    }

    /// Returns whether device `new` has all segments that are on device `old` of a set, with
    /// `parity` parity chunks.
    pub fn covers(&self, new: u8, old: u8, set: DeviceSet, parity: u8) -> bool {
        let has_more = |count: u32| set.iter().filter(|it| self.count(*it) > count).count();
        // A segment needs more devices than there are parity chunks, so shorter ones suffice here.
        let (new, old) = (self.count(new), self.count(old));
        new >= old || has_more(new) <= usize::from(parity)
    }

    /// Returns the number of the first `devices` devices that have a segment.
    pub fn owners(&self, devices: u8, segment: u32) -> u8 {
        (0..devices).filter(|device| self.has(*device, segment)).count() as u8
    }

    /// Returns whether each device of a set has a useful share of `segments` segments.
    pub fn are_of_use(&self, set: DeviceSet, segments: u32) -> bool {
        let is_of_use = |count: u32| u64::from(count) * LEAST_SHARE >= segments.into();
        (set & self.short).iter().all(|device| is_of_use(self.count(device)))
    }
}

//! How long the devices of a volume are: a segment lies on those that are long enough.
//!
//! Each device begins with the same segments. A longer one has more of them, so the rows of the
//! last segments lie on fewer devices and have fewer chunks of data. No segment lies on so few that
//! nothing would be left beside parity: what the longest devices have beyond that is not used.

use hostftl_core::{DeviceInfo, DeviceSet};

use super::places::Places;

/// More devices than this has no volume.
pub(super) const MOST_DEVICES: usize = 16;
/// Each device has one in so many segments at least.
const LEAST_SHARE: u64 = 16;

/// See the module text. Places of devices have numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Segments that each device has.
    counts: [u32; MOST_DEVICES],
    /// The devices that lack some of the volume's segments.
    short: DeviceSet,
    /// Where segments lie.
    places: Places,
}

impl Lengths {
    /// Those of devices, in a volume that has `segments` of `column` sectors from sector `first`.
    pub fn new(devices: &[DeviceInfo], first: u64, column: u32, segments: u32) -> Self {
        let mut it = Lengths { places: Places::new(first, column), ..Lengths::default() };
        for (at, device) in devices.iter().enumerate() {
            let count = device.sectors.saturating_sub(first) / u64::from(column);
            it.counts[at] = count.min(segments.into()) as u32;
            it.short.set(at as u8, it.counts[at] < segments);
        }
        it
    }

    /// Where segments lie.
    #[inline]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether all devices have all segments.
    #[inline]
    pub fn are_equal(&self) -> bool {
        self.short.is_empty()
    }

    /// Whether a device has a segment.
    #[inline]
    pub fn has(&self, device: u8, segment: u32) -> bool {
        !self.short.contains(device) || segment < self.count(device)
    }

    /// The devices of a set that have a segment.
    #[inline]
    pub fn on(&self, set: DeviceSet, segment: u32) -> DeviceSet {
        let lack = (set & self.short).iter().filter(|device| segment >= self.count(*device));
        lack.fold(set, DeviceSet::without)
    }

    #[inline]
    fn count(&self, device: u8) -> u32 {
        self.counts[usize::from(device)]
    }

    /// The segments at which devices of a set end that lack some, in no order.
    pub(super) fn ends(&self, set: DeviceSet) -> impl Iterator<Item = u32> {
        (set & self.short).iter().map(|device| self.count(device))
    }

    /// Whether a device has all segments that lie on another one of a set, with so many chunks of
    /// parity.
    pub fn covers(&self, new: u8, old: u8, set: DeviceSet, parity: u8) -> bool {
        let has_more = |count: u32| set.iter().filter(|it| self.count(*it) > count).count();
        // Segments that only as many devices have as there is parity do not exist.
        let (new, old) = (self.count(new), self.count(old));
        new >= old || has_more(new) <= usize::from(parity)
    }

    /// How many of so many devices have a segment.
    pub fn owners(&self, devices: u8, segment: u32) -> u8 {
        (0..devices).filter(|device| self.has(*device, segment)).count() as u8
    }

    /// Whether no device of a set has so few of so many segments that it is of no use.
    pub fn are_of_use(&self, set: DeviceSet, segments: u32) -> bool {
        let is_of_use = |count: u32| u64::from(count) * LEAST_SHARE >= segments.into();
        (set & self.short).iter().all(|device| is_of_use(self.count(device)))
    }
}

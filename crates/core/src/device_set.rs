//! Sets of the devices of a volume.

use core::fmt;
use core::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Sub, SubAssign};

/// A set of devices by index in the stack, 0 to 15.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct DeviceSet(u16);

impl DeviceSet {
    /// The set without devices.
    pub const EMPTY: DeviceSet = DeviceSet(0);

    /// Returns the set of one device.
    ///
    /// # Panics
    /// If `device` is 16 or more, like all methods that take a device.
    #[inline]
    pub const fn of(device: u8) -> Self {
        DeviceSet(1 << device)
    }

    /// Returns the set of the devices 0 to `count` - 1, for a `count` of at most 16.
    #[inline]
    pub const fn first(count: u8) -> Self {
        DeviceSet(((1_u32 << count) - 1) as u16)
    }

    /// Returns the set whose bits are set in `bits`; device 0 is the lowest.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        DeviceSet(bits)
    }

    /// Returns one bit per device; device 0 is the lowest.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether `device` is in the set.
    #[inline]
    pub const fn contains(self, device: u8) -> bool {
        self.0 >> device & 1 == 1
    }

    /// Returns the set with `device`.
    #[inline]
    #[must_use]
    pub const fn with(self, device: u8) -> Self {
        DeviceSet(self.0 | Self::of(device).0)
    }

    /// Returns the set without `device`.
    #[inline]
    #[must_use]
    pub const fn without(self, device: u8) -> Self {
        DeviceSet(self.0 & !Self::of(device).0)
    }

    /// Adds `device`.
    #[inline]
    pub fn insert(&mut self, device: u8) {
        *self = self.with(device);
    }

    /// Removes `device`.
    #[inline]
    pub fn remove(&mut self, device: u8) {
        *self = self.without(device);
    }

    /// Returns the number of devices.
    #[inline]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns whether the set has no devices.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the devices in ascending order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = u8> + Clone {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let device = left.trailing_zeros() as u8;
            left &= left.checked_sub(1)?;
            Some(device)
        })
    }
}

impl FromIterator<u8> for DeviceSet {
    fn from_iter<I: IntoIterator<Item = u8>>(devices: I) -> Self {
        devices.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for DeviceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl BitOr for DeviceSet {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        DeviceSet(self.0 | other.0)
    }
}

impl BitOrAssign for DeviceSet {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for DeviceSet {
    type Output = Self;

    #[inline]
    fn bitand(self, other: Self) -> Self {
        DeviceSet(self.0 & other.0)
    }
}

impl BitAndAssign for DeviceSet {
    #[inline]
    fn bitand_assign(&mut self, other: Self) {
        self.0 &= other.0;
    }
}

impl Sub for DeviceSet {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        DeviceSet(self.0 & !other.0)
    }
}

impl SubAssign for DeviceSet {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec::Vec};

    use super::*;

    #[test]
    fn a_set_has_the_devices_that_were_inserted() {
        let mut set = DeviceSet::EMPTY;
        assert!(set.is_empty() && !set.contains(0) && set.iter().next().is_none());
        set.insert(15);
        set.insert(0);
        set.insert(15);
        assert_eq!((set.len(), set.bits()), (2, 0x8001));
        assert!(set.contains(15) && set.contains(0) && !set.contains(1));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 15]);
        assert_eq!(format!("{set:?}"), "[0, 15]");
        set.remove(0);
        set.remove(7);
        assert_eq!(set, DeviceSet::of(15));
        assert_eq!(set.with(3).without(15), [3].into_iter().collect());
    }

    #[test]
    fn operators_are_those_of_sets() {
        let (a, b) = (DeviceSet::from_bits(0b1100), DeviceSet::from_bits(0b1010));
        assert_eq!([a | b, a & b, a - b].map(DeviceSet::bits), [0b1110, 0b1000, 0b0100]);
        let (mut joined, mut common, mut rest) = (a, a, a);
        joined |= b;
        common &= b;
        rest -= b;
        assert_eq!([joined, common, rest], [a | b, a & b, a - b]);
    }

    #[test]
    fn the_first_devices_are_none_to_sixteen() {
        assert_eq!([0, 3, 16].map(|count| DeviceSet::first(count).bits()), [0, 0b111, u16::MAX]);
    }

    #[test]
    #[should_panic(expected = "overflow")]
    fn no_volume_has_a_device_16() {
        let _ = DeviceSet::EMPTY.contains(16);
    }
}

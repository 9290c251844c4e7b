//! Sets of devices of one volume.

use core::fmt;
use core::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Sub, SubAssign};

use crate::MAX_MEMBERS;

/// A set of devices by index in the stack. A device that no volume has is in no set.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DeviceSet(u16);

const _: () = assert!(MAX_MEMBERS == u16::BITS as usize, "each device of a volume has one bit");

impl DeviceSet {
    /// No device.
    pub const EMPTY: DeviceSet = DeviceSet(0);
    /// The devices of the largest volume.
    pub const ALL: DeviceSet = DeviceSet(u16::MAX);

    /// Returns the set of one device.
    #[inline]
    pub const fn single(device: u8) -> Self {
        match 1_u16.checked_shl(device as u32) {
            Some(bit) => DeviceSet(bit),
            None => DeviceSet::EMPTY,
        }
    }

    /// Returns the set of one device if `is_in`, else the empty set.
    #[inline]
    pub const fn single_if(is_in: bool, device: u8) -> Self {
        if is_in { DeviceSet::single(device) } else { DeviceSet::EMPTY }
    }

    /// Returns the set of the first `count` devices of a stack.
    #[inline]
    pub const fn first_n(count: usize) -> Self {
        if count < MAX_MEMBERS { DeviceSet((1 << count) - 1) } else { DeviceSet::ALL }
    }

    /// Returns the set that media or a format store as bits.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        DeviceSet(bits)
    }

    /// Returns the bits of the set, for media and formats.
    #[inline]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Whether a device is in the set.
    #[inline]
    pub const fn contains(self, device: u8) -> bool {
        self.0 & DeviceSet::single(device).0 != 0
    }

    /// Whether all devices of this set are in the other one too.
    #[inline]
    pub const fn is_within(self, other: DeviceSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether a device is in both sets.
    #[inline]
    pub const fn overlaps(self, other: DeviceSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set holds the first devices of a stack, with none left out.
    #[inline]
    pub const fn are_first(self) -> bool {
        self.0 & self.0.wrapping_add(1) == 0
    }

    /// Whether no device is in the set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of devices in the set.
    #[inline]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the device with the lowest index.
    #[inline]
    pub const fn first(self) -> Option<u8> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as u8) }
    }

    /// Returns the set with one more device.
    #[inline]
    pub const fn with(self, device: u8) -> Self {
        DeviceSet(self.0 | DeviceSet::single(device).0)
    }

    /// Returns the set with one device less.
    #[inline]
    pub const fn without(self, device: u8) -> Self {
        DeviceSet(self.0 & !DeviceSet::single(device).0)
    }

    /// Adds a device.
    #[inline]
    pub const fn insert(&mut self, device: u8) {
        *self = self.with(device);
    }

    /// Removes a device.
    #[inline]
    pub const fn remove(&mut self, device: u8) {
        *self = self.without(device);
    }

    /// Adds or removes a device.
    #[inline]
    pub const fn set(&mut self, device: u8, is_in: bool) {
        *self = if is_in { self.with(device) } else { self.without(device) };
    }

    /// Returns the devices in ascending order.
    #[inline]
    pub const fn iter(self) -> DeviceSetIter {
        DeviceSetIter(self)
    }
}

/// The devices of a set in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSetIter(DeviceSet);

impl Iterator for DeviceSetIter {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let device = self.0.first()?;
        // Clears the lowest bit.
        self.0.0 &= self.0.0 - 1;
        Some(device)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.0.len() as usize;
        (len, Some(len))
    }
}

impl ExactSizeIterator for DeviceSetIter {}

impl IntoIterator for DeviceSet {
    type Item = u8;
    type IntoIter = DeviceSetIter;

    #[inline]
    fn into_iter(self) -> DeviceSetIter {
        self.iter()
    }
}

impl FromIterator<u8> for DeviceSet {
    #[inline]
    fn from_iter<I: IntoIterator<Item = u8>>(devices: I) -> Self {
        devices.into_iter().fold(DeviceSet::EMPTY, DeviceSet::with)
    }
}

impl fmt::Debug for DeviceSet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl BitOr for DeviceSet {
    type Output = DeviceSet;

    #[inline]
    fn bitor(self, other: DeviceSet) -> DeviceSet {
        DeviceSet(self.0 | other.0)
    }
}

impl BitAnd for DeviceSet {
    type Output = DeviceSet;

    #[inline]
    fn bitand(self, other: DeviceSet) -> DeviceSet {
        DeviceSet(self.0 & other.0)
    }
}

impl Sub for DeviceSet {
    type Output = DeviceSet;

    #[inline]
    fn sub(self, other: DeviceSet) -> DeviceSet {
        DeviceSet(self.0 & !other.0)
    }
}

impl BitOrAssign for DeviceSet {
    #[inline]
    fn bitor_assign(&mut self, other: DeviceSet) {
        *self = *self | other;
    }
}

impl BitAndAssign for DeviceSet {
    #[inline]
    fn bitand_assign(&mut self, other: DeviceSet) {
        *self = *self & other;
    }
}

impl SubAssign for DeviceSet {
    #[inline]
    fn sub_assign(&mut self, other: DeviceSet) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    const fn set(bits: u16) -> DeviceSet {
        DeviceSet::from_bits(bits)
    }

    #[test]
    fn each_device_has_its_own_bit() {
        for device in 0..=u8::MAX {
            let of = DeviceSet::single(device);
            let is_possible = usize::from(device) < MAX_MEMBERS;
            assert_eq!(of.to_bits(), if is_possible { 1 << device } else { 0 });
            assert_eq!((of.contains(device), of.is_empty()), (is_possible, !is_possible));
            assert_eq!(DeviceSet::ALL.contains(device), is_possible);
            assert_eq!(DeviceSet::EMPTY.with(device), of);
            assert_eq!(DeviceSet::ALL.without(device), DeviceSet::ALL - of);
            assert_eq!(DeviceSet::single_if(true, device), of);
            assert_eq!(DeviceSet::single_if(false, device), DeviceSet::EMPTY);
        }
        assert!(!set(0b0100).contains(0) && !set(0b0100).contains(18));
    }

    #[test]
    fn the_first_devices_are_those_below_a_count() {
        for count in 0..20 {
            let all = (0..count as u8).collect::<DeviceSet>();
            assert_eq!(DeviceSet::first_n(count), all);
            assert_eq!(all.len() as usize, count.min(MAX_MEMBERS));
            assert!(all.are_first() && (count < 2 || !all.without(0).are_first()));
        }
        assert_eq!(DeviceSet::first_n(usize::MAX), DeviceSet::ALL);
    }

    #[test]
    fn devices_are_iterated_in_ascending_order() {
        let devices = |set: DeviceSet| set.iter().collect::<Vec<_>>();
        assert_eq!(devices(set(0b1000_0000_0010_0101)), [0, 2, 5, 15]);
        assert_eq!(devices(DeviceSet::EMPTY), []);
        assert_eq!(devices(DeviceSet::ALL), (0..16).collect::<Vec<_>>());
        assert_eq!((set(0b0110).first(), DeviceSet::EMPTY.first()), (Some(1), None));
        assert_eq!(set(0b0110).iter().len(), 2);
        assert_eq!(format!("{:?}", set(0b1001)), "{0, 3}");
    }

    #[test]
    fn operators_combine_sets() {
        let (a, b) = (set(0b0011), set(0b0110));
        assert_eq!((a | b, a & b, a - b), (set(0b0111), set(0b0010), set(0b0001)));
        let mut it = a;
        it |= b;
        assert_eq!(it, set(0b0111));
        it &= b;
        assert_eq!(it, b);
        it -= a;
        assert_eq!(it, set(0b0100));
        assert!((a & b).is_within(a) && !a.is_within(b) && DeviceSet::EMPTY.is_within(a));
        assert!(a.overlaps(b) && !a.overlaps(b - a) && !a.overlaps(DeviceSet::EMPTY));
        it.insert(0);
        it.set(9, true);
        it.remove(2);
        assert_eq!(it, set(0b10_0000_0001));
        it.set(9, false);
        assert_eq!(it, DeviceSet::single(0));
    }
}

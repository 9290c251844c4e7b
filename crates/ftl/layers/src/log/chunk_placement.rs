//! Assignment of a stripe's chunks to devices: a segment has a set of devices, its members, which
//! rotate from slot to slot.

use hostftl_core::DeviceSet;

/// Members of a segment, and the number of parity chunks of its stripes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkPlacement {
    members: DeviceSet,
    parity: u8,
}

impl ChunkPlacement {
    /// Returns the placement on `members`.
    ///
    /// # Panics
    /// If there are not more members than parity chunks.
    pub fn new(members: DeviceSet, parity: u8) -> Self {
        assert!(members.len() > u32::from(parity), "a stripe has a data chunk: {members:?}");
        ChunkPlacement { members, parity }
    }

    /// Returns the members.
    pub fn members(self) -> DeviceSet {
        self.members
    }

    fn count(self) -> u32 {
        self.members.len()
    }

    /// Returns the data chunks of a full stripe.
    #[inline]
    pub fn width(self) -> u32 {
        self.count() - u32::from(self.parity)
    }

    /// Returns whether the members are the first devices without gaps.
    #[inline]
    fn is_dense(self) -> bool {
        self.members.are_first()
    }

    /// Returns member number `index` in ascending order.
    #[inline]
    fn member(self, index: u32) -> u8 {
        if self.is_dense() {
            return index as u8;
        }
        self.members
            .iter()
            .nth(index as usize)
            .expect("the index is less than the number of members")
    }

    /// Returns the rotation of stripes in a slot. Stripes with the same rotation have the same
    /// assignment.
    pub fn turn(self, segment: u32, slot: u32) -> u8 {
        ((u64::from(segment) + u64::from(slot)) % u64::from(self.count())) as u8
    }

    /// Returns the assignment of chunks for stripes in a slot.
    pub fn turned(self, segment: u32, slot: u32) -> Turned {
        let turn = u64::from(segment) + u64::from(slot) + u64::from(self.parity);
        let first = (turn % u64::from(self.count())) as u8;
        Turned { placement: self, first, count: self.count() as u8 }
    }

    /// Returns the device of a data chunk of stripes in a slot.
    #[inline]
    pub fn device(self, segment: u32, slot: u32, chunk: u32) -> u8 {
        self.turned(segment, slot).device(chunk)
    }

    /// Returns the data chunk of stripes in a slot on `device`.
    pub fn chunk_on(self, segment: u32, slot: u32, device: u8) -> Option<u8> {
        self.turned(segment, slot).chunk_on(device)
    }

    /// Returns the number of parity chunks of each stripe.
    pub fn parity(self) -> u8 {
        self.parity
    }

    /// Returns the device of parity `which` of stripes in a slot.
    pub fn parity_device(self, segment: u32, slot: u32, which: u8) -> u8 {
        assert!(which < self.parity, "stripes have no parity {which}");
        let turn = u64::from(segment) + u64::from(slot) + u64::from(which);
        self.member((turn % u64::from(self.count())) as u32)
    }
}

/// Assignment of chunks to devices for the stripes of one slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turned {
    placement: ChunkPlacement,
    /// Index of the member with the first data chunk.
    first: u8,
    /// Number of members.
    count: u8,
}

impl Turned {
    /// Returns the members with their parity.
    pub fn placement(self) -> ChunkPlacement {
        self.placement
    }

    /// Wraps an index of a member around at the end.
    #[inline]
    fn wrap(self, index: u32) -> u32 {
        let count = u32::from(self.count);
        if index < count { index } else { index - count }
    }

    /// Returns the device of data chunk `chunk`.
    ///
    /// # Panics
    /// If there are not that many members.
    #[inline]
    pub fn device(self, chunk: u32) -> u8 {
        assert!(chunk < self.count.into(), "each chunk has its own member");
        self.placement.member(self.wrap(u32::from(self.first) + chunk))
    }

    /// Returns the data chunk on `device`; `None` for a parity chunk, and for a device that is not
    /// a member.
    #[inline]
    pub fn chunk_on(self, device: u8) -> Option<u8> {
        let ChunkPlacement { members, parity } = self.placement;
        if !members.contains(device) {
            return None;
        }
        let below = if self.placement.is_dense() {
            device.into()
        } else {
            (members & DeviceSet::first_n(device.into())).len()
        };
        let chunk = self.wrap(below + u32::from(self.count - self.first)) as u8;
        (chunk < self.count - parity).then_some(chunk)
    }
}

/// Returns the set of devices with these bits.
#[cfg(test)]
pub(super) const fn set(bits: u16) -> DeviceSet {
    DeviceSet::from_bits(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_exactly_one_chunk() {
        let some = [(0b1, 0), (0b101, 1), (0b1111, 1), (0b1101_0010, 0), (0b1011, 2)];
        for (members, parity) in some.into_iter().chain([(u16::MAX, 1), (0xfffe, 2)]) {
            let (members, placement) = (set(members), ChunkPlacement::new(set(members), parity));
            for slot in 0..20 {
                let mut seen = DeviceSet::EMPTY;
                for chunk in 0..placement.width() {
                    let device = placement.device(3, slot, chunk);
                    assert_eq!(placement.chunk_on(3, slot, device), Some(chunk as u8));
                    seen.insert(device);
                }
                for which in 0..parity {
                    let device = placement.parity_device(3, slot, which);
                    assert_eq!(placement.chunk_on(3, slot, device), None);
                    assert!(!seen.contains(device));
                    seen.insert(device);
                }
                assert_eq!(seen, members);
                if !members.contains(15) {
                    assert_eq!(placement.chunk_on(3, slot, 15), None);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a stripe has a data chunk")]
    fn a_stripe_needs_a_data_chunk() {
        ChunkPlacement::new(set(0b110), 2);
    }
}

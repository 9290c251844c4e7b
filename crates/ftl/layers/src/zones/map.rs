//! The map: where each block of the host is.
//!
//! `rrpc` keeps what the original keeps: for each block of the host an address and its segment, and
//! for each block of the device which one it holds, 24 bytes for 4 KiB in all. `pblk` keeps 4
//! bytes up to 8 TiB, and else 8.
//!
//! Invariants
//! - A page that nothing was ever mapped in is all zeros, so that `new` touches nothing.
//! - With a reverse map, the block at a place that the map gives for a block is that block.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Page, SECTORS_PER_BLOCK};
use hostftl_format::page::{crc32c, put_u32, put_u64, u32_at, u64_at};

use super::layout::Layout;
use crate::planted::{Bug, planted};

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// It holds nothing.
    Nowhere,
    /// In a row in memory.
    Row { row: u16, slot: u8 },
    /// At this block of the device.
    Media(u64),
    /// The device could not give it when it was to be moved: reads are errors until it is written.
    Lost,
}

#[derive(Debug)]
enum Entries {
    Short(Vec<u32>),
    Long(Vec<u64>),
    /// Addresses with their segments, and of each block of the device 1 + the block that it holds.
    TwoWay {
        addresses: Vec<(u64, u64)>,
        reverse: Vec<u64>,
        segment: u64,
    },
}

#[derive(Debug)]
pub(super) struct Map(Entries);

const IN_ROW: u64 = 1 << 63;
const IN_ROW_SHORT: u32 = 1 << 31;
/// In memory the last page of a row that there never is.
const LOST: u64 = IN_ROW | 0xff_ffff;
/// In images all ones, which is one more.
const LOST_PLACE: u64 = u64::MAX - 1;

impl At {
    fn bits(self) -> u64 {
        match self {
            At::Nowhere => 0,
            At::Row { row, slot } => IN_ROW | u64::from(row) << 8 | u64::from(slot),
            At::Media(place) => place + 1,
            At::Lost => LOST,
        }
    }

    fn from_bits(bits: u64) -> Self {
        match bits {
            0 => At::Nowhere,
            LOST => At::Lost,
            _ if bits & IN_ROW != 0 => At::Row { row: (bits >> 8) as u16, slot: bits as u8 },
            _ => At::Media(bits - 1),
        }
    }
}

impl Map {
    /// A map of so many blocks that hold nothing.
    pub(super) fn new(layout: &Layout) -> Self {
        let len = layout.blocks as usize;
        if !layout.wide {
            return Map(Entries::TwoWay {
                addresses: vec![(0, 0); len],
                reverse: vec![0; layout.device_blocks() as usize],
                segment: u64::from(layout.device.size / SECTORS_PER_BLOCK),
            });
        }
        Map(match layout.entry {
            4 => Entries::Short(vec![0; len]),
            _ => Entries::Long(vec![0; len]),
        })
    }

    /// Bytes of the map of such a volume.
    pub(super) fn memory(layout: &Layout) -> u64 {
        if layout.wide {
            layout.blocks * u64::from(layout.entry)
        } else {
            16 * layout.blocks + 8 * layout.device_blocks()
        }
    }

    /// The block that the reverse map knows at a place of the device; `None` without one, or when
    /// nothing there counts.
    pub(super) fn holder(&self, place: u64) -> Option<u64> {
        let Entries::TwoWay { reverse, .. } = &self.0 else { return None };
        let block = reverse[place as usize].checked_sub(1)?;
        let believed = planted(Bug::ZonesReverseBelieved);
        (believed || self.get(block) == At::Media(place)).then_some(block)
    }

    /// Whether there is a reverse map.
    pub(super) fn is_two_way(&self) -> bool {
        matches!(self.0, Entries::TwoWay { .. })
    }

    /// Whether the reverse map and the segments agree with the addresses.
    pub(super) fn agrees(&self) -> bool {
        let Entries::TwoWay { addresses, reverse, segment } = &self.0 else { return true };
        let agrees = |(block, &(bits, at)): (usize, &(u64, u64))| match At::from_bits(bits) {
            At::Media(place) => {
                reverse[place as usize] == block as u64 + 1 && at == place / segment
            }
            _ => true,
        };
        addresses.iter().enumerate().all(agrees)
    }

    /// Where a block is.
    #[inline]
    pub(super) fn get(&self, block: u64) -> At {
        match &self.0 {
            Entries::Short(list) => {
                let bits = list[block as usize];
                let wide = u64::from(bits & !IN_ROW_SHORT);
                At::from_bits(if bits & IN_ROW_SHORT == 0 { wide } else { wide | IN_ROW })
            }
            Entries::Long(list) => At::from_bits(list[block as usize]),
            Entries::TwoWay { addresses, .. } => At::from_bits(addresses[block as usize].0),
        }
    }

    /// Says where a block is from now on; returns where it was.
    #[inline]
    pub(super) fn set(&mut self, block: u64, at: At) -> At {
        let old = self.get(block);
        let bits = at.bits();
        match &mut self.0 {
            Entries::Short(list) => {
                let short = (bits & !IN_ROW) as u32;
                let in_row = if bits & IN_ROW == 0 { 0 } else { IN_ROW_SHORT };
                list[block as usize] = short | in_row;
            }
            Entries::Long(list) => list[block as usize] = bits,
            Entries::TwoWay { addresses, reverse, segment } => {
                addresses[block as usize] = (bits, 0);
                if let At::Media(place) = at {
                    addresses[block as usize].1 = place / *segment;
                    reverse[place as usize] = block + 1;
                }
            }
        }
        old
    }

    /// Takes an image of a page; false when it has nothing on media. `written` tells where a page
    /// of a row is, once it is written; other rows are left out, because replay brings them.
    pub(super) fn emit(
        &self,
        page: u32,
        into: &mut Page,
        written: impl Fn(u16, u8) -> Option<u64>,
    ) -> bool {
        into.0.fill(0);
        let (per, size) = self.page();
        let first = u64::from(page) * per as u64;
        let mut any = false;
        for index in 0..per.min((self.len() - first) as usize) {
            let place = match self.get(first + index as u64) {
                At::Nowhere => None,
                At::Row { row, slot } => written(row, slot),
                At::Media(place) => Some(place),
                At::Lost => Some(LOST_PLACE),
            };
            let Some(place) = place else { continue };
            any = true;
            match size {
                4 => put_u32(into, 4 * index, place as u32 + 1),
                _ => put_u64(into, 8 * index, place + 1),
            }
        }
        any
    }

    /// Fills a page from its image; false when a block lies where there is no place for one.
    pub(super) fn load(&mut self, page: u32, from: &Page, is_place: impl Fn(u64) -> bool) -> bool {
        let (per, size) = self.page();
        let first = u64::from(page) * per as u64;
        for index in 0..per.min((self.len() - first) as usize) {
            let (bits, ones) = match size {
                4 => (u32_at(from, 4 * index).into(), u32::MAX.into()),
                _ => (u64_at(from, 8 * index), u64::MAX),
            };
            let at = match bits {
                _ if bits == ones => At::Lost,
                _ if bits > 0 && !is_place(bits - 1) => return false,
                _ => At::from_bits(bits),
            };
            self.set(first + index as u64, at);
        }
        true
    }

    /// The CRC-32C of the places on the medium; what is in memory alone counts as nowhere.
    pub(super) fn crc(&self) -> u32 {
        let place = |block| match self.get(block) {
            At::Media(place) => place + 1,
            _ => 0,
        };
        (0..self.len()).fold(0, |crc, block| crc32c(u64::from(crc), &place(block).to_le_bytes()))
    }

    /// Entries of a page, and bytes of each.
    fn page(&self) -> (usize, usize) {
        match self.0 {
            Entries::Short(_) => (1024, 4),
            Entries::Long(_) | Entries::TwoWay { .. } => (512, 8),
        }
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> u64 {
        match &self.0 {
            Entries::Short(list) => list.len() as u64,
            Entries::Long(list) => list.len() as u64,
            Entries::TwoWay { addresses, .. } => addresses.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_widths_keep_what_they_are_told() {
        let two_way = || Entries::TwoWay {
            addresses: vec![(0, 0); 1500],
            reverse: vec![0; 2000],
            segment: 16,
        };
        let maps = [Entries::Short(vec![0; 1500]), Entries::Long(vec![0; 1500]), two_way()];
        for mut map in maps.map(Map) {
            let last = match map.0 {
                Entries::Short(_) => (1 << 31) - 2,
                Entries::Long(_) => 1 << 40,
                Entries::TwoWay { .. } => 1999,
            };
            let row = At::Row { row: 65_534, slot: 255 };
            for at in [At::Media(0), row, At::Lost, At::Media(last), At::Nowhere, At::Media(7)] {
                let old = map.get(1499);
                assert_eq!(map.set(1499, at), old);
                assert_eq!(map.get(1499), at);
                assert_eq!(map.get(1498), At::Nowhere);
            }
            map.set(1498, row);
            map.set(1497, At::Lost);
            let (per, _) = map.page();
            let mut page = Page::default();
            assert!(!map.emit(0, &mut page, |_, _| None), "nothing is on media in the first page");
            let number = (1499 / per) as u32;
            assert!(map.emit(number, &mut page, |_, _| None));
            map.set(1499, At::Nowhere);
            assert!(!map.load(number, &page, |place| place < 7), "beyond the end");
            map.set(1497, At::Nowhere);
            assert!(map.load(number, &page, |place| place < 8));
            let loaded = [1497, 1498, 1499].map(|block| map.get(block));
            assert_eq!(loaded, [At::Lost, At::Nowhere, At::Media(7)]);
            assert!(map.agrees());
            assert_eq!(map.holder(7), map.is_two_way().then_some(1499));
            map.set(1499, At::Media(8));
            assert_eq!(map.holder(7), None, "what moved is not there any more");
        }
    }
}

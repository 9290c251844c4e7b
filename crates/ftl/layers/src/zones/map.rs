//! Map of the host's blocks.
//!
//! `rrpc` has the tables of the original: an address and a segment for each block of the host, and
//! the block of the host for each block of the device, 24 bytes per 4 KiB in total. `pblk` has 4
//! bytes per block up to 8 TiB, and 8 above.
//!
//! Invariants
//! - A page without mapped blocks is all zeros, so that `new` does not touch memory.
//! - With a reverse map, the entry at the place of a block is that block.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Page, SECTORS_PER_BLOCK};
use hostftl_format::page::{crc32c, put_u32, put_u64, u32_at, u64_at};

use super::layout::Layout;
use crate::planted::{Bug, planted};

/// Location of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Unmapped.
    Nowhere,
    /// In a row in memory.
    Row { row: u16, slot: u8 },
    /// At this block of the device.
    Media(u64),
    /// Unreadable when it was to be moved; reads fail until it is written again.
    Lost,
}

#[derive(Debug)]
enum Entries {
    Short(Vec<u32>),
    Long(Vec<u64>),
    /// Addresses with their segments, and for each block of the device the block in it plus one.
    TwoWay {
        addresses: Vec<(u64, u64)>,
        reverse: Vec<u64>,
        segment: u64,
    },
}

/// The map.
#[derive(Debug)]
pub(super) struct Map(Entries);

const IN_ROW: u64 = 1 << 63;
const IN_ROW_SHORT: u32 = 1 << 31;
/// Value in memory: the last page of a row number that is never used.
const LOST: u64 = IN_ROW | 0xff_ffff;
/// Value in images: all ones, after the addition of one.
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
    /// Creates a map of unmapped blocks.
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

    /// Returns the bytes of the map.
    pub(super) fn memory(layout: &Layout) -> u64 {
        if layout.wide {
            layout.blocks * u64::from(layout.entry)
        } else {
            16 * layout.blocks + 8 * layout.device_blocks()
        }
    }

    /// Returns the block at a place of the device by the reverse map. Returns `None` without a
    /// reverse map, or if the place has no valid block.
    pub(super) fn holder(&self, place: u64) -> Option<u64> {
        let Entries::TwoWay { reverse, .. } = &self.0 else { return None };
        let block = reverse[place as usize].checked_sub(1)?;
        // The reverse map keeps old entries, so the map has the last word.
        let believed = planted(Bug::ZonesReverseBelieved);
        (believed || self.get(block) == At::Media(place)).then_some(block)
    }

    /// Returns whether there is a reverse map.
    pub(super) fn is_two_way(&self) -> bool {
        matches!(self.0, Entries::TwoWay { .. })
    }

    /// Checks the reverse map and the segments against the addresses.
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

    /// Returns the location of a block.
    #[inline]
    pub(super) fn get(&self, block: u64) -> At {
        match &self.0 {
            Entries::Short(list) => {
                let bits = list[block as usize];
                // Short entries have the row flag in bit 31 instead of bit 63.
                let wide = u64::from(bits & !IN_ROW_SHORT);
                At::from_bits(if bits & IN_ROW_SHORT == 0 { wide } else { wide | IN_ROW })
            }
            Entries::Long(list) => At::from_bits(list[block as usize]),
            Entries::TwoWay { addresses, .. } => At::from_bits(addresses[block as usize].0),
        }
    }

    /// Sets the location of a block, and returns the old one.
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
                // The old entry of the reverse map stays; `holder` detects that.
                if let At::Media(place) = at {
                    addresses[block as usize].1 = place / *segment;
                    reverse[place as usize] = block + 1;
                }
            }
        }
        old
    }

    /// Writes the image of a page. `written` returns the device block of a page of a row, once it
    /// is written; other rows are left out, because replay applies them. Returns false if no block
    /// of the page is on media.
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
                // Replay starts at the first unwritten row, so earlier ones must be in the image.
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

    /// Loads a page from its image. Returns false if an entry is not a valid place.
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
                // An image may be forged, and a wrong place would be used as an index.
                _ if bits > 0 && !is_place(bits - 1) => return false,
                _ => At::from_bits(bits),
            };
            self.set(first + index as u64, at);
        }
        true
    }

    /// Returns the CRC-32C of the places on the medium. Blocks in memory only count as unmapped.
    pub(super) fn crc(&self) -> u32 {
        let place = |block| match self.get(block) {
            At::Media(place) => place + 1,
            _ => 0,
        };
        (0..self.len()).fold(0, |crc, block| crc32c(u64::from(crc), &place(block).to_le_bytes()))
    }

    /// Returns the entries of a page, and the bytes of each.
    fn page(&self) -> (usize, usize) {
        match self.0 {
            Entries::Short(_) => (1024, 4),
            Entries::Long(_) | Entries::TwoWay { .. } => (512, 8),
        }
    }

    /// Returns the number of blocks.
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
    fn both_entry_widths_round_trip() {
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
            assert_eq!(map.holder(7), None, "a moved block is no longer there");
        }
    }
}

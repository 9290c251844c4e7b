//! The map: where each block of the host is.
//!
//! Invariant: a page that nothing was ever mapped in is all zeros, so that `new` touches nothing.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Page;
use hostftl_format::page::{put_u32, put_u64, u32_at, u64_at};

use super::layout::Layout;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It holds nothing.
    Nowhere,
    /// In a row in memory.
    Row { row: u16, slot: u8 },
    /// At this block of the device.
    Media(u64),
}

#[derive(Debug)]
enum Entries {
    Short(Vec<u32>),
    Long(Vec<u64>),
}

/// See the module text.
#[derive(Debug)]
pub struct Map(Entries);

const IN_ROW: u64 = 1 << 63;
const IN_ROW_SHORT: u32 = 1 << 31;

impl At {
    fn bits(self) -> u64 {
        match self {
            At::Nowhere => 0,
            At::Row { row, slot } => IN_ROW | u64::from(row) << 8 | u64::from(slot),
            At::Media(place) => place + 1,
        }
    }

    fn from_bits(bits: u64) -> Self {
        match bits {
            0 => At::Nowhere,
            _ if bits & IN_ROW != 0 => At::Row { row: (bits >> 8) as u16, slot: bits as u8 },
            _ => At::Media(bits - 1),
        }
    }
}

impl Map {
    /// A map of so many blocks that hold nothing.
    pub fn new(layout: &Layout) -> Self {
        let len = layout.blocks as usize;
        Map(match layout.entry {
            4 => Entries::Short(vec![0; len]),
            _ => Entries::Long(vec![0; len]),
        })
    }

    /// Bytes of the map of such a volume.
    pub fn memory(layout: &Layout) -> u64 {
        layout.blocks * u64::from(layout.entry)
    }

    /// Where a block is.
    #[inline]
    pub fn get(&self, block: u64) -> At {
        match &self.0 {
            Entries::Short(list) => {
                let bits = list[block as usize];
                let wide = u64::from(bits & !IN_ROW_SHORT);
                At::from_bits(if bits & IN_ROW_SHORT == 0 { wide } else { wide | IN_ROW })
            }
            Entries::Long(list) => At::from_bits(list[block as usize]),
        }
    }

    /// Says where a block is from now on; returns where it was.
    #[inline]
    pub fn set(&mut self, block: u64, at: At) -> At {
        let old = self.get(block);
        let bits = at.bits();
        match &mut self.0 {
            Entries::Short(list) => {
                let short = (bits & !IN_ROW) as u32;
                let in_row = if bits & IN_ROW == 0 { 0 } else { IN_ROW_SHORT };
                list[block as usize] = short | in_row;
            }
            Entries::Long(list) => list[block as usize] = bits,
        }
        old
    }

    /// Takes an image of a page; false when it has nothing on media. `written` tells where a page
    /// of a row is, once it is written; other rows are left out, because replay brings them.
    pub fn emit(
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

    /// Fills a page from its image; false when a block lies beyond `end`, in blocks of the device.
    pub fn load(&mut self, page: u32, from: &Page, end: u64) -> bool {
        let (per, size) = self.page();
        let first = u64::from(page) * per as u64;
        for index in 0..per.min((self.len() - first) as usize) {
            let bits = match size {
                4 => u32_at(from, 4 * index).into(),
                _ => u64_at(from, 8 * index),
            };
            if bits > end {
                return false;
            }
            self.set(first + index as u64, At::from_bits(bits));
        }
        true
    }

    /// Entries of a page, and bytes of each.
    fn page(&self) -> (usize, usize) {
        match self.0 {
            Entries::Short(_) => (1024, 4),
            Entries::Long(_) => (512, 8),
        }
    }

    /// How many blocks there are.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Entries::Short(list) => list.len() as u64,
            Entries::Long(list) => list.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_widths_keep_what_they_are_told() {
        for mut map in [Map(Entries::Short(vec![0; 1500])), Map(Entries::Long(vec![0; 1500]))] {
            let last = if map.page().1 == 4 { (1 << 31) - 2 } else { 1 << 40 };
            let row = At::Row { row: 65_535, slot: 255 };
            for at in [At::Media(0), row, At::Media(last), At::Nowhere, At::Media(7)] {
                let old = map.get(1499);
                assert_eq!(map.set(1499, at), old);
                assert_eq!(map.get(1499), at);
                assert_eq!(map.get(1498), At::Nowhere);
            }
            map.set(1498, row);
            let (per, _) = map.page();
            let mut page = Page::default();
            assert!(!map.emit(0, &mut page, |_, _| None), "nothing is on media in the first page");
            let number = (1499 / per) as u32;
            assert!(map.emit(number, &mut page, |_, _| None));
            map.set(1499, At::Nowhere);
            assert!(!map.load(number, &page, 7), "beyond the end");
            assert!(map.load(number, &page, 8));
            assert_eq!((map.get(1498), map.get(1499)), (At::Nowhere, At::Media(7)));
        }
    }
}

//! Pages that can be written at any time, on a device whose zones can't: a log of pages in a pair
//! of zones, one of which is in use.
//!
//! A record is a head and the page itself, filled with zeros up to what the device takes at once.
//! The head (kind `ZPAG`) has the usual header, with no UUID, whose sequence number counts the
//! records of its zone from 0:
//!
//! | bytes | field |
//! |---|---|
//! | 32..40 | generation of the zone: one more each time that the other of the pair is taken |
//! | 40..48 | the sector that the page stands for, on the device that is shown |
//! | 48..52 | how many records the zone began with: all pages that counted then |
//! | 52..56 | CRC-32C of the page, begun with that sector |
//! | 56..60 | version |
//!
//! A zone counts when the records that it began with are whole; of two the one of the higher
//! generation. A record counts when all before it in its zone do, and the last of a page is that
//! page.

use hostftl_core::Page;

use crate::page::{self, Fault, Stamp, crc32c, put_u32, put_u64, u32_at, u64_at};

/// The layout's version.
pub const VERSION: u32 = 1;
/// No zone is taken so often.
const MOST_GENERATIONS: u64 = 1 << 62;
const KIND: [u8; 4] = *b"ZPAG";

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which record of its zone it is.
    pub index: u64,
    /// Of the zone.
    pub generation: u64,
    /// What the page stands for.
    pub sector: u64,
    /// Records that the zone began with.
    pub first: u32,
    /// The checksum of the page.
    crc: u32,
}

impl Head {
    /// The head of a record of `page`.
    pub fn of(page: &Page, (index, generation): (u64, u64), sector: u64, first: u32) -> Self {
        Head { index, generation, sector, first, crc: crc32c(sector, &page.0) }
    }

    /// The head's page, for sector `at` of the medium.
    pub fn emit(&self, at: u64) -> Page {
        let mut page = Page::default();
        put_u64(&mut page, 32, self.generation);
        put_u64(&mut page, 40, self.sector);
        put_u32(&mut page, 48, self.first);
        put_u32(&mut page, 52, self.crc);
        put_u32(&mut page, 56, VERSION);
        page::seal(&mut page, Stamp { kind: KIND, uuid: [0; 16], at }, self.index);
        page
    }

    /// What stands at sector `at` of the medium.
    ///
    /// # Errors
    /// `Foreign` when it is none, or one that can't be; `Damaged` by its checksum.
    pub fn parse(page: &Page, at: u64) -> Result<Self, Fault> {
        let index = page::open(page, Stamp { kind: KIND, uuid: [0; 16], at })?;
        let (generation, sector) = (u64_at(page, 32), u64_at(page, 40));
        let sound = u32_at(page, 56) == VERSION && generation < MOST_GENERATIONS;
        let head =
            Head { index, generation, sector, first: u32_at(page, 48), crc: u32_at(page, 52) };
        sound.then_some(head).ok_or(Fault::Foreign)
    }

    /// Whether this is the page of the record.
    pub fn is_of(&self, page: &Page) -> bool {
        self.crc == crc32c(self.sector, &page.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_known_by_its_place_and_its_page() {
        let content = Page([7; 4096]);
        let head = Head::of(&content, (5, 3), 8, 2);
        let page = head.emit(4096);
        assert_eq!(Head::parse(&page, 4096), Ok(head));
        assert_eq!(Head::parse(&page, 0), Err(Fault::Damaged), "misplaced");
        assert_eq!(Head::parse(&Page::default(), 0), Err(Fault::Foreign));
        assert!(head.is_of(&content) && !head.is_of(&Page::default()));
        assert!(!Head { sector: 9, ..head }.is_of(&content), "another page's content");
        let late = Head { generation: 1 << 62, ..head };
        assert_eq!(Head::parse(&late.emit(0), 0), Err(Fault::Foreign));
    }
}

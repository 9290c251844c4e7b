//! Rewritable pages on a device without rewritable zones: a log of pages in a pair of zones, one of
//! which is in use.
//!
//! A record is a head and the page itself, padded with zeros to the write unit. The head (kind
//! `ZPAG`) has the common header with a UUID of zeros. Its sequence number counts the records of
//! the zone from 0:
//!
//! | bytes | field |
//! |---|---|
//! | 32..40 | generation of the zone: grows by one each time the other zone of the pair is taken |
//! | 40..48 | sector that the page represents, on the visible device |
//! | 48..52 | number of records with which the zone began: all valid pages at that time |
//! | 52..56 | CRC-32C of the page, seeded with that sector |
//! | 56..60 | version |
//!
//! A zone is valid if its initial records are whole; of two, the one with the higher generation
//! counts. A record is valid if all before it in its zone are, and the last record of a sector is
//! its page.

use hostftl_core::Page;

use crate::page::{self, Fault, Stamp, crc32c, put_u32, put_u64, u32_at, u64_at};

/// Version of the layout.
pub const VERSION: u32 = 1;
/// Limit that no generation reaches.
const MOST_GENERATIONS: u64 = 1 << 62;
const KIND: [u8; 4] = *b"ZPAG";

/// Head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Index of the record in its zone.
    pub index: u64,
    /// Generation of the zone.
    pub generation: u64,
    /// Sector that the page represents.
    pub sector: u64,
    /// Number of records with which the zone began.
    pub first: u32,
    /// Checksum of the page.
    crc: u32,
}

impl Head {
    /// Returns the head of a record of `page`.
    pub fn new(page: &Page, (index, generation): (u64, u64), sector: u64, first: u32) -> Self {
        Head { index, generation, sector, first, crc: crc32c(sector, &page.0) }
    }

    /// Returns the page of the head for sector `at` of the medium.
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

    /// Parses the page at sector `at` of the medium.
    ///
    /// # Errors
    /// `Foreign` when it is not a head, or not a possible one; `Damaged` by its checksum.
    pub fn parse(page: &Page, at: u64) -> Result<Self, Fault> {
        let index = page::open(page, Stamp { kind: KIND, uuid: [0; 16], at })?;
        let (generation, sector) = (u64_at(page, 32), u64_at(page, 40));
        let sound = u32_at(page, 56) == VERSION && generation < MOST_GENERATIONS;
        let head =
            Head { index, generation, sector, first: u32_at(page, 48), crc: u32_at(page, 52) };
        sound.then_some(head).ok_or(Fault::Foreign)
    }

    /// Returns whether `page` is the page of the record.
    pub fn is_of(&self, page: &Page) -> bool {
        self.crc == crc32c(self.sector, &page.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_matches_its_address_and_page() {
        let content = Page([7; 4096]);
        let head = Head::new(&content, (5, 3), 8, 2);
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

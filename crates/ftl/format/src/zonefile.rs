//! Head of a zoned file: the shape of its segments, and their write pointers.
//!
//! | sectors | content |
//! |---|---|
//! | 0..8, 8..16 | the shape, twice; never changes |
//! | 16 + 16 i .. 32 + 16 i | table page i, two places written alternately |
//! | up to a whole MiB | zero |
//!
//! Both kinds of page have the common header with a UUID of zeros. A table page has an entry of 12
//! bytes for each of [`ENTRIES`] segments: the write pointer in sectors, the number of resets, and
//! 1 if the segment is offline. Of the two places the newer whole one counts, so a torn write
//! leaves the previous state.

use alloc::vec::Vec;

use hostftl_core::{Page, Segments};

use crate::page::{self, Fault, HEADER, Stamp, put_u32, u32_at};

/// Version of the layout.
pub const VERSION: u32 = 1;
/// Number of segments of a table page.
pub const ENTRIES: u32 = 338;
/// Limit that no generation of a table page reaches.
const MOST_GENERATIONS: u64 = 1 << 62;
/// Length of an entry in bytes.
const ENTRY: usize = 12;
/// Alignment of the head in sectors.
const ALIGN: u64 = 2048;

const SHAPE: [u8; 4] = *b"ZSHP";
const TABLE: [u8; 4] = *b"ZTBL";

/// First sectors of the copies of the shape.
pub const SHAPE_PLACES: [u64; 2] = [0, 8];

/// Entry of a segment in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Write pointer, in sectors from the start of the segment.
    pub pointer: u32,
    /// Number of resets.
    pub erased: u32,
    /// Whether the segment has failed.
    pub offline: bool,
}

/// Returns the number of table pages for `count` segments.
pub fn table_pages(count: u32) -> u32 {
    count.div_ceil(ENTRIES)
}

/// Returns the length of the head, which precedes the visible device.
pub fn head_sectors(count: u32) -> u64 {
    (16 + 16 * u64::from(table_pages(count))).next_multiple_of(ALIGN)
}

/// Returns the first sectors of the two places of table page `index`.
pub fn table_places(index: u32) -> [u64; 2] {
    let first = 16 + 16 * u64::from(index);
    [first, first + 8]
}

fn stamp(kind: [u8; 4], at: u64) -> Stamp {
    Stamp { kind, uuid: [0; 16], at }
}

/// Returns the page of the shape for sector `at`.
pub fn emit_shape(shape: &Segments, at: u64) -> Page {
    let mut page = Page::default();
    let Segments { size, write_unit, write_best, unreadable, max_open, count, units } = *shape;
    let words = [VERSION, size, write_unit, write_best, unreadable, max_open, count, units];
    for (index, word) in words.into_iter().enumerate() {
        put_u32(&mut page, HEADER + 4 * index, word);
    }
    page::seal(&mut page, stamp(SHAPE, at), 0);
    page
}

/// Parses the shape at sector `at`.
///
/// # Errors
/// `Foreign` when it is not a shape, or not a possible one; `Damaged` by its checksum.
pub fn parse_shape(page: &Page, at: u64) -> Result<Segments, Fault> {
    page::open(page, stamp(SHAPE, at))?;
    let word = |index: usize| u32_at(page, HEADER + 4 * index);
    let shape = Segments {
        size: word(1),
        write_unit: word(2),
        write_best: word(3),
        unreadable: word(4),
        max_open: word(5),
        count: word(6),
        units: word(7),
    };
    let sound = word(0) == VERSION && is_possible(&shape);
    sound.then_some(shape).ok_or(Fault::Foreign)
}

/// Returns whether the shape is consistent.
pub fn is_possible(shape: &Segments) -> bool {
    let Segments { size, write_unit, write_best, unreadable, count, units, .. } = *shape;
    let divides = |part: u32, whole: u32| part > 0 && whole > 0 && whole.is_multiple_of(part);
    let even = unreadable.is_multiple_of(write_unit.max(1)) && unreadable < size.max(1);
    divides(write_unit, write_best) && divides(write_best, size) && divides(units, count) && even
}

/// Returns a table page for sector `at`.
///
/// # Panics
/// When there are more entries than fit.
pub fn emit_table(entries: &[Entry], generation: u64, at: u64) -> Page {
    assert!(entries.len() <= ENTRIES as usize, "a table page has {ENTRIES} entries");
    let mut page = Page::default();
    for (index, entry) in entries.iter().enumerate() {
        let from = HEADER + ENTRY * index;
        put_u32(&mut page, from, entry.pointer);
        put_u32(&mut page, from + 4, entry.erased);
        put_u32(&mut page, from + 8, entry.offline.into());
    }
    page::seal(&mut page, stamp(TABLE, at), generation);
    page
}

/// Parses the table page at sector `at`. Returns its generation and its entries.
///
/// # Errors
/// Those of [`page::open`]; also `Foreign` for a generation that cannot be incremented.
pub fn parse_table(page: &Page, at: u64) -> Result<(u64, Vec<Entry>), Fault> {
    let generation = page::open(page, stamp(TABLE, at))?;
    if generation >= MOST_GENERATIONS {
        return Err(Fault::Foreign);
    }
    let entry = |index: usize| {
        let word = |which: usize| u32_at(page, HEADER + ENTRY * index + 4 * which);
        Entry { pointer: word(0), erased: word(1), offline: word(2) == 1 }
    };
    Ok((generation, (0..ENTRIES as usize).map(entry).collect()))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const SHAPE: Segments = Segments {
        size: 8192,
        write_unit: 8,
        write_best: 128,
        unreadable: 24,
        max_open: 14,
        count: 700,
        units: 4,
    };

    #[test]
    fn a_shape_round_trips() {
        let page = emit_shape(&SHAPE, 8);
        assert_eq!(parse_shape(&page, 8), Ok(SHAPE));
        assert_eq!(parse_shape(&page, 0), Err(Fault::Damaged), "misplaced");
        assert_eq!(parse_shape(&Page::default(), 0), Err(Fault::Foreign));
        for wrong in [
            Segments { write_unit: 0, ..SHAPE },
            Segments { write_best: 12, ..SHAPE },
            Segments { units: 3, ..SHAPE },
            Segments { unreadable: 9, ..SHAPE },
            Segments { count: 0, ..SHAPE },
        ] {
            assert_eq!(parse_shape(&emit_shape(&wrong, 0), 0), Err(Fault::Foreign), "{wrong:?}");
        }
    }

    #[test]
    fn a_table_round_trips_and_damage_is_detected() {
        let mut entries = vec![Entry::default(); ENTRIES as usize];
        entries[337] = Entry { pointer: 8184, erased: 3, offline: true };
        let mut page = emit_table(&entries, 9, 16);
        assert_eq!(parse_table(&page, 16), Ok((9, entries)));
        page.0[4000] ^= 1;
        assert_eq!(parse_table(&page, 16), Err(Fault::Damaged));
    }

    #[test]
    fn places_do_not_meet() {
        assert_eq!((table_pages(338), table_pages(339)), (1, 2));
        assert_eq!((table_places(0), table_places(1)), ([16, 24], [32, 40]));
        assert_eq!((head_sectors(1), head_sectors(338 * 127)), (2048, 2048));
        assert_eq!(head_sectors(338 * 127 + 1), 4096);
    }
}

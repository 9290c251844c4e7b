//! Pages of the `scrambler` layer: roots, the images of its map, and the map log.
//!
//! Every page has the header of [`crate::page`]. Offsets below are in bytes from the page's start.
//!
//! Root (`SCRR`, sequence = root number): 32 epoch u64 · 40 first log page to replay u64 · 48 first
//! log page of the epoch u64 · 56 images u64: number of the root for which they were written, 0 =
//! none · 64 area of the images u32 · 68 number of device pages used so far u32 · 72 sectors in a
//! device page u32 · 76 sectors in a slot u32 · 80 device pages for data u32.
//!
//! Map page (`SCRM`, sequence = images): 32 first logical slot u64 · 40 entries, u32 each: 0 =
//! unmapped, else slot + 1.
//!
//! Log page (`SCRL`, sequence = its number): 32 epoch u64 · 40 newest log page known to be durable
//! u64 · 48 records u32 · 64 records of 12 bytes: first logical slot u32, first slot + 1 u32 or 0
//! for a trim, slots u32.

use hostftl_core::{BLOCK, Page};

use crate::page::{self, Fault, HEADER, Stamp, put_u32, put_u64, u32_at, u64_at};

/// Number of entries in a map page.
pub const MAP_ENTRIES: usize = (BLOCK - MAP_BODY) / 4;
/// Number of records in a log page.
pub const RECORDS: usize = (BLOCK - LOG_BODY) / RECORD;

const ROOT: [u8; 4] = *b"SCRR";
const MAP: [u8; 4] = *b"SCRM";
const LOG: [u8; 4] = *b"SCRL";
const MAP_BODY: usize = HEADER + 8;
const LOG_BODY: usize = 64;
const RECORD: usize = 12;

/// Contents of a root. The module text describes the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the module text describes the fields")]
pub struct Root {
    pub number: u64,
    pub epoch: u64,
    pub first_log: u64,
    pub boundary: u64,
    pub images: u64,
    pub area: u32,
    pub fresh: u32,
    pub page: u32,
    pub slot: u32,
    pub count: u32,
}

/// Writes a root; `at` is its sector.
pub fn emit_root(page: &mut Page, root: &Root, uuid: [u8; 16], at: u64) {
    page.0.fill(0);
    let wide = [root.epoch, root.first_log, root.boundary, root.images];
    for (value, slot) in wide.into_iter().zip((HEADER..).step_by(8)) {
        put_u64(page, slot, value);
    }
    let narrow = [root.area, root.fresh, root.page, root.slot, root.count];
    for (value, slot) in narrow.into_iter().zip((64..).step_by(4)) {
        put_u32(page, slot, value);
    }
    page::seal(page, Stamp { kind: ROOT, uuid, at }, root.number);
}

/// Reads a root.
///
/// # Errors
/// [`Fault`] when it is not an intact root of this volume.
pub fn parse_root(page: &Page, uuid: [u8; 16], at: u64) -> Result<Root, Fault> {
    let number = page::open(page, Stamp { kind: ROOT, uuid, at })?;
    Ok(Root {
        number,
        epoch: u64_at(page, 32),
        first_log: u64_at(page, 40),
        boundary: u64_at(page, 48),
        images: u64_at(page, 56),
        area: u32_at(page, 64),
        fresh: u32_at(page, 68),
        page: u32_at(page, 72),
        slot: u32_at(page, 76),
        count: u32_at(page, 80),
    })
}

/// Writes a map page whose entries begin with logical slot `first`.
pub fn emit_map(page: &mut Page, images: u64, first: u64, map: &[u32], uuid: [u8; 16], at: u64) {
    page.0.fill(0);
    put_u64(page, HEADER, first);
    for (entry, slot) in map.iter().zip((MAP_BODY..BLOCK).step_by(4)) {
        put_u32(page, slot, *entry);
    }
    page::seal(page, Stamp { kind: MAP, uuid, at }, images);
}

/// Checks that a page is the map page of `images` that begins with logical slot `first`.
///
/// # Errors
/// [`Fault`] when it is another page, belongs to other images, or is damaged.
pub fn parse_map(
    page: &Page,
    images: u64,
    first: u64,
    uuid: [u8; 16],
    at: u64,
) -> Result<(), Fault> {
    let found = page::open(page, Stamp { kind: MAP, uuid, at })?;
    if found == images && u64_at(page, HEADER) == first { Ok(()) } else { Err(Fault::Foreign) }
}

/// Returns entry `index` of a parsed map page.
pub fn map_entry(page: &Page, index: usize) -> u32 {
    u32_at(page, MAP_BODY + index * 4)
}

/// Head of a log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the module text describes the fields")]
pub struct LogHead {
    pub seq: u64,
    pub epoch: u64,
    pub durable: u64,
    pub records: u32,
}

/// Change of the map: consecutive logical slots, mapped to consecutive slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// First logical slot.
    pub logical: u32,
    /// First slot; `None` for a trim.
    pub slot: Option<u32>,
    /// Number of slots.
    pub count: u32,
}

/// Writes a log page; at most [`RECORDS`] records.
pub fn emit_log<'a>(
    page: &mut Page,
    head: LogHead,
    records: impl Iterator<Item = &'a Record>,
    uuid: [u8; 16],
    at: u64,
) {
    page.0.fill(0);
    put_u64(page, 32, head.epoch);
    put_u64(page, 40, head.durable);
    put_u32(page, 48, head.records);
    for (record, slot) in records.zip((LOG_BODY..).step_by(RECORD)) {
        put_u32(page, slot, record.logical);
        put_u32(page, slot + 4, record.slot.map_or(0, |slot| slot + 1));
        put_u32(page, slot + 8, record.count);
    }
    page::seal(page, Stamp { kind: LOG, uuid, at }, head.seq);
}

/// Reads the head of a log page.
///
/// # Errors
/// [`Fault`] when it is not an intact log page of this volume.
pub fn parse_log(page: &Page, uuid: [u8; 16], at: u64) -> Result<LogHead, Fault> {
    let seq = page::open(page, Stamp { kind: LOG, uuid, at })?;
    let records = u32_at(page, 48);
    if records as usize > RECORDS {
        return Err(Fault::Damaged);
    }
    Ok(LogHead { seq, epoch: u64_at(page, 32), durable: u64_at(page, 40), records })
}

/// Returns record `index` of a parsed log page.
pub fn record(page: &Page, index: usize) -> Record {
    let at = LOG_BODY + index * RECORD;
    Record {
        logical: u32_at(page, at),
        slot: u32_at(page, at + 4).checked_sub(1),
        count: u32_at(page, at + 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [7; 16];

    #[test]
    fn a_root_round_trips_at_its_address_only() {
        let mut page = Page::default();
        let root = Root {
            number: 9,
            epoch: 3,
            first_log: 40,
            boundary: 44,
            images: 8,
            area: 1,
            fresh: 12,
            page: 32,
            slot: 8,
            count: 1000,
        };
        emit_root(&mut page, &root, UUID, 64);
        assert_eq!(parse_root(&page, UUID, 64), Ok(root));
        assert_eq!(parse_root(&page, UUID, 96), Err(Fault::Damaged));
        assert_eq!(parse_root(&page, [8; 16], 64), Err(Fault::Foreign));
    }

    #[test]
    fn a_map_page_of_another_age_does_not_count() {
        let mut page = Page::default();
        let entries: [u32; MAP_ENTRIES] = core::array::from_fn(|index| index as u32);
        emit_map(&mut page, 5, 1014, &entries, UUID, 128);
        assert_eq!(parse_map(&page, 5, 1014, UUID, 128), Ok(()));
        assert_eq!(map_entry(&page, MAP_ENTRIES - 1), MAP_ENTRIES as u32 - 1);
        assert_eq!(parse_map(&page, 4, 1014, UUID, 128), Err(Fault::Foreign));
        assert_eq!(parse_map(&page, 5, 0, UUID, 128), Err(Fault::Foreign));
        page.0[77] ^= 1;
        assert_eq!(parse_map(&page, 5, 1014, UUID, 128), Err(Fault::Damaged));
    }

    #[test]
    fn records_round_trip() {
        let mut page = Page::default();
        let of = |index: u32| Record {
            logical: index,
            slot: (!index.is_multiple_of(3)).then_some(index * 2),
            count: index + 1,
        };
        let list: [Record; RECORDS] = core::array::from_fn(|index| of(index as u32));
        let head = LogHead { seq: 77, epoch: 2, durable: 70, records: RECORDS as u32 };
        emit_log(&mut page, head, list.iter(), UUID, 8);
        assert_eq!(parse_log(&page, UUID, 8), Ok(head));
        assert!((0..RECORDS).all(|index| record(&page, index) == list[index]));
    }
}

//! Strips of `pblk` and `rrpc`, each with a tail page that describes its contents.
//!
//! A strip is one program of a fixed length. Its last page is the tail; the pages before it hold
//! host blocks, or images of map pages. A segment is written in order, so a strip with a tail is
//! complete, and a tail needs no checksums of the listed blocks.
//!
//! A tail has the header of [`page`](crate::page) with kind `ZTAL` and the number of the strip,
//! then:
//!
//! | bytes | field |
//! |---|---|
//! | 32..40 | greatest row number assigned when the strip was written |
//! | 40..48 | greatest row number assigned when the line was opened |
//! | 48..52 | line |
//! | 52..56 | previous line of the same stream; all ones for none |
//! | 56..58 | entries |
//! | 58 | 0 for host blocks, 1 for images of the map, 2 for a part of the line's list |
//! | 64..72 | parallel units that take part in the line, a bit each; all ones beyond 64 units |
//! | 72..120 | sectors written since the volume was created: host, gc, pad, map, checkpoint, list |
//! | 128.. | entries of 16 bytes: block (7 bytes), kind, value (4), CRC-32C (4) |
//!
//! Entries are in order: a later one replaces an earlier one for the same block. Every tail has the
//! information that the first page of a line has in the original (`smeta`).
//!
//! The *list* of a line (`emeta`) fills its last strips: pages of records, each an entry of 16
//! bytes, and a tail with the CRC of each page. A record of kind 7 starts a strip. It has the
//! number of its row, its position in the line, and the number of records that follow, which are
//! its entries. The records of a strip are in one part of the list. A tail without entries means
//! that the line has no list, only tails.
//!
//! If recovery padded a segment, one strip of the padding ends with a page of kind `ZPAD`, whose
//! number is the strip before which the padding ends. The rest of the padding is zeros.

use hostftl_core::{BLOCK, Page};

use crate::page::{self, Stamp, crc32c, put_u32, put_u64, u32_at, u64_at};

/// Number of entries in a tail.
pub const ENTRIES: usize = (BLOCK - FIRST) / ENTRY;
/// Number of records in a page of a list.
pub const RECORDS: usize = BLOCK / ENTRY;
const FIRST: usize = 128;
const ENTRY: usize = 16;
const TAIL: [u8; 4] = *b"ZTAL";
const PAD: [u8; 4] = *b"ZPAD";

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Unused: the page was reserved for a block that did not arrive.
    None = 0,
    /// The block is in page `value` of the strip.
    Data = 1,
    /// `value` blocks from this one on are unmapped.
    Trim = 2,
    /// Map page `block` is in page `value` of the strip, and has this CRC.
    Image = 3,
    /// Root of a complete checkpoint: strips from number `block` on are replayed, and `value`
    /// images belong to it.
    Root = 4,
    /// The images of the preceding root are in strips from number `block` on.
    Images = 5,
    /// The block was unreadable on the device: its data is lost.
    Lost = 6,
    /// In a list: strip `value` of the line has the row with number `block`, and `crc` entries.
    Strip = 7,
    /// In the tail of a list: its page `block` is in page `value` of the strip, and has this CRC.
    Page = 8,
}

/// Contents of the pages of a strip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Holds {
    /// Host blocks.
    #[default]
    Blocks = 0,
    /// Images of map pages, or a root.
    Images = 1,
    /// Part of the list of the line.
    List = 2,
}

/// Sectors written since the volume was created, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the causes")]
pub struct Written {
    pub host: u64,
    pub gc: u64,
    pub pad: u64,
    pub map: u64,
    pub checkpoint: u64,
    pub list: u64,
}

impl Written {
    /// Returns the sum of all causes.
    pub fn total(&self) -> u64 {
        self.words().iter().sum()
    }

    /// Returns the maximum of each cause.
    pub fn max(&self, other: &Written) -> Written {
        let (one, other) = (self.words(), other.words());
        Written::new(core::array::from_fn(|index| one[index].max(other[index])))
    }

    /// Returns the sum for each cause.
    pub fn plus(&self, other: &Written) -> Written {
        let (one, other) = (self.words(), other.words());
        Written::new(core::array::from_fn(|index| one[index] + other[index]))
    }

    fn words(&self) -> [u64; 6] {
        [self.host, self.gc, self.pad, self.map, self.checkpoint, self.list]
    }

    fn new([host, gc, pad, map, checkpoint, list]: [u64; 6]) -> Self {
        Written { host, gc, pad, map, checkpoint, list }
    }
}

/// Entry of a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes the fields")]
pub struct Entry {
    pub kind: Kind,
    pub block: u64,
    pub value: u32,
    pub crc: u32,
}

/// Limit that no number of a row or strip reaches; smaller numbers fit into an entry.
const MOST: u64 = 1 << 55;

/// Contents of a tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes the fields")]
pub struct Tail {
    pub seq: u64,
    pub newest: u64,
    pub opened: u64,
    pub line: u32,
    pub previous: u32,
    pub entries: u16,
    pub holds: Holds,
    pub units: u64,
    pub written: Written,
}

/// Returns whether a parallel unit takes part, according to the bits of a tail. Units without a bit
/// take part.
pub fn takes_part(units: u64, unit: u32) -> bool {
    unit >= u64::BITS || units >> unit & 1 == 1
}

fn stamp(uuid: &[u8; 16], at: u64) -> Stamp {
    Stamp { kind: TAIL, uuid: *uuid, at }
}

/// Writes entry `index`, before [`seal`].
///
/// # Panics
/// When the tail has no space for it.
pub fn put_entry(page: &mut Page, index: usize, entry: &Entry) {
    assert!(index < ENTRIES && entry.block >> 56 == 0, "no such entry");
    put_at(page, FIRST + index * ENTRY, entry);
}

/// Writes record `index` of a page of a list.
///
/// # Panics
/// When the page has no space for it.
pub fn put_record(page: &mut Page, index: usize, record: &Entry) {
    assert!(index < RECORDS && record.block >> 56 == 0, "no such record");
    put_at(page, index * ENTRY, record);
}

fn put_at(page: &mut Page, at: usize, entry: &Entry) {
    put_u64(page, at, entry.block | (entry.kind as u64) << 56);
    put_u32(page, at + 8, entry.value);
    put_u32(page, at + 12, entry.crc);
}

/// Completes a tail for sector `at`.
pub fn seal(page: &mut Page, uuid: &[u8; 16], at: u64, tail: &Tail) {
    put_u64(page, 32, tail.newest);
    put_u64(page, 40, tail.opened);
    put_u32(page, 48, tail.line);
    put_u32(page, 52, tail.previous);
    page.0[56..58].copy_from_slice(&tail.entries.to_le_bytes());
    page.0[58..64].fill(0);
    page.0[58] = tail.holds as u8;
    put_u64(page, 64, tail.units);
    for (index, word) in tail.written.words().into_iter().enumerate() {
        put_u64(page, 72 + 8 * index, word);
    }
    page.0[120..FIRST].fill(0);
    page.0[FIRST + usize::from(tail.entries) * ENTRY..].fill(0);
    page::seal(page, stamp(uuid, at), tail.seq);
}

/// Reads a tail at sector `at`. Returns `None` if it is not one of this volume, or damaged.
pub fn open(page: &Page, uuid: &[u8; 16], at: u64) -> Option<Tail> {
    let seq = page::open(page, stamp(uuid, at)).ok()?;
    let entries = u16::from_le_bytes([page.0[56], page.0[57]]);
    let holds = match page.0[58] {
        0 => Holds::Blocks,
        1 => Holds::Images,
        2 => Holds::List,
        _ => return None,
    };
    let written: [u64; 6] = core::array::from_fn(|index| u64_at(page, 72 + 8 * index));
    let numbers = [seq, u64_at(page, 32), u64_at(page, 40)];
    let small = numbers.iter().chain(&written).all(|it| *it < MOST);
    let sane = usize::from(entries) <= ENTRIES && small;
    sane.then(|| Tail {
        seq,
        newest: u64_at(page, 32),
        opened: u64_at(page, 40),
        line: u32_at(page, 48),
        previous: u32_at(page, 52),
        entries,
        holds,
        units: u64_at(page, 64),
        written: Written::new(written),
    })
}

/// Returns entry `index` of a parsed tail; `None` if its kind is unknown.
pub fn entry(page: &Page, index: usize) -> Option<Entry> {
    entry_at(page, FIRST + index * ENTRY)
}

/// Returns record `index` of a page of a list; `None` if its kind is unknown.
pub fn record(page: &Page, index: usize) -> Option<Entry> {
    entry_at(page, index * ENTRY)
}

fn entry_at(page: &Page, at: usize) -> Option<Entry> {
    let word = u64_at(page, at);
    let kind = match word >> 56 {
        0 => Kind::None,
        1 => Kind::Data,
        2 => Kind::Trim,
        3 => Kind::Image,
        4 => Kind::Root,
        5 => Kind::Images,
        6 => Kind::Lost,
        7 => Kind::Strip,
        8 => Kind::Page,
        _ => return None,
    };
    let (value, crc) = (u32_at(page, at + 8), u32_at(page, at + 12));
    Some(Entry { kind, block: word & (u64::MAX >> 8), value, crc })
}

/// Fills a page for sector `at`: the strips from its own up to `end` are padding.
pub fn seal_pad(page: &mut Page, uuid: &[u8; 16], at: u64, end: u64) {
    page.0.fill(0);
    page::seal(page, Stamp { kind: PAD, uuid: *uuid, at }, end);
}

/// Returns the strip before which the padding that starts with this page's strip ends; `None` if it
/// is not such a page.
pub fn pad_end(page: &Page, uuid: &[u8; 16], at: u64) -> Option<u64> {
    page::open(page, Stamp { kind: PAD, uuid: *uuid, at }).ok()
}

/// Returns the CRC-32C of the image of map page `number`, or of page `number` of a list.
pub fn image_crc(page: &Page, number: u64) -> u32 {
    crc32c(number, &page.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const KINDS: [Kind; 9] = {
        use Kind::*;
        [None, Data, Trim, Image, Root, Images, Lost, Strip, Page]
    };

    prop_compose! {
        fn entries()(
            kind in 0..KINDS.len(), block in 0..1_u64 << 56, value: u32, crc: u32,
        ) -> Entry {
            Entry { kind: KINDS[kind], block, value, crc }
        }
    }

    proptest! {
        #[test]
        fn open_undoes_seal(
            list in proptest::collection::vec(entries(), 0..=ENTRIES),
            words in proptest::array::uniform3(0..MOST), units: u64,
            line: u32, previous: u32, holds in 0..3_usize, at: u64, uuid: [u8; 16],
            written in proptest::array::uniform6(0..MOST),
            flip in 0..4096_usize * 8,
        ) {
            let [seq, newest, opened] = words;
            let holds = [Holds::Blocks, Holds::Images, Holds::List][holds];
            let written = Written::new(written);
            let entries = list.len() as u16;
            let tail = Tail {
                seq, newest, opened, line, previous, entries, holds, units, written,
            };
            let mut page = Page([0xee; BLOCK]);
            for (index, one) in list.iter().enumerate() {
                put_entry(&mut page, index, one);
            }
            seal(&mut page, &uuid, at, &tail);
            prop_assert_eq!(open(&page, &uuid, at), Some(tail));
            let found: Vec<_> = (0..list.len()).filter_map(|index| entry(&page, index)).collect();
            prop_assert_eq!(found, list);
            prop_assert_eq!(open(&page, &uuid, at ^ 1), None, "an address of its own");
            page.0[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(open(&page, &uuid, at), None, "any bit counts");
        }
    }

    #[test]
    fn a_pad_is_no_tail_and_a_tail_no_pad() {
        let (mut page, uuid) = (Page([0xee; BLOCK]), [3; 16]);
        seal_pad(&mut page, &uuid, 8, 77);
        assert_eq!((pad_end(&page, &uuid, 8), open(&page, &uuid, 8)), (Some(77), None));
        assert_eq!(pad_end(&page, &uuid, 16), None, "an address of its own");
        seal(&mut page, &uuid, 8, &Tail::default());
        assert_eq!(pad_end(&page, &uuid, 8), None);
    }

    #[test]
    fn damaged_records_are_rejected() {
        let mut page = Page::default();
        let tail = Tail { entries: 1, ..Tail::default() };
        put_entry(&mut page, 0, &Entry { kind: Kind::Data, block: 7, value: 1, crc: 0 });
        page.0[FIRST + 7] = KINDS.len() as u8;
        seal(&mut page, &[3; 16], 8, &tail);
        assert_eq!(entry(&page, 0), None, "a kind that is none");
        page.0[56..58].copy_from_slice(&300_u16.to_le_bytes());
        page::seal(&mut page, stamp(&[3; 16], 8), 1);
        assert_eq!(open(&page, &[3; 16], 8), None, "more entries than there is room for");
        page.0[56..59].copy_from_slice(&[0, 0, 3]);
        page::seal(&mut page, stamp(&[3; 16], 8), 1);
        assert_eq!(open(&page, &[3; 16], 8), None, "pages that are nothing known");
    }

    #[test]
    fn records_fill_a_page() {
        let mut page = Page([0xee; BLOCK]);
        let of = |index: usize| Entry {
            kind: KINDS[index % KINDS.len()],
            block: index as u64 * 7_919,
            value: index as u32,
            crc: !(index as u32),
        };
        (0..RECORDS).for_each(|index| put_record(&mut page, index, &of(index)));
        (0..RECORDS).for_each(|index| assert_eq!(record(&page, index), Some(of(index))));
    }
}

//! The log array on media: row heads, map pages and roots.
//!
//! A **row** begins with its head, on the row's first data device; all integers little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | CRC-32C of bytes 4 to the end of the entries, begun with the row's address |
//! | 4..8 | `LROW` |
//! | 8..24 | volume UUID |
//! | 24..32 | sequence number of the row |
//! | 32..40 | the newest record of the journal that was durable when the row was sealed |
//! | 40..44 | epoch |
//! | 44..48 | the segment where the stream goes on |
//! | 48..52 | entries |
//! | 52..56 | sectors of the row on its first device |
//! | 56..60 | sectors of the row on its last data device |
//! | 60 | data devices of the row |
//! | 61 | stream |
//! | 62..64 | so many rows up to this one were not known to be durable when it was sealed |
//! | 64..66 | the devices on which the row's segment lies, as a set of bits |
//! | 66..68 | those of the segment where the stream goes on |
//! | 68..70 | those of its devices that lack their chunks of the segment, because they came later |
//! | 70.. | entries of 20 bytes |
//!
//! An **entry**: block number (40 bits) with the kind above it (8 bits), then the record's place,
//! then its CRC-32C. For a trim the place is the number of blocks.
//!
//! A **place** (64 bits): device (4), offset on the device in units of 16 bytes (44), length − 1
//! (12), generation (4). 0 is nowhere.
//!
//! A **map page**: 340 pairs of place (8 bytes) and CRC (4 bytes), then 4 bytes of zeros, the page
//! number (u32) and the kind of page (8 bytes). Its own CRC is kept by who points at it.
//!
//! A **page of counts**: 255 segments of 16 bytes: how many grains of 16 bytes of each the map
//! points at (u32), the devices on which it lies, and those of them that lack their chunks (u16
//! each, as sets of bits), the number of its newest row (u64); then 4 bytes of zeros and the end as
//! of a map page.
//!
//! A **root** is a run of pages that begin like all metadata pages (see [`crate::page`]), with kind
//! `LGRT` and the root's number as sequence. After the header, in the first page: 32 epoch (u32),
//! 36 page of the run (u32), 40 sequence number from which rows are replayed, 48 the durable one,
//! 56 generation (u8), 58 lost devices (u16), 60 life (u32), 64 the last root on all devices, 72
//! streams of 20 bytes (segment, slot, sector, 0 for none, else 1, or 2 more than the segment where
//! the stream goes on should it leave that one early, then the devices of both segments, u16 each),
//! 216 blocks that are mapped, 224 the newest record of the journal that is durable, 232 lost
//! devices on which nothing lies (u16), 234 the sets of devices on which segments were opened last
//! (four of u16), 242 the devices of which it knows (u16), 244 pages of the directory (u32), 248
//! the places of the pages of the directory and then of the pages of counts, of 14 bytes: place,
//! CRC, and the devices of its segment. Further pages have 36, and those from 248.

pub mod journal;
mod root;

pub use root::{Begin, Root, SETS, STREAMS, emit_root, open_root, root_pages, root_pair};

use hostftl_core::{BLOCK, MetaBuf, Page};

use crate::page::{crc32c, crc32c_of, put_u32, put_u64, u32_at, u64_at};

/// Bytes of a head before its entries.
pub const HEAD: usize = 70;
/// Bytes of an entry.
pub const ENTRY: usize = 20;
/// Pairs in a map page.
pub const PAIRS: usize = 340;
/// Segments in a page of counts.
pub const COUNTS: usize = 255;
/// Bytes in which records are laid out.
pub const GRAIN: u32 = 16;

const MAGIC: [u8; 4] = *b"LROW";
const BLOCK_BITS: u32 = 40;
const OFFSET_BITS: u32 = 44;

/// Bytes of a device that a place can name: 256 TiB.
pub const MOST_BYTES: u64 = (GRAIN as u64) << OFFSET_BITS;
/// Blocks that an entry can name: 4 PiB of them.
pub const MOST_BLOCKS: u64 = 1 << BLOCK_BITS;
/// Generations there are.
pub const GENERATIONS: u8 = 16;

/// Where a record is, and a few bits of its generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// No place.
    pub const NOWHERE: Place = Place(0);

    /// The place of `len` bytes (1 to 4096) at `byte`, a multiple of 16 below [`MOST_BYTES`], of a
    /// device (below 16); the generation is below [`GENERATIONS`].
    #[inline]
    pub fn new(device: u8, byte: u64, len: u32, generation: u8) -> Self {
        assert!(device < 16 && (1..=4096).contains(&len), "no such record");
        assert!(byte.is_multiple_of(GRAIN.into()) && byte < MOST_BYTES, "no such offset");
        assert!(generation < GENERATIONS, "no such generation");
        let offset = byte / u64::from(GRAIN);
        Place(
            u64::from(device) << 60
                | offset << 16
                | u64::from(len - 1) << 4
                | u64::from(generation),
        )
    }

    /// From its bits.
    pub fn from_bits(bits: u64) -> Self {
        Place(bits)
    }

    /// Its bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether it is nowhere.
    pub fn is_nowhere(self) -> bool {
        self.0 == 0
    }

    /// The device.
    #[inline]
    pub fn device(self) -> u8 {
        (self.0 >> 60) as u8
    }

    /// The first byte on the device.
    #[inline]
    pub fn byte(self) -> u64 {
        (self.0 >> 16 & ((1 << OFFSET_BITS) - 1)) * u64::from(GRAIN)
    }

    /// The bytes of the record.
    #[inline]
    pub fn len(self) -> u32 {
        (self.0 >> 4 & 0xfff) as u32 + 1
    }

    /// Never: a record has at least one byte.
    pub fn is_empty(self) -> bool {
        false
    }

    /// The generation.
    pub fn generation(self) -> u8 {
        self.0 as u8 % GENERATIONS
    }
}

/// What an entry lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block, compressed or raw.
    Data = 1,
    /// Blocks that hold nothing any more.
    Trim,
    /// The image of a map page.
    Map,
    /// The image of a page of the directory, which points at map pages.
    Directory,
    /// The image of a page of the counts of live grains.
    Counts,
}

/// One entry of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The first block, or the number of the page.
    pub block: u64,
    /// The place; for a trim the number of blocks, as bits.
    pub place: Place,
    /// The CRC-32C of the record, begun with [`seed`].
    pub crc: u32,
}

/// What the checksum of a block's record begins with.
pub fn seed(block: u64, generation: u8) -> u64 {
    block << 8 | u64::from(generation)
}

/// What a row says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes the fields")]
pub struct Head {
    pub seq: u64,
    /// At most 65535 below `seq`.
    pub durable: u64,
    pub journal: u64,
    pub epoch: u32,
    pub next: u32,
    pub entries: u32,
    pub first_sectors: u32,
    pub last_sectors: u32,
    pub chunks: u8,
    pub stream: u8,
    /// The devices of its segment, and of the next one, as sets of bits.
    pub members: u16,
    pub next_members: u16,
    /// Those of `members` that lack their chunks of the segment.
    pub lacking: u16,
}

/// Writes bytes that may lie across the end of a page.
#[inline]
fn put<const N: usize>(buf: &mut MetaBuf, at: usize, bytes: &[u8; N]) {
    let (page, from) = (at / BLOCK, at % BLOCK);
    if let Some(room) = buf.pages_mut()[page].0[from..].first_chunk_mut() {
        *room = *bytes;
        return;
    }
    let (here, there) = bytes.split_at(BLOCK - from);
    buf.pages_mut()[page].0[from..].copy_from_slice(here);
    buf.pages_mut()[page + 1].0[..there.len()].copy_from_slice(there);
}

#[inline]
fn get<const N: usize>(buf: &MetaBuf, at: usize) -> [u8; N] {
    let (page, from) = (at / BLOCK, at % BLOCK);
    if let Some(bytes) = buf.pages()[page].0[from..].first_chunk() {
        return *bytes;
    }
    let mut bytes = [0; N];
    let (here, there) = bytes.split_at_mut(BLOCK - from);
    here.copy_from_slice(&buf.pages()[page].0[from..]);
    there.copy_from_slice(&buf.pages()[page + 1].0[..there.len()]);
    bytes
}

fn crc_of(buf: &MetaBuf, at: u64, end: usize) -> u32 {
    let parts = buf.pages().iter().enumerate().map(|(index, page)| {
        let from = if index == 0 { 4 } else { 0 };
        let to = end.saturating_sub(index * BLOCK).clamp(from, BLOCK);
        &page.0[from..to]
    });
    crc32c_of(at, parts)
}

/// How many entries fit into a head of `pages` pages.
#[inline]
pub fn room(pages: u32) -> u32 {
    ((pages as usize * BLOCK - HEAD) / ENTRY) as u32
}

/// Writes entry `index` of a head.
#[inline]
pub fn put_entry(buf: &mut MetaBuf, index: u32, entry: &Entry) {
    let mut bytes = [0; ENTRY];
    let first = entry.block | (entry.kind as u64) << BLOCK_BITS;
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..16].copy_from_slice(&entry.place.bits().to_le_bytes());
    bytes[16..].copy_from_slice(&entry.crc.to_le_bytes());
    put(buf, HEAD + index as usize * ENTRY, &bytes);
}

/// Completes a head whose entries were written; `at` is the address of the row.
pub fn seal(buf: &mut MetaBuf, uuid: &[u8; 16], at: u64, head: &Head) {
    let mut bytes = [0; HEAD];
    bytes[4..8].copy_from_slice(&MAGIC);
    bytes[8..24].copy_from_slice(uuid);
    bytes[24..32].copy_from_slice(&head.seq.to_le_bytes());
    bytes[32..40].copy_from_slice(&head.journal.to_le_bytes());
    let words = [head.epoch, head.next, head.entries, head.first_sectors, head.last_sectors];
    for (index, word) in words.into_iter().enumerate() {
        bytes[40 + 4 * index..44 + 4 * index].copy_from_slice(&word.to_le_bytes());
    }
    (bytes[60], bytes[61]) = (head.chunks, head.stream);
    let behind = u16::try_from(head.seq - head.durable).expect("few rows are not durable");
    bytes[62..64].copy_from_slice(&behind.to_le_bytes());
    bytes[64..66].copy_from_slice(&head.members.to_le_bytes());
    bytes[66..68].copy_from_slice(&head.next_members.to_le_bytes());
    bytes[68..].copy_from_slice(&head.lacking.to_le_bytes());
    put(buf, 0, &bytes);
    let crc = crc_of(buf, at, HEAD + head.entries as usize * ENTRY);
    put(buf, 0, &crc.to_le_bytes());
}

/// Bytes that count of the first page of metadata: those of a row's head end with its entries.
pub fn used(page: &Page) -> usize {
    let end = HEAD.saturating_add(ENTRY.saturating_mul(u32_at(page, 48) as usize));
    if page.0[4..8] == MAGIC { end.min(BLOCK) } else { BLOCK }
}

/// How many entries the head claims to have; it may be anything until [`open`] agrees.
pub fn claimed(buf: &MetaBuf) -> u32 {
    u32_at(&buf.pages()[0], 48)
}

/// Reads a head that lies at `at`. `None` when it is no head of this volume, or damaged.
pub fn open(buf: &MetaBuf, uuid: &[u8; 16], at: u64) -> Option<Head> {
    let page = &buf.pages()[0];
    let entries = claimed(buf);
    if page.0[4..8] != MAGIC || page.0[8..24] != *uuid || entries > room(buf.pages().len() as u32) {
        return None;
    }
    if crc_of(buf, at, HEAD + entries as usize * ENTRY) != u32_at(page, 0) {
        return None;
    }
    let seq = u64_at(page, 24);
    Some(Head {
        seq,
        durable: seq.saturating_sub(u64::from(u32_at(page, 60) >> 16)),
        journal: u64_at(page, 32),
        epoch: u32_at(page, 40),
        next: u32_at(page, 44),
        entries,
        first_sectors: u32_at(page, 52),
        last_sectors: u32_at(page, 56),
        chunks: page.0[60],
        stream: page.0[61],
        members: u32_at(page, 64) as u16,
        next_members: (u32_at(page, 64) >> 16) as u16,
        lacking: u32_at(page, 68) as u16,
    })
}

/// The block of entry `index` of a head, if it is one of a block, else anything.
#[inline]
pub fn block_of(buf: &MetaBuf, index: u32) -> u64 {
    let bytes: [u8; 8] = get(buf, HEAD + index as usize * ENTRY);
    u64::from_le_bytes(bytes) & ((1 << BLOCK_BITS) - 1)
}

/// Entry `index` of a head; `None` when its kind is unknown.
#[inline]
pub fn entry(buf: &MetaBuf, index: u32) -> Option<Entry> {
    let bytes: [u8; ENTRY] = get(buf, HEAD + index as usize * ENTRY);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let kind = match word(0) >> BLOCK_BITS {
        1 => Kind::Data,
        2 => Kind::Trim,
        3 => Kind::Map,
        4 => Kind::Directory,
        5 => Kind::Counts,
        _ => return None,
    };
    let block = word(0) & ((1 << BLOCK_BITS) - 1);
    let crc = u32::from_le_bytes(bytes[16..].try_into().expect("four bytes"));
    Some(Entry { kind, block, place: Place::from_bits(word(8)), crc })
}

/// Writes an image of map page (or directory page) `number`.
pub fn emit_page(
    page: &mut Page,
    kind: Kind,
    number: u32,
    pairs: impl Iterator<Item = (Place, u32)>,
) {
    let mut slots = page.0[..PAIRS * 12].as_chunks_mut::<12>().0.iter_mut();
    for ((place, crc), slot) in pairs.zip(slots.by_ref()) {
        slot[..8].copy_from_slice(&place.bits().to_le_bytes());
        slot[8..].copy_from_slice(&crc.to_le_bytes());
    }
    slots.for_each(|slot| slot.fill(0));
    page.0[PAIRS * 12..].fill(0);
    sign(page, kind, number);
}

fn sign(page: &mut Page, kind: Kind, number: u32) {
    page.0[4084..4088].copy_from_slice(&number.to_le_bytes());
    page.0[4088] = kind as u8;
}

/// What a root says of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Grains of the host's data to which the map points.
    pub grains: u32,
    /// The devices on which it lies, as a set of bits.
    pub members: u16,
    /// Those of them that lack their chunks.
    pub lacking: u16,
    /// The number of the newest row in it.
    pub newest: u64,
}

/// Writes an image of page `number` of the counts.
pub fn emit_counts(page: &mut Page, number: u32, counts: impl Iterator<Item = Counted>) {
    page.0.fill(0);
    for (index, it) in counts.enumerate() {
        put_u32(page, index * 16, it.grains);
        put_u32(page, index * 16 + 4, u32::from(it.members) | u32::from(it.lacking) << 16);
        put_u64(page, index * 16 + 8, it.newest);
    }
    sign(page, Kind::Counts, number);
}

/// What a page of the counts says of its segment number `index`.
pub fn count(page: &Page, index: usize) -> Counted {
    let sets = u32_at(page, index * 16 + 4);
    let (members, lacking) = (sets as u16, (sets >> 16) as u16);
    let newest = u64_at(page, index * 16 + 8);
    Counted { grains: u32_at(page, index * 16), members, lacking, newest }
}

/// What the checksum of an image begins with.
pub fn page_seed(uuid: &[u8; 16]) -> u64 {
    u64::from_le_bytes(uuid[..8].try_into().expect("eight bytes"))
}

/// The CRC-32C of an image.
pub fn page_crc(page: &Page, uuid: &[u8; 16]) -> u32 {
    crc32c(page_seed(uuid), &page.0)
}

/// Whether an image is that of page `number`.
pub fn is_page(page: &Page, kind: Kind, number: u32) -> bool {
    u32_at(page, 4084) == number && page.0[4088] == kind as u8
}

/// Pair `index` of an image.
pub fn pair(page: &Page, index: usize) -> (Place, u32) {
    (Place::from_bits(u64_at(page, index * 12)), u32_at(page, index * 12 + 8))
}

#[cfg(test)]
mod tests;

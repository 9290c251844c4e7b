//! The log array on media: stripe heads, map pages and roots.
//!
//! A **stripe** begins with its head, on its first data member; all integers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | CRC-32C of bytes 4 to the end of the entries, seeded with the stripe's address |
//! | 4..8 | `LROW` |
//! | 8..24 | volume UUID |
//! | 24..32 | number of the stripe |
//! | 32..40 | newest journal record that was durable when the stripe was sealed |
//! | 40..44 | epoch |
//! | 44..48 | segment where the stream continues |
//! | 48..52 | entries |
//! | 52..56 | sectors of its first data chunk |
//! | 56..60 | sectors of its last data chunk |
//! | 60 | data chunks |
//! | 61 | stream |
//! | 62..64 | stripes up to this one that were not known to be durable when it was sealed |
//! | 64..66 | members of its segment, bit set |
//! | 66..68 | members of the segment where the stream continues, bit set |
//! | 68..70 | members that lack their chunks of the segment because they joined later, bit set |
//! | 70.. | entries of 20 bytes |
//!
//! An **entry**: block number (40 bits) with the kind above it (8 bits), then the record's place,
//! then its CRC-32C. For a trim the place is the number of blocks.
//!
//! A **place** (64 bits): device (4), offset on the device in units of 16 bytes (44), length − 1
//! (12), generation (4). 0 is nowhere.
//!
//! A **map page**: 340 pairs of place (8 bytes) and CRC (4 bytes), then 4 bytes of zeros, the page
//! number (u32) and the kind of page (8 bytes). The CRC of the page is stored with its pointer.
//!
//! A **page of counts**: 16 bytes for each of 255 segments. They are the number of valid grains of
//! 16 bytes (u32), the members, those that lack their chunks (u16 each, bit sets), and the number
//! of the newest stripe (u64). At the end are 4 bytes of zeros, the page number and the kind, as in
//! a map page.
//!
//! A **root** is a sequence of pages with the header of all metadata pages (see [`crate::page`]),
//! the kind `LGRT`, and the root's number as sequence. The first page has these fields: 32 epoch
//! (u32), 36 index of the page (u32), 40 first stripe to replay, 48 last stripe known to be
//! durable, 56 generation (u8), 58 lost devices (u16), 60 life (u32), 64 last root known to be on
//! all devices, 72 streams of 20 bytes (segment, slot, sector, 0 for none, else 1, or 2 more than
//! the segment where the stream continues if it leaves the first one early, then the members of
//! both segments, u16 each), 216 mapped blocks, 224 newest durable journal record, 232 lost devices
//! that hold no data (u16), 234 member sets on which segments were opened last (four of u16), 242
//! devices known to the root (u16), 244 pages of the directory (u32), 248 place, CRC and members of
//! its segment (14 bytes) of each page of the directory, then of the counts. Further pages have the
//! same fields.

pub mod journal;
mod root;

pub use root::{Begin, Root, SETS, STREAMS, emit_root, open_root, root_pages, root_pair};

use hostftl_core::{BLOCK, MetaBuf, Page};

use crate::page::{crc32c, crc32c_parts, put_u32, put_u64, u32_at, u64_at};

/// Length of a head before its entries, in bytes.
pub const HEAD: usize = 70;
/// Length of an entry in bytes.
pub const ENTRY: usize = 20;
/// Number of pairs in a map page.
pub const PAIRS: usize = 340;
/// Number of segments in a page of counts.
pub const COUNTS: usize = 255;
/// Alignment of records in bytes.
pub const GRAIN: u32 = 16;

const MAGIC: [u8; 4] = *b"LROW";
const BLOCK_BITS: u32 = 40;
const OFFSET_BITS: u32 = 44;

/// Bytes of a device that a place can address: 256 TiB.
pub const MOST_BYTES: u64 = (GRAIN as u64) << OFFSET_BITS;
/// Number of blocks that an entry can address: 4 PiB of data.
pub const MOST_BLOCKS: u64 = 1 << BLOCK_BITS;
/// Number of generations.
pub const GENERATIONS: u8 = 16;

/// Position of a record, with the low bits of its generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// No position.
    pub const NOWHERE: Place = Place(0);

    /// Returns the place of `len` bytes (1 to 4096) at `byte`, a multiple of 16 below
    /// [`MOST_BYTES`], of a device (below 16); the generation is below [`GENERATIONS`].
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

    /// Converts from the representation in bits.
    pub fn from_bits(bits: u64) -> Self {
        Place(bits)
    }

    /// Returns the representation in bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether it is [`Place::NOWHERE`].
    pub fn is_nowhere(self) -> bool {
        self.0 == 0
    }

    /// Returns the device.
    #[inline]
    pub fn device(self) -> u8 {
        (self.0 >> 60) as u8
    }

    /// Returns the first byte on the device.
    #[inline]
    pub fn byte(self) -> u64 {
        (self.0 >> 16 & ((1 << OFFSET_BITS) - 1)) * u64::from(GRAIN)
    }

    /// Returns the length of the record in bytes.
    #[inline]
    pub fn len(self) -> u32 {
        (self.0 >> 4 & 0xfff) as u32 + 1
    }

    /// Returns false: a record has at least one byte.
    pub fn is_empty(self) -> bool {
        false
    }

    /// Returns the generation.
    pub fn generation(self) -> u8 {
        self.0 as u8 % GENERATIONS
    }
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Block, compressed or raw.
    Data = 1,
    /// Blocks that are trimmed.
    Trim,
    /// Image of a map page.
    Map,
    /// Image of a page of the directory, which points at map pages.
    Directory,
    /// Image of a page of the counts of valid grains.
    Counts,
}

/// Entry of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind of the entry.
    pub kind: Kind,
    /// First block, or number of the page.
    pub block: u64,
    /// Place; for a trim the number of blocks, as bits.
    pub place: Place,
    /// CRC-32C of the record, seeded with [`seed`].
    pub crc: u32,
}

/// Returns the seed of the checksum of a block's record.
pub fn seed(block: u64, generation: u8) -> u64 {
    block << 8 | u64::from(generation)
}

/// Contents of a stripe head.
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
    /// Members of its segment and of the next one, as bit sets.
    pub members: u16,
    pub next_members: u16,
    /// Those of `members` that lack their chunks of the segment.
    pub lacking: u16,
}

/// Writes bytes that may cross the end of a page.
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

fn head_crc(buf: &MetaBuf, at: u64, end: usize) -> u32 {
    let parts = buf.pages().iter().enumerate().map(|(index, page)| {
        let from = if index == 0 { 4 } else { 0 };
        let to = end.saturating_sub(index * BLOCK).clamp(from, BLOCK);
        &page.0[from..to]
    });
    crc32c_parts(at, parts)
}

/// Returns the number of entries that fit into a head of `pages` pages.
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

/// Completes a head whose entries were written; `at` is the address of the stripe.
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
    let behind = u16::try_from(head.seq - head.durable).expect("few stripes are not durable");
    bytes[62..64].copy_from_slice(&behind.to_le_bytes());
    bytes[64..66].copy_from_slice(&head.members.to_le_bytes());
    bytes[66..68].copy_from_slice(&head.next_members.to_le_bytes());
    bytes[68..].copy_from_slice(&head.lacking.to_le_bytes());
    put(buf, 0, &bytes);
    let crc = head_crc(buf, at, HEAD + head.entries as usize * ENTRY);
    put(buf, 0, &crc.to_le_bytes());
}

/// Returns the number of valid bytes of the first metadata page. Those of a stripe head end with
/// its entries.
pub fn used(page: &Page) -> usize {
    let end = HEAD.saturating_add(ENTRY.saturating_mul(u32_at(page, 48) as usize));
    if page.0[4..8] == MAGIC { end.min(BLOCK) } else { BLOCK }
}

/// Returns the number of entries in the head. It is not reliable until [`open`] has succeeded.
pub fn claimed(buf: &MetaBuf) -> u32 {
    u32_at(&buf.pages()[0], 48)
}

/// Reads a head at sector `at`. Returns `None` if it is not a head of this volume, or damaged.
pub fn open(buf: &MetaBuf, uuid: &[u8; 16], at: u64) -> Option<Head> {
    let page = &buf.pages()[0];
    let entries = claimed(buf);
    if page.0[4..8] != MAGIC || page.0[8..24] != *uuid || entries > room(buf.pages().len() as u32) {
        return None;
    }
    if head_crc(buf, at, HEAD + entries as usize * ENTRY) != u32_at(page, 0) {
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

/// Returns the block of entry `index` of a head. The result is arbitrary for an entry without one.
#[inline]
pub fn entry_block(buf: &MetaBuf, index: u32) -> u64 {
    let bytes: [u8; 8] = get(buf, HEAD + index as usize * ENTRY);
    u64::from_le_bytes(bytes) & ((1 << BLOCK_BITS) - 1)
}

/// Returns entry `index` of a head; `None` if its kind is unknown.
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

/// Writes an image of the map page or directory page `number`.
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

/// Counts of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Valid grains of host data.
    pub grains: u32,
    /// Members, as a bit set.
    pub members: u16,
    /// Members that lack their chunks.
    pub lacking: u16,
    /// Number of the newest stripe in the segment.
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

/// Returns the counts of segment `index` of the page.
pub fn count(page: &Page, index: usize) -> Counted {
    let sets = u32_at(page, index * 16 + 4);
    let (members, lacking) = (sets as u16, (sets >> 16) as u16);
    let newest = u64_at(page, index * 16 + 8);
    Counted { grains: u32_at(page, index * 16), members, lacking, newest }
}

/// Returns the seed of the checksum of an image.
pub fn page_seed(uuid: &[u8; 16]) -> u64 {
    u64::from_le_bytes(uuid[..8].try_into().expect("eight bytes"))
}

/// Returns the CRC-32C of an image.
pub fn page_crc(page: &Page, uuid: &[u8; 16]) -> u32 {
    crc32c(page_seed(uuid), &page.0)
}

/// Returns whether an image is that of page `number`.
pub fn is_page(page: &Page, kind: Kind, number: u32) -> bool {
    u32_at(page, 4084) == number && page.0[4088] == kind as u8
}

/// Returns pair `index` of an image.
pub fn pair(page: &Page, index: usize) -> (Place, u32) {
    (Place::from_bits(u64_at(page, index * 12)), u32_at(page, index * 12 + 8))
}

#[cfg(test)]
mod tests;

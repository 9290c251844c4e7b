//! Roots: the start of replay, and the places of the pages of the directory and of the counts. The
//! module text of [`crate::log`] has the byte map.

use hostftl_core::{BLOCK, MetaBuf, Page};

use super::Place;
use crate::page::{self, Stamp, put_u32, put_u64, u32_at, u64_at};

const ROOT: [u8; 4] = *b"LGRT";
const ROOT_PAIRS: usize = 248;
const ROOT_PAIR: usize = 14;
const PAIRS_OF_ROOT: usize = (BLOCK - ROOT_PAIRS) / ROOT_PAIR;
/// Number of member sets in a root.
pub const SETS: usize = 4;
/// Number of streams; the last one is that of map images.
pub const STREAMS: usize = 7;

/// Contents of a root without the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the text of the module describes the fields")]
pub struct Root {
    pub number: u64,
    /// Life whose stripes are replayed.
    pub epoch: u32,
    pub replay_from: u64,
    pub durable: u64,
    pub generation: u8,
    /// Lost devices, which lack later writes, as a bit set.
    pub lost: u16,
    /// Those of the lost devices that hold no data.
    pub out: u16,
    /// Devices known to the root, as a bit set: others hold no data.
    pub known: u16,
    /// Number of pages of the directory; pages of the counts follow.
    pub directories: u32,
    /// Member sets on which segments were opened, the last one first; 0 for none.
    pub sets: [u16; SETS],
    /// Last root known to be on all devices that are not lost.
    pub everywhere: u64,
    /// Number of mapped blocks.
    pub mapped: u64,
    /// Newest durable journal record in the life `epoch`.
    pub journal: u64,
    /// Last life begun: stripes of the next one have a greater epoch.
    pub life: u32,
    /// Position in each stream where replay begins.
    pub streams: [Option<Begin>; STREAMS],
}

/// Position of the first stripe of a stream to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "an address as the layer prints it")]
pub struct Begin {
    pub segment: u32,
    pub slot: u32,
    pub sector: u32,
    /// Members of the segment, as a bit set.
    pub members: u16,
    /// Segment where the stream continues if it leaves the first one early, and its members.
    pub ahead: Option<(u32, u16)>,
}

/// Returns the number of pages of a root with `pointed` pages of the directory and the counts.
pub fn root_pages(pointed: u32) -> u32 {
    pointed.div_ceil(PAIRS_OF_ROOT as u32).max(1)
}

/// Writes a root for sector `at`. The pairs are those of the directory's pages, then of the pages
/// of counts.
pub fn emit_root(
    buf: &mut MetaBuf,
    uuid: &[u8; 16],
    at: u64,
    root: &Root,
    mut pairs: impl Iterator<Item = (Place, u32, u16)>,
) {
    for (index, page) in buf.pages_mut().iter_mut().enumerate() {
        page.0.fill(0);
        put_u32(page, 32, root.epoch);
        put_u32(page, 36, index as u32);
        put_u64(page, 40, root.replay_from);
        put_u64(page, 48, root.durable);
        put_u32(page, 56, u32::from(root.generation) | u32::from(root.lost) << 16);
        put_u32(page, 60, root.life);
        put_u64(page, 64, root.everywhere);
        put_u64(page, 216, root.mapped);
        put_u64(page, 224, root.journal);
        for (at, set) in [root.out].iter().chain(&root.sets).chain([&root.known]).enumerate() {
            page.0[232 + 2 * at..234 + 2 * at].copy_from_slice(&set.to_le_bytes());
        }
        put_u32(page, 244, root.directories);
        for (stream, begin) in root.streams.iter().enumerate() {
            let Some(Begin { segment, slot, sector, members, ahead }) = *begin else { continue };
            let (next, next_members) = ahead.map_or((1, 0), |(next, set)| (next + 2, set));
            let sets = u32::from(members) | u32::from(next_members) << 16;
            for (word, value) in [segment, slot, sector, next, sets].into_iter().enumerate() {
                put_u32(page, 72 + 20 * stream + 4 * word, value);
            }
        }
        for (index, (place, crc, members)) in pairs.by_ref().take(PAIRS_OF_ROOT).enumerate() {
            let at = ROOT_PAIRS + ROOT_PAIR * index;
            put_u64(page, at, place.bits());
            put_u32(page, at + 8, crc);
            page.0[at + 12..at + 14].copy_from_slice(&members.to_le_bytes());
        }
        let stamp = Stamp { kind: ROOT, uuid: *uuid, at: at + 8 * index as u64 };
        page::seal(page, stamp, root.number);
    }
}

/// Reads a root at sector `at` with `counts` pages of counts. Returns `None` if it is not a root,
/// or damaged. It may be shorter than the buffer, if the volume was smaller.
pub fn open_root(buf: &MetaBuf, uuid: &[u8; 16], at: u64, counts: u32) -> Option<Root> {
    let mut number = None;
    let pages = root_pages(u32_at(&buf.pages()[0], 244).checked_add(counts)?) as usize;
    for (index, page) in buf.pages().get(..pages)?.iter().enumerate() {
        let stamp = Stamp { kind: ROOT, uuid: *uuid, at: at + 8 * index as u64 };
        let seq = page::open(page, stamp).ok()?;
        if u32_at(page, 36) != index as u32 || number.is_some_and(|number| number != seq) {
            return None;
        }
        number = Some(seq);
    }
    let page = &buf.pages()[0];
    let word = |stream: usize, word: usize| u32_at(page, 72 + 20 * stream + 4 * word);
    let stream = |at: usize| {
        let (segment, slot, sector) = (word(at, 0), word(at, 1), word(at, 2));
        let next = word(at, 3).checked_sub(1)?.checked_sub(1);
        let ahead = next.map(|next| (next, (word(at, 4) >> 16) as u16));
        Some(Begin { segment, slot, sector, members: word(at, 4) as u16, ahead })
    };
    Some(Root {
        number: number?,
        epoch: u32_at(page, 32),
        replay_from: u64_at(page, 40),
        durable: u64_at(page, 48),
        generation: u32_at(page, 56) as u8,
        lost: (u32_at(page, 56) >> 16) as u16,
        out: u16_at(page, 232),
        known: u16_at(page, 242),
        directories: u32_at(page, 244),
        sets: core::array::from_fn(|at| u16_at(page, 234 + 2 * at)),
        everywhere: u64_at(page, 64),
        mapped: u64_at(page, 216),
        journal: u64_at(page, 224),
        life: u32_at(page, 60),
        streams: core::array::from_fn(stream),
    })
}

/// Returns the place and CRC of page `index` of the directory and the counts, and the members of
/// its segment.
pub fn root_pair(buf: &MetaBuf, index: usize) -> (Place, u32, u16) {
    let page = &buf.pages()[index / PAIRS_OF_ROOT];
    let at = ROOT_PAIRS + ROOT_PAIR * (index % PAIRS_OF_ROOT);
    (Place::from_bits(u64_at(page, at)), u32_at(page, at + 8), u16_at(page, at + 12))
}

fn u16_at(page: &Page, at: usize) -> u16 {
    u16::from_le_bytes([page.0[at], page.0[at + 1]])
}

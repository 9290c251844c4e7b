//! Pages of the `hard` layer: roots, map groups, and the map log.
//!
//! Every page has the header of [`crate::page`]. Offsets below are in bytes from the page's start.
//!
//! Root page 0 (`HRDR`, sequence = root number): 32 epoch u64 · 40 first log sequence u64 · 48
//! superpage u32 · 52 superpages in the data area u32 · 56 groups u32 · 60 candidates u32 · 64 the
//! candidates, u32 each. Root page i > 0: 32 generations of groups (i − 1)·1016 onwards, u32 each.
//!
//! Map page (`HRDM`, sequence = generation): 32 group u32 · 36 page in the group u32 · 40 entries,
//! u32 each, or 5 bytes each on large volumes: 0 = unmapped, else virtual sector + 1.
//!
//! Log page (`HRDL`, sequence = number of the log write): 32 epoch u64 · 40 last durable log write
//! u64 · 48 page in the write u16 · 50 pages in the write u16 · 52 bytes of entries u16 · 54
//! candidates u16 · 56 superpage that contains it u32 · 64 entries · 3328 candidates for the next
//! log write, u32 each.
//!
//! A listing (contents of one superpage): kind 1 u8 · 2 runs u16 · 4 superpage u32 · 8 CRC-32C of
//! its data u32 · 12 sectors of data u16; then its runs of 8 bytes: logical sector (40 bits), slot
//! (12 bits), length − 1 (12 bits). A trim: kind 2 u8 · 4 sectors u32 · 8 logical sector u64. A
//! kill (virtual sectors whose data is newer at home): kind 3 u8 · 4 sectors u32 · 8 first u64. The
//! end of a loan (superpages that are only homes from now on): kind 4 u8 · 4 superpages u32 · 8
//! first u64. A loss (sectors that read as errors; nothing was written to their slots): kind 5,
//! then as a listing.

use hostftl_core::{BLOCK, Page};

use crate::page::{self, Fault, HEADER, Stamp, put_u32, put_u64, u32_at, u64_at};

/// Width of the entries of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Entries of 4 bytes.
    Narrow,
    /// Entries of 5 bytes, for volumes whose sector numbers do not fit 4 bytes.
    Wide,
}

impl Width {
    /// Returns the bytes of an entry.
    pub const fn bytes(self) -> usize {
        match self {
            Width::Narrow => 4,
            Width::Wide => 5,
        }
    }

    /// Returns the number of entries in a map page.
    pub const fn entries(self) -> usize {
        (BLOCK - MAP_BODY) / self.bytes()
    }

    /// Returns the largest entry.
    pub const fn most(self) -> u64 {
        u64::MAX >> (u64::BITS as usize - 8 * self.bytes())
    }
}

/// Number of generations in a root page after the first.
pub const ROOT_GENERATIONS: usize = (BLOCK - HEADER) / 4;
/// Maximum number of candidates in a root or a log write.
pub const CANDIDATES: usize = 192;
/// Bytes for entries in a log page.
pub const LOG_BYTES: usize = LOG_TAIL - LOG_BODY;
/// Length of a listing without its runs, and of a trim, in bytes.
pub const ENTRY: usize = 16;
/// Length of a run in bytes.
pub const RUN: usize = 8;

const ROOT: [u8; 4] = *b"HRDR";
const MAP: [u8; 4] = *b"HRDM";
const LOG: [u8; 4] = *b"HRDL";
const ROOT_LIST: usize = 64;
const MAP_BODY: usize = HEADER + 8;
const LOG_BODY: usize = 64;
const LOG_TAIL: usize = BLOCK - CANDIDATES * 4;

fn u16_at(page: &Page, at: usize) -> u16 {
    u16::from_le_bytes(page.0[at..at + 2].try_into().expect("two bytes"))
}

fn put_u16(page: &mut Page, at: usize, value: u16) {
    page.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Contents of the first page of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Number of the root; the higher of two valid roots counts.
    pub number: u64,
    /// Epoch; log pages of another epoch do not count.
    pub epoch: u64,
    /// First log write to replay.
    pub first_log: u64,
    /// Sectors in a superpage.
    pub superpage: u32,
    /// Superpages in the data area.
    pub count: u32,
    /// Number of map groups.
    pub groups: u32,
}

/// Writes the first page of a root; `at` is its sector.
pub fn emit_root(
    page: &mut Page,
    root: &Root,
    list: impl Iterator<Item = u32>,
    uuid: [u8; 16],
    at: u64,
) {
    page.0.fill(0);
    put_u64(page, 32, root.epoch);
    put_u64(page, 40, root.first_log);
    put_u32(page, 48, root.superpage);
    put_u32(page, 52, root.count);
    put_u32(page, 56, root.groups);
    let mut listed = 0;
    for (candidate, slot) in list.take(CANDIDATES).zip((ROOT_LIST..).step_by(4)) {
        put_u32(page, slot, candidate);
        listed += 1;
    }
    put_u32(page, 60, listed);
    page::seal(page, Stamp { kind: ROOT, uuid, at }, root.number);
}

/// Reads the first page of a root.
///
/// # Errors
/// [`Fault`] when it is not an intact root page of this volume.
pub fn parse_root(page: &Page, uuid: [u8; 16], at: u64) -> Result<Root, Fault> {
    let number = page::open(page, Stamp { kind: ROOT, uuid, at })?;
    if u32_at(page, 60) as usize > CANDIDATES {
        return Err(Fault::Damaged);
    }
    Ok(Root {
        number,
        epoch: u64_at(page, 32),
        first_log: u64_at(page, 40),
        superpage: u32_at(page, 48),
        count: u32_at(page, 52),
        groups: u32_at(page, 56),
    })
}

/// Returns the candidates of a parsed root.
pub fn root_candidates(page: &Page) -> impl Iterator<Item = u32> + '_ {
    (0..u32_at(page, 60) as usize).map(|i| u32_at(page, ROOT_LIST + i * 4))
}

/// Writes a root page of generations.
pub fn emit_generations(
    page: &mut Page,
    number: u64,
    generations: &[u32],
    uuid: [u8; 16],
    at: u64,
) {
    page.0.fill(0);
    for (generation, slot) in generations.iter().zip((HEADER..BLOCK).step_by(4)) {
        put_u32(page, slot, *generation);
    }
    page::seal(page, Stamp { kind: ROOT, uuid, at }, number);
}

/// Reads a root page of generations into `generations`.
///
/// # Errors
/// [`Fault`] when it is not a page of root `number`.
pub fn parse_generations(
    page: &Page,
    number: u64,
    generations: &mut [u32],
    uuid: [u8; 16],
    at: u64,
) -> Result<(), Fault> {
    if page::open(page, Stamp { kind: ROOT, uuid, at })? != number {
        return Err(Fault::Foreign);
    }
    for (generation, slot) in generations.iter_mut().zip((HEADER..BLOCK).step_by(4)) {
        *generation = u32_at(page, slot);
    }
    Ok(())
}

/// Identity of a map page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPage {
    /// Group.
    pub group: u32,
    /// Index of the page in the group.
    pub index: u32,
    /// Number of writes of the group, including this image.
    pub generation: u32,
}

/// Writes map entries into a page that [`seal_map`] completes.
pub fn fill_map(page: &mut Page, width: Width, entries: impl Iterator<Item = u64>) {
    page.0[MAP_BODY..].fill(0);
    let slots = page.0[MAP_BODY..].chunks_exact_mut(width.bytes());
    for (entry, slot) in entries.zip(slots) {
        slot.copy_from_slice(&entry.to_le_bytes()[..width.bytes()]);
    }
}

/// Completes a filled map page; `at` is its sector.
pub fn seal_map(page: &mut Page, which: MapPage, uuid: [u8; 16], at: u64) {
    put_u32(page, 32, which.group);
    put_u32(page, 36, which.index);
    page::seal(page, Stamp { kind: MAP, uuid, at }, which.generation.into());
}

/// Checks a map page.
///
/// # Errors
/// [`Fault`] when it is not an intact map page of this volume.
pub fn parse_map(page: &Page, uuid: [u8; 16], at: u64) -> Result<MapPage, Fault> {
    let generation = page::open(page, Stamp { kind: MAP, uuid, at })?;
    let generation = u32::try_from(generation).map_err(|_| Fault::Damaged)?;
    Ok(MapPage { group: u32_at(page, 32), index: u32_at(page, 36), generation })
}

/// Returns entry `i` of a map page.
pub fn map_entry(page: &Page, width: Width, i: usize) -> u64 {
    let at = MAP_BODY + i * width.bytes();
    match width {
        Width::Narrow => u32_at(page, at).into(),
        Width::Wide => u64::from(u32_at(page, at)) | u64::from(page.0[at + 4]) << 32,
    }
}

/// Head of a log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// Number of the log write.
    pub seq: u64,
    /// Epoch of the volume.
    pub epoch: u64,
    /// Last log write known to be durable.
    pub durable: u64,
    /// Index of the page in the write.
    pub index: u16,
    /// Number of pages of the write.
    pub pages: u16,
    /// Superpage that contains the page.
    pub superpage: u32,
}

/// Clears a log page, so that entries can be added.
pub fn clear_log(page: &mut Page) {
    page.0.fill(0);
}

/// Completes a log page. `list` has the superpages that may hold the next log write.
pub fn seal_log(
    page: &mut Page,
    head: &LogHead,
    list: impl Iterator<Item = u32>,
    uuid: [u8; 16],
    at: u64,
) {
    put_u64(page, 32, head.epoch);
    put_u64(page, 40, head.durable);
    put_u16(page, 48, head.index);
    put_u16(page, 50, head.pages);
    put_u32(page, 56, head.superpage);
    let mut listed = 0;
    for (candidate, slot) in list.take(CANDIDATES).zip((LOG_TAIL..).step_by(4)) {
        put_u32(page, slot, candidate);
        listed += 1;
    }
    put_u16(page, 54, listed);
    page::seal(page, Stamp { kind: LOG, uuid, at }, head.seq);
}

/// Checks a log page.
///
/// # Errors
/// [`Fault`] when it is not an intact log page of this volume.
pub fn parse_log(page: &Page, uuid: [u8; 16], at: u64) -> Result<LogHead, Fault> {
    let seq = page::open(page, Stamp { kind: LOG, uuid, at })?;
    let sane = log_used(page) <= LOG_BYTES && u16_at(page, 54) as usize <= CANDIDATES;
    if !sane || u16_at(page, 48) >= u16_at(page, 50) {
        return Err(Fault::Damaged);
    }
    Ok(LogHead {
        seq,
        epoch: u64_at(page, 32),
        durable: u64_at(page, 40),
        index: u16_at(page, 48),
        pages: u16_at(page, 50),
        superpage: u32_at(page, 56),
    })
}

/// Returns the candidates of a parsed log page.
pub fn log_candidates(page: &Page) -> impl Iterator<Item = u32> + '_ {
    (0..u16_at(page, 54) as usize).map(|i| u32_at(page, LOG_TAIL + i * 4))
}

/// Returns the number of bytes of entries in a log page.
pub fn log_used(page: &Page) -> usize {
    u16_at(page, 52) as usize
}

/// Contents of a superpage, without the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Superpage.
    pub superpage: u32,
    /// CRC-32C of its first `fill` sectors.
    pub crc: u32,
    /// Sectors of data in the superpage.
    pub fill: u16,
    /// Whether its sectors read as errors. It has no data then.
    pub lost: bool,
}

/// Logical sectors in consecutive slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First logical sector.
    pub lsn: u64,
    /// First slot in the superpage.
    pub slot: u32,
    /// Number of sectors.
    pub len: u32,
}

/// Entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Listing with `runs` runs, which begin at byte `runs_at` of the entries.
    Listing {
        /// Listing without its runs.
        listing: Listing,
        /// Position of its runs.
        runs_at: usize,
        /// Number of runs.
        runs: usize,
    },
    /// Range that is trimmed: it reads as zeros.
    Trim {
        /// First logical sector.
        lsn: u64,
        /// Number of sectors.
        len: u32,
    },
    /// Virtual sectors that are invalid: newer data is at their home.
    Kill {
        /// First virtual sector.
        vsn: u64,
        /// Number of sectors.
        len: u32,
    },
    /// End of a loan: superpages of the data area that are only homes from now on.
    Loan {
        /// First superpage.
        vsp: u32,
        /// Number of superpages.
        count: u32,
    },
}

/// Appends a listing without runs. The caller must have checked that `ENTRY + RUN` bytes are left.
pub fn push_listing(page: &mut Page, listing: &Listing) {
    let at = take(page, ENTRY);
    page.0[at] = if listing.lost { 5 } else { 1 };
    put_u32(page, at + 4, listing.superpage);
    put_u32(page, at + 8, listing.crc);
    put_u16(page, at + 12, listing.fill);
}

/// Appends a run to the last listing, which begins at byte `listing_at` of the entries.
pub fn push_run(page: &mut Page, listing_at: usize, run: Run) {
    let at = take(page, RUN);
    put_u64(page, at, run.lsn << 24 | u64::from(run.slot) << 12 | u64::from(run.len - 1));
    let runs_at = LOG_BODY + listing_at + 2;
    let runs = u16_at(page, runs_at) + 1;
    put_u16(page, runs_at, runs);
}

/// Appends a trim. The caller must have checked that `ENTRY` bytes are left.
pub fn push_trim(page: &mut Page, lsn: u64, len: u32) {
    let at = take(page, ENTRY);
    page.0[at] = 2;
    put_u32(page, at + 4, len);
    put_u64(page, at + 8, lsn);
}

/// Appends a kill. The caller must have checked that `ENTRY` bytes are left.
pub fn push_kill(page: &mut Page, vsn: u64, len: u32) {
    let at = take(page, ENTRY);
    page.0[at] = 3;
    put_u32(page, at + 4, len);
    put_u64(page, at + 8, vsn);
}

/// Appends the end of a loan. The caller must have checked that `ENTRY` bytes are left.
pub fn push_loan(page: &mut Page, vsp: u32, count: u32) {
    let at = take(page, ENTRY);
    page.0[at] = 4;
    put_u32(page, at + 4, count);
    put_u64(page, at + 8, vsp.into());
}

fn take(page: &mut Page, bytes: usize) -> usize {
    let used = log_used(page);
    assert!(used + bytes <= LOG_BYTES, "a log page is too full for this entry");
    put_u16(page, 52, (used + bytes) as u16);
    LOG_BODY + used
}

/// Returns the entry at byte `at` of the entries, and the position of the next one; `None` at the
/// end or if the entry is invalid.
pub fn entry_at(page: &Page, at: usize) -> Option<(Entry, usize)> {
    let used = log_used(page);
    if at + ENTRY > used {
        return None;
    }
    let base = LOG_BODY + at;
    match page.0[base] {
        1 | 5 => {
            let runs = u16_at(page, base + 2) as usize;
            let end = at + ENTRY + runs * RUN;
            let listing = Listing {
                superpage: u32_at(page, base + 4),
                crc: u32_at(page, base + 8),
                fill: u16_at(page, base + 12),
                lost: page.0[base] == 5,
            };
            let entry = Entry::Listing { listing, runs_at: at + ENTRY, runs };
            (end <= used).then_some((entry, end))
        }
        2 => {
            let entry = Entry::Trim { lsn: u64_at(page, base + 8), len: u32_at(page, base + 4) };
            Some((entry, at + ENTRY))
        }
        3 => {
            let entry = Entry::Kill { vsn: u64_at(page, base + 8), len: u32_at(page, base + 4) };
            Some((entry, at + ENTRY))
        }
        4 => {
            let vsp = u32::try_from(u64_at(page, base + 8)).ok()?;
            Some((Entry::Loan { vsp, count: u32_at(page, base + 4) }, at + ENTRY))
        }
        _ => None,
    }
}

/// Returns run `i` of a listing whose runs begin at byte `runs_at` of the entries.
pub fn run_at(page: &Page, runs_at: usize, i: usize) -> Run {
    let word = u64_at(page, LOG_BODY + runs_at + i * RUN);
    Run { lsn: word >> 24, slot: (word >> 12 & 0xfff) as u32, len: (word & 0xfff) as u32 + 1 }
}

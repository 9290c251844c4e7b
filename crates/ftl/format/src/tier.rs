//! Pages of the `tier` layer: roots and the directory on the fast device, the ledger on the slow
//! one.
//!
//! Every page has the header of [`crate::page`]. Offsets below are in bytes from the page's start.
//!
//! Root page (`TIRT`, sequence = root number): 32 clean u32 (1 after a clean stop) · 36 page in
//! sectors u32 · 40 slots u32 · 44 pages of the slow device u32 · 48 life u32 · 52 shared life u32.
//!
//! Directory page (`TIDR`, sequence = generation): 32 number of the page u32 · 40 entries, u32
//! each, one for each slot: 0 = empty, else 1 + the page of the slow device in the slot, with bit
//! 31 if the slow device has the same content. If the slow device has more pages than 31 bits can
//! number, entries have no such bit, and slots with the same content as the slow device are empty.
//!
//! Ledger page (`TILG`, sequence = generation, alternately in the last two blocks of the slow
//! device): 32 sectors of a region u32 · 36 regions u32 · 40 life u32 · 44 shared life u32 · 48 a
//! bit for each region of which the fast device may hold newer data.

use hostftl_core::{BLOCK, Page, SECTORS_PER_BLOCK};

use crate::page::{self, Fault, HEADER, Stamp, put_u32, u32_at};

/// Number of entries in a directory page.
pub const ENTRIES: usize = (BLOCK - BODY) / 4;
/// Maximum number of pages of a slow device.
pub const MOST_PAGES: u32 = u32::MAX - 2;
/// Maximum number of pages of a slow device whose clean pages are listed.
const MOST_LISTED: u32 = CLEAN - 2;

const ROOT: [u8; 4] = *b"TIRT";
const DIRECTORY: [u8; 4] = *b"TIDR";
const LEDGER: [u8; 4] = *b"TILG";
const BODY: usize = HEADER + 8;
/// Start of the bits of a ledger.
const BITS: usize = BODY + 8;
const CLEAN: u32 = 1 << 31;

/// Life of the volume in which a page was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// Life of the volume, which grows by one with each start.
    pub life: u32,
    /// Newest life that was known to be durable on both devices.
    pub shared: u32,
}

impl Lives {
    /// Returns whether the device with this page is an older copy, according to a device with
    /// `other`.
    pub fn is_older_than(&self, other: &Lives) -> bool {
        self.life < other.shared
    }

    fn emit(self, page: &mut Page, at: usize) {
        put_u32(page, at, self.life);
        put_u32(page, at + 4, self.shared);
    }

    fn parse(page: &Page, at: usize) -> Self {
        Lives { life: u32_at(page, at), shared: u32_at(page, at + 4) }
    }
}

/// Contents of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Number of the root; the higher of two valid roots counts.
    pub number: u64,
    /// Whether the layer was stopped cleanly. Only then do entries of clean pages count.
    pub clean: bool,
    /// Sectors in a page.
    pub page: u32,
    /// Slots on the fast device.
    pub slots: u32,
    /// Pages on the slow device.
    pub pages: u32,
    /// Life in which it was written.
    pub lives: Lives,
}

/// Writes a root; `at` is its sector.
pub fn emit_root(page: &mut Page, root: &Root, uuid: [u8; 16], at: u64) {
    page.0.fill(0);
    put_u32(page, 32, root.clean.into());
    put_u32(page, 36, root.page);
    put_u32(page, 40, root.slots);
    put_u32(page, 44, root.pages);
    root.lives.emit(page, 48);
    page::seal(page, Stamp { kind: ROOT, uuid, at }, root.number);
}

/// Reads a root.
///
/// # Errors
/// [`Fault`] when it is not an intact root of this volume.
pub fn parse_root(page: &Page, uuid: [u8; 16], at: u64) -> Result<Root, Fault> {
    let number = page::open(page, Stamp { kind: ROOT, uuid, at })?;
    if u32_at(page, 32) > 1 {
        return Err(Fault::Damaged);
    }
    Ok(Root {
        number,
        clean: u32_at(page, 32) == 1,
        page: u32_at(page, 36),
        slots: u32_at(page, 40),
        pages: u32_at(page, 44),
        lives: Lives::parse(page, 48),
    })
}

/// Contents of a slot according to the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Empty.
    Nothing,
    /// Page with newer data than the slow device.
    Dirty(u32),
    /// Page with the data of the slow device. It counts only after a clean stop.
    Clean(u32),
}

/// Clears a directory page, so that entries can be added.
pub fn clear_directory(page: &mut Page) {
    page.0.fill(0);
}

/// Writes an entry into a directory page. The slow device has `pages` pages; if they are too many
/// for clean ones to be listed, a clean page is not listed.
pub fn put_entry(page: &mut Page, index: usize, entry: Entry, pages: u32) {
    let word = match entry {
        Entry::Nothing => 0,
        Entry::Clean(_) if pages > MOST_LISTED => 0,
        Entry::Dirty(held) => held + 1,
        Entry::Clean(held) => (held + 1) | CLEAN,
    };
    put_u32(page, BODY + index * 4, word);
}

/// Returns entry `index` of a parsed directory page. The slow device has `pages` pages.
pub fn entry(page: &Page, index: usize, pages: u32) -> Entry {
    match u32_at(page, BODY + index * 4) {
        0 => Entry::Nothing,
        word if pages > MOST_LISTED => Entry::Dirty(word - 1),
        CLEAN => Entry::Nothing,
        word if word & CLEAN != 0 => Entry::Clean((word & !CLEAN) - 1),
        word => Entry::Dirty(word - 1),
    }
}

/// Completes directory page `number` for sector `at`.
pub fn seal_directory(page: &mut Page, number: u32, generation: u64, uuid: [u8; 16], at: u64) {
    put_u32(page, 32, number);
    page::seal(page, Stamp { kind: DIRECTORY, uuid, at }, generation);
}

/// Checks a directory page and returns its generation.
///
/// # Errors
/// [`Fault`] when it is not the intact page `number` of this volume.
pub fn parse_directory(page: &Page, number: u32, uuid: [u8; 16], at: u64) -> Result<u64, Fault> {
    let generation = page::open(page, Stamp { kind: DIRECTORY, uuid, at })?;
    if u32_at(page, 32) != number {
        return Err(Fault::Foreign);
    }
    Ok(generation)
}

/// Maximum number of regions of a ledger.
pub const MOST_REGIONS: u32 = ((BLOCK - BITS) * 8) as u32;
/// Sectors at the end of the slow device that are reserved for the ledger.
pub const LEDGER_SECTORS: u64 = 2 * SECTORS_PER_BLOCK as u64;

/// Returns the sector of a generation of the ledger on a slow device of `sectors` sectors.
pub fn ledger_at(sectors: u64, generation: u64) -> u64 {
    let block = u64::from(SECTORS_PER_BLOCK);
    sectors.saturating_sub(LEDGER_SECTORS) / block * block + generation % 2 * block
}

/// Regions of which the fast device may hold newer data.
#[derive(Clone, Copy, Debug)]
pub struct Ledger<'a> {
    /// Generation; the higher of two valid ledgers counts.
    pub generation: u64,
    /// Sectors of a region.
    pub wide: u32,
    /// Number of regions.
    pub regions: u32,
    /// Life in which it was written.
    pub lives: Lives,
    bits: &'a [u8],
}

impl Ledger<'_> {
    /// Returns whether the fast device may hold newer data of a region.
    pub fn names(&self, region: u32) -> bool {
        self.bits[region as usize / 8] >> (region % 8) & 1 == 1
    }

    /// Returns the ranges of sectors of the marked regions, in order.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let wide = u64::from(self.wide);
        let run = move |from: u32, named: bool| {
            (from..self.regions).take_while(|region| self.names(*region) == named).count() as u32
        };
        let mut at = 0;
        core::iter::from_fn(move || {
            let from = at + run(at, false);
            let length = run(from, true);
            at = from + length;
            (length > 0).then_some((u64::from(from) * wide, u64::from(length) * wide))
        })
    }
}

/// Writes a ledger for sector `at`. `named` has a value for each region of `wide` sectors.
pub fn emit_ledger(
    page: &mut Page,
    (wide, generation, lives): (u32, u64, Lives),
    named: impl ExactSizeIterator<Item = bool>,
    uuid: [u8; 16],
    at: u64,
) {
    page.0.fill(0);
    put_u32(page, 32, wide);
    put_u32(page, 36, named.len() as u32);
    lives.emit(page, BODY);
    for (region, _) in named.enumerate().filter(|(_, named)| *named) {
        page.0[BITS + region / 8] |= 1 << (region % 8);
    }
    page::seal(page, Stamp { kind: LEDGER, uuid, at }, generation);
}

/// Reads a ledger.
///
/// # Errors
/// [`Fault`] when it is not an intact ledger of this volume.
pub fn parse_ledger(page: &Page, uuid: [u8; 16], at: u64) -> Result<Ledger<'_>, Fault> {
    let generation = page::open(page, Stamp { kind: LEDGER, uuid, at })?;
    let (wide, regions) = (u32_at(page, 32), u32_at(page, 36));
    if wide > 0 && regions <= MOST_REGIONS {
        Ok(Ledger {
            generation,
            wide,
            regions,
            lives: Lives::parse(page, BODY),
            bits: &page.0[BITS..],
        })
    } else {
        Err(Fault::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [7; 16];

    #[test]
    fn a_root_is_valid_only_undamaged_and_in_its_own_place() {
        let lives = Lives { life: 7, shared: 6 };
        let root = Root { number: 9, clean: true, page: 32, slots: 100, pages: 5000, lives };
        let mut page = Page::default();
        emit_root(&mut page, &root, UUID, 8);
        assert_eq!(parse_root(&page, UUID, 8), Ok(root));
        assert!(parse_root(&page, UUID, 0).is_err());
        page.0[37] ^= 1;
        assert_eq!(parse_root(&page, UUID, 8), Err(Fault::Damaged));
    }

    #[test]
    fn a_ledger_names_ranges_of_regions() {
        let mut page = Page::default();
        let named = [true, false, true, true, false, true].into_iter();
        let lives = Lives { life: 3, shared: 3 };
        emit_ledger(&mut page, (64, 5, lives), named, UUID, 4080);
        let ledger = parse_ledger(&page, UUID, 4080).unwrap();
        assert_eq!((ledger.generation, ledger.regions, ledger.lives), (5, 6, lives));
        let ranges = [(0, 64), (128, 128), (320, 64)];
        assert!(ledger.ranges().eq(ranges), "{:?}", ledger);
        assert!(parse_ledger(&page, UUID, 4088).is_err(), "it is elsewhere");
        let none = core::iter::repeat_n(false, MOST_REGIONS as usize);
        emit_ledger(&mut page, (64, 6, lives), none, UUID, 4088);
        assert_eq!(parse_ledger(&page, UUID, 4088).unwrap().ranges().count(), 0);
        assert_eq!([ledger_at(4099, 0), ledger_at(4099, 7)], [4080, 4088]);
    }

    #[test]
    fn a_device_without_a_shared_life_is_older() {
        let of = |life, shared| Lives { life, shared };
        assert!(of(3, 3).is_older_than(&of(4, 4)));
        assert!(!of(3, 3).is_older_than(&of(4, 3)), "the start was cut off");
        assert!(!of(4, 3).is_older_than(&of(4, 4)), "the shared life is not recorded on both");
        assert!(!of(4, 4).is_older_than(&of(3, 3)));
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut page = Page::default();
        clear_directory(&mut page);
        let put = |page: &mut Page, index, entry| put_entry(page, index, entry, MOST_LISTED);
        put(&mut page, 0, Entry::Dirty(0));
        put(&mut page, ENTRIES - 1, Entry::Clean(MOST_LISTED));
        seal_directory(&mut page, 3, 11, UUID, 64);
        assert_eq!(parse_directory(&page, 3, UUID, 64), Ok(11));
        assert_eq!(parse_directory(&page, 4, UUID, 64), Err(Fault::Foreign));
        let entry = |index| super::entry(&page, index, MOST_LISTED);
        assert_eq!(entry(0), Entry::Dirty(0));
        assert_eq!(entry(1), Entry::Nothing);
        assert_eq!(entry(ENTRIES - 1), Entry::Clean(MOST_LISTED));
    }

    #[test]
    fn a_slow_device_with_many_pages_lists_dirty_ones() {
        let mut page = Page::default();
        put_entry(&mut page, 0, Entry::Dirty(MOST_PAGES - 1), MOST_PAGES);
        put_entry(&mut page, 1, Entry::Dirty(CLEAN - 1), MOST_PAGES);
        put_entry(&mut page, 2, Entry::Clean(7), MOST_PAGES);
        let entries = [0, 1, 2].map(|index| entry(&page, index, MOST_PAGES));
        let dirty = [Entry::Dirty(MOST_PAGES - 1), Entry::Dirty(CLEAN - 1)];
        assert_eq!(entries, [dirty[0], dirty[1], Entry::Nothing]);
    }
}

//! Metadata pages: damage is always seen, and content with a good checksum never breaks a parser.

use anyhow::{Context, ensure};
use hostftl_core::{BLOCK, Page};
use hostftl_format::hard::{self, Entry, Listing, LogHead, Run};
use hostftl_format::page::{self, HEADER, Stamp};
use hostftl_format::superblock::{Superblock, Text};

const UUID: [u8; 16] = *b"the fuzzed volum";
const AT: u64 = 2048;
const STAMP: Stamp = Stamp { kind: *b"FUZZ", uuid: UUID, at: AT };
const SEQ: u64 = 42;

/// A sealed page.
pub fn pages() -> Vec<Vec<u8>> {
    let mut page = Page::default();
    page.0[HEADER..HEADER + 7].copy_from_slice(b"content");
    page::seal(&mut page, STAMP, SEQ);
    vec![page.0.to_vec()]
}

/// Log pages: empty, and with a listing and a trim.
pub fn logs() -> Vec<Vec<u8>> {
    let head = LogHead { seq: 5, epoch: 1, durable: 4, index: 0, pages: 1, superpage: 9 };
    let mut page = Page::default();
    hard::seal_log(&mut page, &head, [3, 4, 5].into_iter(), UUID, AT);
    let empty = page.0.to_vec();
    hard::clear_log(&mut page);
    hard::push_listing(&mut page, &Listing { superpage: 8, crc: 0xdead_beef, fill: 24 });
    hard::push_run(&mut page, 0, Run { lsn: 1000, slot: 0, len: 8 });
    hard::push_run(&mut page, 0, Run { lsn: 5000, slot: 8, len: 16 });
    hard::push_trim(&mut page, 64, 128);
    hard::seal_log(&mut page, &head, [3, 4, 5].into_iter(), UUID, AT);
    vec![empty, page.0.to_vec()]
}

/// The input as a page, cut or filled up with zeros.
fn as_page(input: &[u8]) -> Page {
    let mut page = Page::default();
    let length = input.len().min(BLOCK);
    page.0[..length].copy_from_slice(&input[..length]);
    page
}

/// A page that opens is the page that was sealed; a page at another address never opens.
pub fn check_header(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let page = as_page(input);
    if let Ok(seq) = page::open(&page, STAMP) {
        ensure!(page.0[..] == pages()[0][..], "a damaged page was taken for a good one");
        ensure!(seq == SEQ, "the sequence number is {seq}");
        let elsewhere = Stamp { at: AT ^ (1 << (seed % 64)), ..STAMP };
        ensure!(page::open(&page, elsewhere).is_err(), "a misplaced page was taken for a good one");
    }
    Ok(())
}

/// A log page whose checksum is right but whose content is anything: the walk ends, within bounds.
pub fn check_log(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let mut page = as_page(input);
    let seq = page::u64_at(&page, 24);
    page::seal(&mut page, Stamp { kind: *b"HRDL", uuid: UUID, at: AT }, seq);
    if let Err(fault) = hard::parse_log(&page, UUID, AT) {
        ensure!(!logs().iter().any(|good| good == input), "a good log page: {fault:?}");
        return Ok(());
    }
    ensure!(hard::log_candidates(&page).count() <= hard::CANDIDATES, "too many candidates");
    let mut at = 0;
    while let Some((entry, next)) = hard::entry_at(&page, at) {
        ensure!(next > at && next <= hard::log_used(&page), "from {at} to {next}");
        if let Entry::Listing { runs_at, runs, .. } = entry {
            let mut listed = (0..runs).map(|index| hard::run_at(&page, runs_at, index));
            ensure!(listed.all(|run| run.len > 0), "a run of nothing");
        }
        at = next;
    }
    page::open(&page, Stamp { kind: *b"HRDL", uuid: UUID, at: AT })
        .map(drop)
        .map_err(|fault| anyhow::anyhow!("{fault:?}"))
        .context("a walk changes nothing")
}

/// The superblock of a small volume.
pub fn superblocks() -> Vec<Vec<u8>> {
    let superblock = Superblock {
        generation: 1,
        volume: UUID,
        device: [7; 16],
        index: 0,
        count: 1,
        spare_permille: 70,
        layer: Text::new("hard").expect("a short name"),
        superpage: 128,
        data_start: 2048,
        data_len: 28672,
        device_sectors: 32768,
        exported: 20000,
        created: 1_700_000_000,
        label: Text::new("a label").expect("a short label"),
    };
    vec![superblock.emit(AT).0.to_vec()]
}

/// A superblock whose checksum is right but whose content is anything: refused, or read the same
/// again after it was written.
pub fn check_superblock(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let mut page = as_page(input);
    let volume = page.0[8..24].try_into().expect("sixteen bytes");
    let generation = page::u64_at(&page, 24);
    page::seal(&mut page, Stamp { kind: *b"SUPR", uuid: volume, at: AT }, generation);
    let parsed = Superblock::parse(&page, AT);
    ensure!(parsed.is_ok() || input != superblocks()[0], "a good superblock: {parsed:?}");
    if let Ok(superblock) = parsed {
        ensure!(superblock.index < superblock.count, "{superblock:?}");
        let again = Superblock::parse(&superblock.emit(AT), AT);
        ensure!(again == Ok(superblock), "{superblock:?} is read back as {again:?}");
    }
    Ok(())
}

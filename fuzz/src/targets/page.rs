//! Metadata pages: damage and a wrong address are always detected.

use anyhow::ensure;
use hostftl_core::{BLOCK, Page};
use hostftl_format::page::{self, HEADER, Stamp};

/// UUID of the volume of all pages.
pub(super) const UUID: [u8; 16] = *b"the fuzzed volum";
/// Sector of the pages.
pub(super) const AT: u64 = 2048;
const STAMP: Stamp = Stamp { kind: *b"FUZZ", uuid: UUID, at: AT };
const SEQ: u64 = 42;

/// Returns a sealed page.
fn good() -> Page {
    let mut page = Page::default();
    page.0[HEADER..HEADER + 7].copy_from_slice(b"content");
    page::seal(&mut page, STAMP, SEQ);
    page
}

/// Returns a sealed page as an input.
pub(super) fn pages() -> Vec<Vec<u8>> {
    vec![trim(&good())]
}

/// Returns a page without trailing zeros, so that mutations affect significant bytes.
pub(super) fn trim(page: &Page) -> Vec<u8> {
    let used = page.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    page.0[..used].to_vec()
}

/// Converts the input to a page, truncated or padded with zeros.
pub(super) fn as_page(input: &[u8]) -> Page {
    let mut page = Page::default();
    let length = input.len().min(BLOCK);
    page.0[..length].copy_from_slice(&input[..length]);
    page
}

/// Converts the input to a page with a valid header and its own sequence number.
pub(super) fn sealed(input: &[u8], kind: [u8; 4], uuid: [u8; 16]) -> Page {
    let mut page = as_page(input);
    let seq = page::u64_at(&page, 24);
    page::seal(&mut page, Stamp { kind, uuid, at: AT }, seq);
    page
}

/// Checks that a page that opens is the sealed page, and that it does not open at another address.
pub(super) fn check(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let page = as_page(input);
    if let Ok(seq) = page::open(&page, STAMP) {
        ensure!(page.0 == good().0, "a damaged page was taken for a good one");
        ensure!(seq == SEQ, "the sequence number is {seq}");
        let elsewhere = Stamp { at: AT ^ (1 << (seed % 64)), ..STAMP };
        ensure!(page::open(&page, elsewhere).is_err(), "a misplaced page was taken for a good one");
    }
    Ok(())
}

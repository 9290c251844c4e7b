//! Backups of metadata, unchanged and with valid checksums over arbitrary content.

use anyhow::ensure;
use hostftl_core::{BLOCK, Page};
use hostftl_format::backup::{Backup, Saved};
use hostftl_format::page::{self, Stamp, crc32c, put_u32, u64_at};

use super::page::{UUID, as_page};

/// Returns a backup without pages, and one with a page of two devices each.
pub(super) fn files() -> Vec<Vec<u8>> {
    let saved = |index| {
        let page = Box::new(as_page(b"a page"));
        Saved { index, device_sectors: 32768, at: 8, page }
    };
    let of = |pages| Backup { volume: UUID, made: 1_700_000_000, pages }.emit();
    vec![of(Vec::new()), of([0, 1].map(saved).into())]
}

/// Checks that a file that parses is emitted identically.
pub(super) fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    if let Ok(backup) = Backup::parse(input) {
        ensure!(backup.emit() == input, "{backup:?}");
    }
    let mended = mend(input);
    if let Ok(backup) = Backup::parse(&mended) {
        ensure!(Backup::parse(&backup.emit()).as_ref() == Ok(&backup), "{backup:?}");
    }
    Ok(())
}

/// Returns the input with the right page count and valid checksums.
fn mend(input: &[u8]) -> Vec<u8> {
    let mut pages: Vec<Page> = input.chunks(BLOCK).map(as_page).collect();
    let count = pages.len().saturating_sub(1) / 2;
    pages.truncate(1 + 2 * count);
    let stamp = |kind, index: usize| Stamp { kind, uuid: UUID, at: 8 * index as u64 };
    if let Some(head) = pages.first_mut() {
        page::seal(head, stamp(*b"BKUP", 0), count as u64);
    }
    for number in 0..count {
        let [entry, saved] = &mut pages[1 + 2 * number..][..2] else { unreachable!("two pages") };
        put_u32(entry, 36, crc32c(u64_at(entry, 40), &saved.0));
        page::seal(entry, stamp(*b"BKPG", 1 + 2 * number), number as u64);
    }
    pages.iter().flat_map(|page| page.0).collect()
}

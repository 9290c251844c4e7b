//! Pages of `hard` with valid checksums over arbitrary content: refused, or emitted as they were
//! read.

use anyhow::{bail, ensure};
use hostftl_core::Page;
use hostftl_format::hard::{self, CANDIDATES, Entry, Listing, LogHead, MapPage, Root, Run, Width};
use hostftl_format::page;

use super::page::{AT, UUID, sealed, trim};

/// Bytes before the candidates of a root.
const ROOT_HEAD: usize = 64;

/// Returns root pages without candidates, with some, and with all.
pub(super) fn roots() -> Vec<Vec<u8>> {
    let root = Root { number: 3, epoch: 1, first_log: 9, superpage: 128, count: 900, groups: 4 };
    let emit = |candidates| {
        let mut page = Page::default();
        hard::emit_root(&mut page, &root, 0..candidates, UUID, AT);
        trim(&page)
    };
    [0, 5, CANDIDATES as u32].map(emit).into()
}

/// Checks that a root that parses is emitted identically up to the end of its candidates.
pub(super) fn check_root(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let page = sealed(input, *b"HRDR", UUID);
    let Ok(root) = hard::parse_root(&page, UUID, AT) else { return Ok(()) };
    let candidates: Vec<u32> = hard::root_candidates(&page).collect();
    ensure!(candidates.len() <= CANDIDATES, "{} candidates", candidates.len());
    let mut again = Page::default();
    hard::emit_root(&mut again, &root, candidates.iter().copied(), UUID, AT);
    let end = ROOT_HEAD + 4 * candidates.len();
    ensure!(again.0[4..end] == page.0[4..end], "{root:?} is emitted in another way");
    ensure!(hard::parse_root(&again, UUID, AT) == Ok(root), "{root:?} is read in another way");
    Ok(())
}

/// Returns a root page of generations.
pub(super) fn generations() -> Vec<Vec<u8>> {
    let mut page = Page::default();
    hard::emit_generations(&mut page, 3, &[1, 2, u32::MAX, 0, 5], UUID, AT);
    vec![trim(&page)]
}

/// Checks that generations are emitted identically, and that a page of another root is refused.
pub(super) fn check_generations(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let page = sealed(input, *b"HRDR", UUID);
    let number = page::u64_at(&page, 24);
    let mut list = [0; hard::ROOT_GENERATIONS];
    let other = hard::parse_generations(&page, number ^ 1, &mut list, UUID, AT);
    ensure!(other.is_err(), "a page of root {number} was taken for one of another");
    if hard::parse_generations(&page, number, &mut list, UUID, AT).is_err() {
        bail!("a sealed page of generations was refused");
    }
    let mut again = Page::default();
    hard::emit_generations(&mut again, number, &list, UUID, AT);
    ensure!(again.0 == page.0, "generations are emitted in another way");
    Ok(())
}

/// Returns an empty map page, and one with entries.
pub(super) fn maps() -> Vec<Vec<u8>> {
    let emit = |entries: &[u64]| {
        let mut page = Page::default();
        hard::fill_map(&mut page, Width::Narrow, entries.iter().copied());
        hard::seal_map(&mut page, MapPage { group: 2, index: 1, generation: 7 }, UUID, AT);
        trim(&page)
    };
    vec![emit(&[]), emit(&[0, 1, 70_000, Width::Narrow.most()])]
}

/// Checks that a map page that parses is emitted identically.
pub(super) fn check_map(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let page = sealed(input, *b"HRDM", UUID);
    let Ok(which) = hard::parse_map(&page, UUID, AT) else {
        ensure!(page::u64_at(&page, 24) > u32::MAX.into(), "a sealed map page was refused");
        return Ok(());
    };
    let width = Width::Narrow;
    let entries = (0..width.entries()).map(|i| hard::map_entry(&page, width, i));
    let mut again = Page::default();
    hard::fill_map(&mut again, width, entries);
    hard::seal_map(&mut again, which, UUID, AT);
    ensure!(again.0 == page.0, "{which:?} is emitted in another way");
    Ok(())
}

/// Returns an empty log page, and one with a listing, a trim and a kill.
pub(super) fn logs() -> Vec<Vec<u8>> {
    let head = LogHead { seq: 5, epoch: 1, durable: 4, index: 0, pages: 1, superpage: 9 };
    let mut page = Page::default();
    hard::seal_log(&mut page, &head, [3, 4, 5].into_iter(), UUID, AT);
    let empty = trim(&page);
    hard::clear_log(&mut page);
    let listing = Listing { superpage: 8, crc: 0xdead_beef, fill: 24, lost: false };
    hard::push_listing(&mut page, &listing);
    hard::push_run(&mut page, 0, Run { lsn: 1000, slot: 0, len: 8 });
    hard::push_run(&mut page, 0, Run { lsn: 5000, slot: 8, len: 16 });
    hard::push_trim(&mut page, 64, 128);
    hard::push_kill(&mut page, 77, 3);
    hard::seal_log(&mut page, &head, [3, 4, 5].into_iter(), UUID, AT);
    vec![empty, trim(&page)]
}

/// Checks that iteration over a log page stays within its bounds, and that its entries survive a
/// round trip.
pub(super) fn check_log(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let page = sealed(input, *b"HRDL", UUID);
    let Ok(head) = hard::parse_log(&page, UUID, AT) else {
        ensure!(!logs().iter().any(|good| good == input), "a good log page was refused");
        return Ok(());
    };
    let candidates: Vec<u32> = hard::log_candidates(&page).collect();
    ensure!(candidates.len() <= CANDIDATES, "{} candidates", candidates.len());
    let mut again = Page::default();
    hard::clear_log(&mut again);
    let mut at = 0;
    while let Some((entry, next)) = hard::entry_at(&page, at) {
        ensure!(next > at && next <= hard::log_used(&page), "from {at} to {next}");
        match entry {
            Entry::Trim { lsn, len } => hard::push_trim(&mut again, lsn, len),
            Entry::Kill { vsn, len } => hard::push_kill(&mut again, vsn, len),
            Entry::Loan { vsp, count } => hard::push_loan(&mut again, vsp, count),
            Entry::Listing { listing, runs_at, runs } => {
                hard::push_listing(&mut again, &listing);
                let runs = (0..runs).map(|index| hard::run_at(&page, runs_at, index));
                runs.for_each(|run| hard::push_run(&mut again, at, run));
            }
        }
        ensure!(hard::entry_at(&again, at) == Some((entry, next)), "{entry:?} comes back changed");
        at = next;
    }
    hard::seal_log(&mut again, &head, candidates.into_iter(), UUID, AT);
    ensure!(hard::parse_log(&again, UUID, AT) == Ok(head), "{head:?} is read in another way");
    Ok(())
}

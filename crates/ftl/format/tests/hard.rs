//! Round trips of the pages of `hard`, and refusal of other bytes.

use hostftl_core::{BLOCK, Page};
use hostftl_format::hard::{
    Entry, LOG_BYTES, Listing, LogHead, MapPage, Root, Run, Width, clear_log, emit_generations,
    emit_root, entry_at, fill_map, log_candidates, log_used, map_entry, parse_generations,
    parse_log, parse_map, parse_root, push_listing, push_run, push_trim, root_candidates, run_at,
    seal_log, seal_map,
};
use proptest::collection::vec;
use proptest::prelude::*;

const UUID: [u8; 16] = [9; 16];
const LISTING: Listing = Listing { superpage: 5, crc: 0xdead_beef, fill: 2048, lost: false };
const LAST_SECTOR: Run = Run { lsn: (1 << 40) - 1, slot: 4095, len: 1 };
const LONGEST: Run = Run { lsn: 0, slot: 0, len: 4096 };

fn root() -> impl Strategy<Value = Root> {
    let words = (any::<u64>(), any::<u64>(), any::<u64>());
    let sizes = (any::<u32>(), any::<u32>(), any::<u32>());
    (words, sizes).prop_map(|((number, epoch, first_log), (superpage, count, groups))| Root {
        number,
        epoch,
        first_log,
        superpage,
        count,
        groups,
    })
}

fn log_page(head: &LogHead, names: &[u32], at: u64) -> Page {
    let mut page = Page::default();
    clear_log(&mut page);
    push_trim(&mut page, 77, 1 << 20);
    let listing_at = log_used(&page);
    push_listing(&mut page, &LISTING);
    push_run(&mut page, listing_at, LAST_SECTOR);
    push_run(&mut page, listing_at, LONGEST);
    push_trim(&mut page, 1, 2);
    seal_log(&mut page, head, names.iter().copied(), UUID, at);
    page
}

proptest! {
    #[test]
    fn a_root_round_trips(root in root(), names in vec(any::<u32>(), 0..250), at: u64) {
        let mut page = Page::default();
        emit_root(&mut page, &root, names.iter().copied(), UUID, at);
        prop_assert_eq!(parse_root(&page, UUID, at), Ok(root));
        let kept = &names[..names.len().min(192)];
        prop_assert_eq!(root_candidates(&page).collect::<Vec<_>>(), kept);
        prop_assert!(parse_root(&page, UUID, at.wrapping_add(8)).is_err(), "another place");
        prop_assert!(parse_root(&page, [8; 16], at).is_err(), "another volume");
    }

    #[test]
    fn generations_round_trip(list in vec(any::<u32>(), 1..1016), number: u64, at: u64) {
        let mut page = Page::default();
        emit_generations(&mut page, number, &list, UUID, at);
        let mut found = vec![0; list.len()];
        prop_assert!(parse_generations(&page, number, &mut found, UUID, at).is_ok());
        prop_assert_eq!(found, list);
        let mut other = [0];
        prop_assert!(parse_generations(&page, !number, &mut other, UUID, at).is_err());
    }

    #[test]
    fn a_map_page_round_trips(
        list in vec(any::<u64>(), 0..Width::Narrow.entries()),
        wide: bool,
        (group, index, generation) in any::<(u32, u32, u32)>(),
        at: u64,
    ) {
        let width = if wide { Width::Wide } else { Width::Narrow };
        let list: Vec<u64> = list.iter().map(|entry| entry & width.most()).collect();
        let which = MapPage { group, index, generation };
        let mut page = Page([0xff; BLOCK]);
        fill_map(&mut page, width, list.iter().copied());
        seal_map(&mut page, which, UUID, at);
        prop_assert_eq!(parse_map(&page, UUID, at), Ok(which));
        for i in 0..width.entries() {
            prop_assert_eq!(map_entry(&page, width, i), list.get(i).copied().unwrap_or(0));
        }
        prop_assert!(parse_map(&page, UUID, at.wrapping_add(8)).is_err());
    }

    #[test]
    fn a_log_page_round_trips(
        (seq, epoch, durable) in any::<(u64, u64, u64)>(),
        index in 0u16..16,
        names in vec(any::<u32>(), 0..193),
        at: u64,
    ) {
        let head = LogHead { seq, epoch, durable, index, pages: 16, superpage: 5 };
        let page = log_page(&head, &names, at);
        prop_assert_eq!(parse_log(&page, UUID, at), Ok(head));
        let kept = &names[..names.len().min(192)];
        prop_assert_eq!(log_candidates(&page).collect::<Vec<_>>(), kept);
        let (first, next) = entry_at(&page, 0).unwrap();
        prop_assert_eq!(first, Entry::Trim { lsn: 77, len: 1 << 20 });
        let (second, next) = entry_at(&page, next).unwrap();
        let Entry::Listing { listing, runs_at, runs } = second else { panic!("a listing") };
        prop_assert_eq!((listing, runs), (LISTING, 2));
        prop_assert_eq!(run_at(&page, runs_at, 0), LAST_SECTOR);
        prop_assert_eq!(run_at(&page, runs_at, 1), LONGEST);
        let (third, next) = entry_at(&page, next).unwrap();
        prop_assert_eq!(third, Entry::Trim { lsn: 1, len: 2 });
        prop_assert!(entry_at(&page, next).is_none());
    }

    #[test]
    fn a_flipped_bit_is_refused(root in root(), bit in 0usize..BLOCK * 8, at: u64) {
        let head = LogHead { seq: 3, epoch: 1, durable: 2, index: 0, pages: 1, superpage: 5 };
        let mut pages = [Page::default(), log_page(&head, &[1, 2, 3], at), Page::default()];
        emit_root(&mut pages[0], &root, [4, 5].into_iter(), UUID, at);
        fill_map(&mut pages[2], Width::Narrow, [1, 2].into_iter());
        seal_map(&mut pages[2], MapPage { group: 1, index: 2, generation: 3 }, UUID, at);
        for page in &mut pages {
            page.0[bit / 8] ^= 1 << (bit % 8);
        }
        prop_assert!(parse_root(&pages[0], UUID, at).is_err());
        prop_assert!(parse_log(&pages[1], UUID, at).is_err());
        prop_assert!(parse_map(&pages[2], UUID, at).is_err());
    }

    #[test]
    fn entries_of_any_bytes_end(bytes in vec(any::<u8>(), BLOCK)) {
        let mut page = Page::default();
        page.0.copy_from_slice(&bytes);
        let used = (log_used(&page) % (LOG_BYTES + 1)) as u16;
        page.0[52..54].copy_from_slice(&used.to_le_bytes());
        let mut at = 0;
        while let Some((entry, next)) = entry_at(&page, at) {
            prop_assert!(next > at && next <= LOG_BYTES);
            if let Entry::Listing { runs_at, runs, .. } = entry {
                (0..runs).for_each(|i| assert!(run_at(&page, runs_at, i).len >= 1));
            }
            at = next;
        }
    }
}

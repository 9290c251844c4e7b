//! Tests of reading back emitted structures, and of detecting damage.

use super::*;
use proptest::prelude::*;

prop_compose! {
    fn places()(
        device in 0..16_u8, unit in 1..1_u64 << 44, len in 1..=4096_u32, gen_ in 0..GENERATIONS,
    ) -> Place {
        Place::new(device, unit * 16, len, gen_)
    }
}

prop_compose! {
    fn entries()(kind in 0..5_usize, block in 0..1_u64 << 40, place in places(), crc: u32)
        -> Entry {
        let kinds = [Kind::Data, Kind::Trim, Kind::Map, Kind::Directory, Kind::Counts];
        let kind = kinds[kind];
        Entry { kind, block, place, crc }
    }
}

proptest! {
    #[test]
    fn a_place_returns_its_parts(
        device in 0..16_u8, unit in 0..1_u64 << 44, len in 1..=4096_u32,
        generation in 0..GENERATIONS,
    ) {
        let place = Place::new(device, unit * 16, len, generation);
        prop_assert_eq!((place.device(), place.byte()), (device, unit * 16));
        prop_assert_eq!((place.len(), place.generation()), (len, generation));
    }

    #[test]
    fn open_undoes_seal(
        list in proptest::collection::vec(entries(), 0..300), seq: u64, behind: u16,
        journal: u64, epoch: u32, next: u32, at: u64, uuid: [u8; 16], flip in 0..4096_usize * 8,
        members: u16, next_members: u16, lacking: u16,
    ) {
        let mut buf = MetaBuf::new(2);
        let head = Head {
            seq, durable: seq.saturating_sub(behind.into()), journal, epoch, next,
            entries: list.len() as u32, first_sectors: 8, last_sectors: 16, chunks: 3, stream: 1,
            members, next_members, lacking,
        };
        for (index, entry) in list.iter().enumerate() {
            put_entry(&mut buf, index as u32, entry);
        }
        seal(&mut buf, &uuid, at, &head);
        prop_assert_eq!(open(&buf, &uuid, at), Some(head));
        for (index, listed) in list.iter().enumerate() {
            prop_assert_eq!(entry(&buf, index as u32), Some(*listed));
        }
        prop_assert_eq!(open(&buf, &uuid, at ^ 1), None);
        buf.pages_mut()[0].0[flip / 8] ^= 1 << (flip % 8);
        let used = HEAD + list.len() * ENTRY;
        let padding = flip / 8 >= used;
        prop_assert_eq!(open(&buf, &uuid, at).is_some(), padding);
    }

    #[test]
    fn a_root_round_trips(
        number: u64, epoch: u32, replay_from: u64, durable: u64, generation: u8, at: u64,
        life: u32, lost: u16, everywhere: u64, mapped: u64, journal: u64,
        begin: [u32; 3], ahead in proptest::option::of((0..1_u32 << 30, any::<u16>())),
        out: u16, sets: [u16; SETS], members: u16, known: u16, counts in 0..=400_u32,
        which in 0..STREAMS, uuid: [u8; 16],
        flip in 0..8192_usize * 8,
        list in proptest::collection::vec((places(), any::<u32>(), any::<u16>()), 400),
    ) {
        let mut streams = [None; STREAMS];
        let [segment, slot, sector] = begin;
        streams[which] = Some(Begin { segment, slot, sector, members, ahead });
        let root = Root {
            number, epoch, replay_from, durable, generation, lost, everywhere, mapped, journal,
            life, streams, out, sets, known, directories: 400 - counts,
        };
        let mut buf = MetaBuf::new(root_pages(400) as usize);
        prop_assert_eq!(buf.pages().len(), 2);
        let at = at >> 1;
        emit_root(&mut buf, &uuid, at, &root, list.iter().copied());
        prop_assert_eq!(open_root(&buf, &uuid, at, counts), Some(root));
        let mut longer = MetaBuf::new(buf.pages().len() + 1);
        longer.pages_mut()[..2].clone_from_slice(buf.pages());
        prop_assert_eq!(open_root(&longer, &uuid, at, counts), Some(root));
        for (index, one) in list.iter().enumerate() {
            prop_assert_eq!(root_pair(&buf, index), *one);
        }
        buf.pages_mut()[flip / 32768].0[flip / 8 % 4096] ^= 1 << (flip % 8);
        prop_assert_eq!(open_root(&buf, &uuid, at, counts), None);
    }

    #[test]
    fn a_page_keeps_its_counts(
        list in proptest::collection::vec(any::<([u16; 4], u64)>(), COUNTS), number: u32,
    ) {
        let list = list.into_iter().map(|([low, high, members, lacking], newest)| {
            let grains = u32::from(low) | u32::from(high) << 16;
            Counted { grains, members, lacking, newest }
        });
        let list: alloc::vec::Vec<_> = list.collect();
        let mut page = Page::default();
        emit_counts(&mut page, number, list.iter().copied());
        prop_assert!(is_page(&page, Kind::Counts, number));
        prop_assert!((0..COUNTS).map(|index| count(&page, index)).eq(list));
    }

    #[test]
    fn a_page_keeps_its_pairs(
        list in proptest::collection::vec((places(), any::<u32>()), PAIRS), number: u32,
    ) {
        let mut page = Page::default();
        emit_page(&mut page, Kind::Map, number, list.iter().copied());
        prop_assert!(is_page(&page, Kind::Map, number));
        for (index, one) in list.iter().enumerate() {
            prop_assert_eq!(pair(&page, index), *one);
        }
    }
}

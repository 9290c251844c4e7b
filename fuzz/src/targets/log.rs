//! Heads and roots of `log` with valid checksums over arbitrary content: refused, or read within
//! bounds and unchanged by a round trip.

use anyhow::ensure;
use hostftl_core::{MetaBuf, Page};
use hostftl_format::log::journal::{self, Record};
use hostftl_format::log::{self, Begin, Entry, Head, Kind, Place, Root, STREAMS};
use hostftl_format::page::{self, crc32c};

use super::page::{AT, UUID, as_page, sealed, trim};

/// Offset of the number of entries in a head.
const ENTRIES: usize = 48;

fn buffer(page: Page) -> MetaBuf {
    let mut buf = MetaBuf::new(1);
    buf.pages_mut()[0] = page;
    buf
}

/// Returns an empty stripe head, and one with an entry of each kind.
pub(super) fn heads() -> Vec<Vec<u8>> {
    let emit = |list: &[Entry]| {
        let mut buf = MetaBuf::new(1);
        for (index, entry) in list.iter().enumerate() {
            log::put_entry(&mut buf, index as u32, entry);
        }
        let head = Head {
            seq: 7,
            durable: 5,
            journal: 3,
            epoch: 2,
            next: 9,
            entries: list.len() as u32,
            first_sectors: 128,
            last_sectors: 16,
            chunks: 3,
            stream: 1,
            members: 7,
            next_members: 3,
            lacking: 0,
        };
        log::seal(&mut buf, &UUID, AT, &head);
        trim(&buf.pages()[0])
    };
    let entry = |kind, block| Entry { kind, block, place: Place::new(2, 4096, 1377, 9), crc: 5 };
    let all = [
        entry(Kind::Data, 4000),
        Entry { place: Place::from_bits(32), ..entry(Kind::Trim, 8) },
        entry(Kind::Map, 1),
        entry(Kind::Directory, 0),
    ];
    vec![emit(&[]), emit(&all)]
}

/// Checks that a head with a valid checksum opens, and that its entries survive a round trip.
pub(super) fn check_head(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let mut page = as_page(input);
    page.0[4..8].copy_from_slice(b"LROW");
    page.0[8..24].copy_from_slice(&UUID);
    let entries = page::u32_at(&page, ENTRIES) % (log::room(1) + 1);
    page::put_u32(&mut page, ENTRIES, entries);
    let end = log::HEAD + entries as usize * log::ENTRY;
    let crc = crc32c(AT, &page.0[4..end]);
    page::put_u32(&mut page, 0, crc);
    let buf = buffer(page);
    let Some(head) = log::open(&buf, &UUID, AT) else {
        anyhow::bail!("a head with a sound checksum was refused");
    };
    ensure!(log::open(&buf, &UUID, AT ^ 8).is_none(), "a misplaced head was taken for a good one");
    let mut again = MetaBuf::new(1);
    let mut listed = 0;
    for entry in (0..head.entries).filter_map(|index| log::entry(&buf, index)) {
        log::put_entry(&mut again, listed, &entry);
        ensure!(log::entry(&again, listed) == Some(entry), "{entry:?} is read in another way");
        listed += 1;
    }
    log::seal(&mut again, &UUID, AT, &Head { entries: listed, ..head });
    let read = log::open(&again, &UUID, AT);
    ensure!(read == Some(Head { entries: listed, ..head }), "{head:?} is read in another way");
    Ok(())
}

/// Returns an empty journal record, and one with a block and a trim.
pub(super) fn records() -> Vec<Vec<u8>> {
    let emit = |list: &[Entry]| {
        let mut buf = MetaBuf::new(1);
        list.iter().zip(0..).for_each(|(entry, index)| log::put_entry(&mut buf, index, entry));
        let entries = list.len() as u32;
        let record = Record { number: 7, oldest: 5, before: 40, epoch: 2, entries };
        journal::seal(&mut buf, &UUID, AT, &record);
        trim(&buf.pages()[0])
    };
    let entry = |kind, place| Entry { kind, block: 8, place, crc: 5 };
    let block = entry(Kind::Data, Place::new(2, 4096, 1377, 9));
    vec![emit(&[]), emit(&[block, entry(Kind::Trim, Place::from_bits(32))])]
}

/// Checks that a record with a valid checksum opens and survives a round trip.
pub(super) fn check_record(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let mut page = as_page(input);
    page.0[4..8].copy_from_slice(b"LJRN");
    page.0[8..24].copy_from_slice(&UUID);
    let entries = page::u32_at(&page, 52) % (log::room(1) + 1);
    page::put_u32(&mut page, 52, entries);
    let end = log::HEAD + entries as usize * log::ENTRY;
    let crc = crc32c(AT, &page.0[4..end]);
    page::put_u32(&mut page, 0, crc);
    let buf = buffer(page);
    let Some(record) = journal::open(&buf, &UUID, AT) else {
        anyhow::bail!("a record with a sound checksum was refused");
    };
    ensure!(journal::open(&buf, &UUID, AT ^ 8).is_none(), "a misplaced record was taken");
    let mut again = MetaBuf::new(1);
    let listed = (0..record.entries).filter_map(|index| log::entry(&buf, index));
    let listed: Vec<Entry> = listed.collect();
    for (entry, index) in listed.iter().zip(0..) {
        ensure!(journal::data_bytes(entry) <= 4096, "{entry:?} is longer than a block");
        log::put_entry(&mut again, index, entry);
    }
    let record = Record { entries: listed.len() as u32, ..record };
    journal::seal(&mut again, &UUID, AT, &record);
    let read = journal::open(&again, &UUID, AT);
    ensure!(read == Some(record), "{record:?} is read in another way");
    Ok(())
}

/// Returns the root of a new volume, and one with streams and a directory.
pub(super) fn roots() -> Vec<Vec<u8>> {
    let emit = |root: &Root, places: u64| {
        let mut buf = MetaBuf::new(1);
        let pairs = (1..=places).map(|at| (Place::new(1, at * 4096, 4096, 0), at as u32, 3));
        log::emit_root(&mut buf, &UUID, AT, root, pairs);
        trim(&buf.pages()[0])
    };
    let mut streams = [None; STREAMS];
    streams[0] = Some(Begin { segment: 3, slot: 1, sector: 16, members: 7, ahead: None });
    streams[2] = Some(Begin { segment: 9, slot: 0, sector: 0, members: 3, ahead: Some((4, 7)) });
    let used = Root {
        number: 6,
        epoch: 2,
        replay_from: 40,
        durable: 44,
        journal: 3,
        life: 2,
        lost: 4,
        out: 4,
        known: 7,
        directories: 4,
        sets: [3, 7, 0, 0],
        streams,
        ..Root::default()
    };
    vec![emit(&Root { number: 1, ..Root::default() }, 0), emit(&used, 5)]
}

/// Checks that a root with a valid checksum survives a round trip.
pub(super) fn check_root(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let buf = buffer(sealed(input, *b"LGRT", UUID));
    let Some(root) = log::open_root(&buf, &UUID, AT, 1) else {
        let first = &buf.pages()[0];
        let is_long = page::u32_at(first, 244) > 273;
        ensure!(is_long || page::u32_at(first, 36) != 0, "a sealed root was refused");
        return Ok(());
    };
    let places = (0..274).map(|index| log::root_pair(&buf, index));
    let mut again = MetaBuf::new(1);
    log::emit_root(&mut again, &UUID, AT, &root, places);
    let read = log::open_root(&again, &UUID, AT, 1);
    ensure!(read == Some(root), "{root:?} is read in another way");
    for index in 0..274 {
        let (one, other) = (log::root_pair(&buf, index), log::root_pair(&again, index));
        ensure!(one == other, "pair {index} is {other:?} and was {one:?}");
    }
    Ok(())
}

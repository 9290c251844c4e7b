//! Records in the journal of a log volume.
//!
//! The journal is a ring of slots of equal length on a device of its own; record `n` is in slot `n
//! mod slots`. A **record** is a head of 1 to [`MOST_PAGES`] pages, then the records of the listed
//! blocks, each at the next multiple of 16 bytes, then zeros to the end of the program.
//!
//! | bytes | field of a head |
//! |---|---|
//! | 0..4 | CRC-32C of bytes 4 up to the end of the entries, seeded with the head's address |
//! | 4..8 | `LJRN` |
//! | 8..24 | volume UUID |
//! | 24..32 | number of the record |
//! | 32..40 | oldest record that was needed when it was made |
//! | 40..48 | it is replayed before this stripe, and after all lower ones |
//! | 48..52 | epoch |
//! | 52..56 | entries |
//! | 56..64 | zero |
//! | 64.. | entries of 20 bytes, as in a stripe head: the places are those in the stripes |
//!
//! The number is covered by the checksum and identifies the round of the ring.

use hostftl_core::{BLOCK, MetaBuf};

use super::{ENTRY, Entry, GRAIN, HEAD, Kind, head_crc, put, room};
use crate::page::{u32_at, u64_at};

/// Maximum number of pages of a head.
pub const MOST_PAGES: u32 = 4;

const MAGIC: [u8; 4] = *b"LJRN";

/// Contents of the head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes the fields")]
pub struct Record {
    pub number: u64,
    pub oldest: u64,
    pub before: u64,
    pub epoch: u32,
    pub entries: u32,
}

impl Record {
    /// Returns the number of pages of its head.
    pub fn pages(&self) -> u32 {
        pages(self.entries)
    }
}

/// Returns the number of pages of a head with `entries` entries.
pub fn pages(entries: u32) -> u32 {
    (HEAD + entries as usize * ENTRY).div_ceil(BLOCK) as u32
}

/// Returns the maximum number of entries of a record.
pub fn most_entries() -> u32 {
    room(MOST_PAGES)
}

/// Returns the number of bytes of an entry's data behind the head.
pub fn data_bytes(entry: &Entry) -> u32 {
    match entry.kind {
        Kind::Data => entry.place.len().next_multiple_of(GRAIN),
        _ => 0,
    }
}

/// Completes a head whose entries were written; `at` is its address.
pub fn seal(buf: &mut MetaBuf, uuid: &[u8; 16], at: u64, record: &Record) {
    let mut bytes = [0; HEAD];
    bytes[4..8].copy_from_slice(&MAGIC);
    bytes[8..24].copy_from_slice(uuid);
    for (index, long) in [record.number, record.oldest, record.before].into_iter().enumerate() {
        bytes[24 + 8 * index..32 + 8 * index].copy_from_slice(&long.to_le_bytes());
    }
    bytes[48..52].copy_from_slice(&record.epoch.to_le_bytes());
    bytes[52..56].copy_from_slice(&record.entries.to_le_bytes());
    put(buf, 0, &bytes);
    let crc = head_crc(buf, at, HEAD + record.entries as usize * ENTRY);
    put(buf, 0, &crc.to_le_bytes());
}

/// Reads a head at sector `at`. Returns `None` if it is not one of this volume, or damaged.
pub fn open(buf: &MetaBuf, uuid: &[u8; 16], at: u64) -> Option<Record> {
    let page = &buf.pages()[0];
    let entries = u32_at(page, 52);
    let fits = entries <= room(buf.pages().len() as u32);
    if page.0[4..8] != MAGIC || page.0[8..24] != *uuid || !fits {
        return None;
    }
    if head_crc(buf, at, HEAD + entries as usize * ENTRY) != u32_at(page, 0) {
        return None;
    }
    Some(Record {
        number: u64_at(page, 24),
        oldest: u64_at(page, 32),
        before: u64_at(page, 40),
        epoch: u32_at(page, 48),
        entries,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Place, entry, put_entry};
    use super::*;

    const UUID: [u8; 16] = [7; 16];

    fn listed(index: u32) -> Entry {
        let place = Place::new(1, u64::from(index) * 4096, 100 + index, 3);
        Entry { kind: Kind::Data, block: u64::from(index), place, crc: index }
    }

    fn record(entries: u32) -> (MetaBuf, Record) {
        let mut buf = MetaBuf::new(MOST_PAGES as usize);
        (0..entries).for_each(|index| put_entry(&mut buf, index, &listed(index)));
        let record = Record { number: 9, oldest: 4, before: 77, epoch: 2, entries };
        seal(&mut buf, &UUID, 800, &record);
        (buf, record)
    }

    #[test]
    fn sealed_records_are_opened() {
        for entries in [0, 1, 201, 202, most_entries()] {
            let (buf, record) = record(entries);
            assert_eq!(open(&buf, &UUID, 800), Some(record));
            assert!((0..entries).all(|index| entry(&buf, index) == Some(listed(index))));
        }
        assert_eq!((pages(201), pages(202), pages(most_entries())), (1, 2, MOST_PAGES));
    }

    #[test]
    fn another_place_volume_or_byte_does_not_count() {
        let (mut buf, _) = record(300);
        assert_eq!(open(&buf, &UUID, 808), None);
        assert_eq!(open(&buf, &[8; 16], 800), None);
        for at in [0, 24, 40, 48, 52, 64, 4096, 6063] {
            buf.pages_mut()[at / BLOCK].0[at % BLOCK] ^= 1;
            assert_eq!(open(&buf, &UUID, 800), None, "byte {at}");
            buf.pages_mut()[at / BLOCK].0[at % BLOCK] ^= 1;
        }
        assert!(open(&buf, &UUID, 800).is_some());
    }

    #[test]
    fn data_after_the_head_is_in_grains() {
        assert_eq!(data_bytes(&listed(0)), 112);
        assert_eq!(data_bytes(&Entry { kind: Kind::Trim, ..listed(0) }), 0);
    }
}

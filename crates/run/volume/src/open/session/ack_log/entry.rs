//! On-media format of the acknowledgement log.
//!
//! Two pages, written alternately, have the position of the oldest entry; a ring of entries
//! follows. An entry is a head of 32 bytes and, for a write, the data. It is contiguous: if it does
//! not fit before the end of the ring, a fill entry takes the rest.
//!
//! | bytes of a page | field |
//! |---|---|
//! | 0..32 | header, kind `STSH`; the sequence number grows by one with each page |
//! | 32..40 | number of the run that acknowledged the entries |
//! | 40..56 | boot ID of the machine |
//! | 56..64 | length of the ring in bytes |
//! | 64..72 | position of the oldest entry: bytes of the ring since the file was created |
//!
//! | bytes of a head | field |
//! |---|---|
//! | 0..4 | CRC-32C of the rest of the head and the data, seeded with the position of the entry |
//! | 4 | 1 write, 2 trim, 3 zeroing, 4 fill, 5 a write whose reply was an error |
//! | 5..8 | zero |
//! | 8..16 | position of the entry |
//! | 16..24 | first byte in the volume |
//! | 24..32 | length in the volume, or of the fill, in bytes |

use hostftl_core::{Page, SECTOR};
use hostftl_format::page::{self, Stamp, crc32c_parts, put_u64, u64_at};

const KIND: [u8; 4] = *b"STSH";
/// Length of a head in bytes. All positions are multiples of it.
pub(crate) const HEAD: usize = 32;

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Writes data.
    Write,
    /// Discards the range.
    Trim,
    /// Zeroes the range.
    Zeroes,
    /// No change: the next entry is at the start of the ring.
    Fill,
    /// No change any more: the reply was an error.
    Void,
}

/// An entry without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Kind of the change.
    pub kind: Kind,
    /// Position: bytes of the ring since the file was created.
    pub at: u64,
    /// First byte in the volume.
    pub offset: u64,
    /// Length in the volume, in bytes.
    pub bytes: u64,
}

impl Entry {
    /// Returns the size of the entry in the ring, in bytes.
    pub(crate) fn room(&self) -> u64 {
        match self.kind {
            Kind::Write | Kind::Void => HEAD as u64 + self.bytes,
            Kind::Trim | Kind::Zeroes => HEAD as u64,
            Kind::Fill => self.bytes,
        }
    }

    /// Formats the head for `data`.
    pub(crate) fn emit(&self, data: &[u8]) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[4] = match self.kind {
            Kind::Write => 1,
            Kind::Trim => 2,
            Kind::Zeroes => 3,
            Kind::Fill => 4,
            Kind::Void => 5,
        };
        for (at, value) in [(8, self.at), (16, self.offset), (24, self.bytes)] {
            head[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let sum = self.sum(&head, data);
        head[..4].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Parses the head of the entry at position `at`; `None` when there is none.
    pub(crate) fn parse(head: &[u8; HEAD], at: u64) -> Option<Self> {
        let field = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().expect("8"));
        let kind = match head[4] {
            1 => Kind::Write,
            2 => Kind::Trim,
            3 => Kind::Zeroes,
            4 => Kind::Fill,
            5 => Kind::Void,
            _ => return None,
        };
        let entry = Entry { kind, at, offset: field(16), bytes: field(24) };
        let unit = if kind == Kind::Fill { HEAD } else { SECTOR };
        let is_whole = entry.bytes > 0 && entry.bytes.is_multiple_of(unit as u64);
        let ends = entry.offset.checked_add(entry.bytes).is_some();
        (field(8) == at && is_whole && ends).then_some(entry)
    }

    /// Returns whether `head` and its `data` form an intact entry.
    pub(crate) fn is_whole(&self, head: &[u8; HEAD], data: &[u8]) -> bool {
        self.sum(head, data).to_le_bytes() == head[..4]
    }

    /// Returns the number of data bytes that the checksum covers.
    pub(crate) fn covered(&self) -> u64 {
        if self.kind == Kind::Write { self.bytes } else { 0 }
    }

    fn sum(&self, head: &[u8; HEAD], data: &[u8]) -> u32 {
        crc32c_parts(self.at, [&head[4..], data].into_iter())
    }
}

/// Owner of the entries in a file, and the position of the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// UUID of the volume.
    pub volume: [u8; 16],
    /// Run that acknowledged the entries.
    pub run: u64,
    /// Boot ID of the machine.
    pub boot: [u8; 16],
    /// Length of the ring in bytes.
    pub room: u64,
    /// Position of the oldest entry.
    pub tail: u64,
}

impl Label {
    /// Formats page number `number`.
    pub(crate) fn emit(&self, number: u64) -> Page {
        let mut page = Page::default();
        put_u64(&mut page, 32, self.run);
        page.0[40..56].copy_from_slice(&self.boot);
        put_u64(&mut page, 56, self.room);
        put_u64(&mut page, 64, self.tail);
        page::seal(&mut page, Stamp { kind: KIND, uuid: self.volume, at: number % 2 }, number);
        page
    }

    /// Parses page `place`, 0 or 1, of a file and returns it with its number; `None` when it is
    /// damaged or of another volume.
    pub(crate) fn parse(page: &Page, volume: [u8; 16], place: u64) -> Option<(u64, Self)> {
        let number = page::open(page, Stamp { kind: KIND, uuid: volume, at: place }).ok()?;
        let [run, room, tail] = [32, 56, 64].map(|at| u64_at(page, at));
        let boot = page.0[40..56].try_into().expect("sixteen bytes");
        let unit = HEAD as u64;
        let sound = room > 0 && room.is_multiple_of(unit) && tail.is_multiple_of(unit);
        sound.then_some((number, Label { volume, run, boot, room, tail }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_corrupt_ones_are_rejected() {
        for kind in [Kind::Write, Kind::Trim, Kind::Zeroes, Kind::Fill, Kind::Void] {
            let entry = Entry { kind, at: 4096, offset: 8192, bytes: 512 };
            let data: &[u8] = if kind == Kind::Write { &[7; 512] } else { &[] };
            let head = entry.emit(data);
            assert_eq!(Entry::parse(&head, 4096), Some(entry));
            assert!(entry.is_whole(&head, data));
            assert_eq!(Entry::parse(&head, 4128), None, "it is not of another place");
            for byte in 0..HEAD {
                let mut torn = head;
                torn[byte] ^= 1;
                let parsed = Entry::parse(&torn, 4096);
                assert!(parsed.is_none_or(|parsed| !parsed.is_whole(&torn, data)), "byte {byte}");
            }
        }
        let entry = Entry { kind: Kind::Write, at: 0, offset: 0, bytes: 512 };
        assert!(!entry.is_whole(&entry.emit(&[7; 512]), &[8; 512]), "the data is another");
    }

    #[test]
    fn a_label_is_valid_for_its_volume_only() {
        let label = Label { volume: [1; 16], run: 7, boot: [2; 16], room: 1 << 20, tail: 96 };
        let page = label.emit(5);
        assert_eq!(Label::parse(&page, [1; 16], 1), Some((5, label)));
        assert_eq!(Label::parse(&page, [1; 16], 0), None, "it is of the other place");
        assert_eq!(Label::parse(&page, [3; 16], 1), None);
    }
}

//! This project's format for traces that many processes read at once; `docs/TRACES.md` describes
//! every byte. Records have a constant size of [`SIZE`] bytes, so a file can be mapped into memory
//! and read without decoding. The last record holds the number of records and their checksum. A
//! file without it is truncated.

use crc_fast::{CrcAlgorithm, Digest};

use super::packed::NAME;
use crate::cursor::{Bad, Cursor, Trouble};
use crate::record::{Extras, Op, Record};
use crate::text::fields::Found;

/// Bytes of the name and the version.
pub(crate) const HEADER: usize = NAME.len() + 1;
/// Bytes of a record, which has three numbers: the time; the first sector (54 bits), the code (7
/// bits) and the device's highest 3 bits; the length minus one (35 bits) and the other bits of the
/// device. In a file with placement ids, the length of a write has 24 bits, and the id follows it.
pub(crate) const SIZE: usize = 24;
/// Second number of the last record. No request has this value.
const LAST: u64 = u64::MAX;
const LBA_BITS: u32 = 54;
const CODE_BITS: u32 = 7;
const LENGTH_BITS: u32 = 35;
/// Bits of the length of a write in a file with placement ids.
const WRITE_BITS: u32 = 24;
/// Bits of a device that are stored above the length.
const LOW_BITS: u32 = u64::BITS - LENGTH_BITS;

/// Codes of operations. A write that compresses by `n` per cent has code `WRITES + n`.
const READ: u8 = 0;
const FLUSH: u8 = 1;
const DISCARD: u8 = 2;
const WRITES: u8 = 3;
/// Code of a write with unknown compressibility.
const WRITE: u8 = WRITES + 101;

/// Version of a file without optional fields.
const VERSION: u8 = 3;

/// Returns the header of a file whose writes have these fields.
pub(crate) fn header(extras: Extras) -> [u8; HEADER] {
    let mut header = [extras.version(VERSION); HEADER];
    header[..NAME.len()].copy_from_slice(&NAME);
    header
}

/// Returns the optional fields of a file that begins with `head`, or `None` if it is not such a
/// file.
pub(crate) fn extras(head: &[u8]) -> Option<Extras> {
    Extras::of_version(*head.strip_prefix(&NAME)?.first()?, VERSION)
}

/// Returns the bytes of a record. Only a file with placement ids may have a record with one.
pub(crate) fn pack(record: &Record) -> [u8; SIZE] {
    let code = match record.op {
        Op::Read => READ,
        Op::Write => record.saved.map_or(WRITE, |percent| WRITES + percent),
        Op::Flush => FLUSH,
        Op::Discard => DISCARD,
    };
    let dev = u64::from(record.dev);
    let high = dev >> LOW_BITS << (LBA_BITS + CODE_BITS);
    let what = record.lba | u64::from(code) << LBA_BITS | high;
    let length = record.sectors.saturating_sub(1) | u64::from(record.placement) << WRITE_BITS;
    bytes([record.t_ns, what, length | dev << LENGTH_BITS])
}

/// Returns the last record of a file with this number of records and this checksum.
pub(crate) fn last(records: u64, crc: u32) -> [u8; SIZE] {
    bytes([records, LAST, crc.into()])
}

/// Returns the count and the checksum if these bytes are the last record.
pub(crate) fn end(bytes: &[u8; SIZE]) -> Option<(u64, u32)> {
    let [records, what, crc] = words(bytes);
    (what == LAST).then_some((records, crc as u32))
}

/// Returns the request of a record, or `None` if the bytes are invalid.
#[inline]
pub(crate) fn unpack(bytes: &[u8; SIZE], has_placement: bool) -> Option<Record> {
    let [t_ns, what, length] = words(bytes);
    let (op, saved) = match (what >> LBA_BITS) as u8 & ((1 << CODE_BITS) - 1) {
        READ => (Op::Read, None),
        FLUSH => (Op::Flush, None),
        DISCARD => (Op::Discard, None),
        WRITE => (Op::Write, None),
        code if code < WRITE => (Op::Write, Some(code - WRITES)),
        _ => return None,
    };
    let high = what >> (LBA_BITS + CODE_BITS) << LOW_BITS;
    let dev = (length >> LENGTH_BITS | high) as u32;
    let (lba, mut less) = (what & ((1 << LBA_BITS) - 1), length & ((1 << LENGTH_BITS) - 1));
    let mut placement = 0;
    if has_placement && op == Op::Write {
        placement = u8::try_from(less >> WRITE_BITS).ok()?;
        less &= (1 << WRITE_BITS) - 1;
    }
    let sectors = if op == Op::Flush { 0 } else { less + 1 };
    Some(Record { saved, placement, ..Record::new(t_ns, op, dev, lba, sectors) })
}

/// Returns the checksum of an empty series of records.
pub(crate) fn digest() -> Digest {
    Digest::new(CrcAlgorithm::Crc32Iscsi)
}

fn bytes(words: [u64; 3]) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| {
        to.copy_from_slice(&word.to_le_bytes());
    });
    bytes
}

#[inline]
fn words(bytes: &[u8; SIZE]) -> [u64; 3] {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    [word(0), word(8), word(16)]
}

/// Reader of the records of a file.
pub(crate) struct Flat {
    extras: Extras,
    digest: Digest,
    /// Bytes at the cursor that are already in the checksum.
    summed: usize,
    over: bool,
}

impl Flat {
    /// Makes a reader of a file whose writes have these fields.
    pub(crate) fn new(extras: Extras) -> Self {
        Flat { extras, digest: digest(), summed: 0, over: false }
    }

    /// Returns the optional fields of writes.
    pub(crate) fn extras(&self) -> Extras {
        self.extras
    }

    /// Returns the next request. The cursor stays at a bad record.
    #[inline]
    pub(crate) fn next(&mut self, cursor: &mut Cursor) -> Result<Option<Found>, Trouble> {
        if self.over {
            return Ok(None);
        }
        if self.summed == 0 {
            self.sum(cursor)?;
        }
        let bytes = cursor.window.bytes().first_chunk().expect("they are there");
        if let Some(ended) = end(bytes) {
            self.over = true;
            return self.end(ended, cursor);
        }
        cursor.line += 1;
        cursor.left.line = cursor.line;
        let record = unpack(bytes, self.extras.placement);
        let Some(record) = record.filter(|record| record.fault().is_none()) else {
            return Err(bad("a record", "invalid bytes"));
        };
        self.step(cursor);
        Ok(Some(Found { record, widened: false }))
    }

    /// Adds all whole records in memory to the checksum, except the last record of the file.
    fn sum(&mut self, cursor: &mut Cursor) -> Result<(), Trouble> {
        if !cursor.window.has(SIZE)? {
            self.over = true;
            return Err(bad("the last record", "the end of the file (truncated)"));
        }
        let (records, _) = cursor.window.bytes().as_chunks::<SIZE>();
        let others = records.split_last().filter(|(it, _)| end(it).is_some());
        let records = others.map_or(records, |(_, others)| others);
        self.digest.update(records.as_flattened());
        self.summed = records.len() * SIZE;
        Ok(())
    }

    fn step(&mut self, cursor: &mut Cursor) {
        cursor.window.consume(SIZE);
        self.summed = self.summed.saturating_sub(SIZE);
    }

    /// Checks the count and the checksum in the last record.
    fn end(
        &self,
        (records, crc): (u64, u32),
        cursor: &mut Cursor,
    ) -> Result<Option<Found>, Trouble> {
        cursor.window.consume(SIZE);
        match records == cursor.line {
            false => Err(bad("the number of records in the last record", "another number")),
            true if self.digest.finalize() as u32 != crc => {
                Err(bad("the checksum of the last record", "another checksum"))
            }
            true if cursor.window.has(1)? => Err(bad("the end of the file", "further bytes")),
            true => Ok(None),
        }
    }

    /// Skips the record at the cursor.
    pub(crate) fn skip(&mut self, cursor: &mut Cursor) {
        if cursor.window.bytes().len() >= SIZE {
            self.step(cursor);
        }
    }
}

#[cold]
fn bad(expected: &'static str, found: &str) -> Trouble {
    Bad { column: 0, expected, found: found.to_owned() }.into()
}

//! This project's format for traces that many read at once, described byte by byte in
//! `docs/TRACES.md`: every record has [`SIZE`] bytes, so that a file is mapped into memory and
//! nothing has to be decoded. A last record counts them and has their checksum; a file without it
//! was cut off.

use crc_fast::{CrcAlgorithm, Digest};

use super::packed::NAME;
use crate::cursor::{Bad, Cursor, Trouble};
use crate::record::{Op, Record};
use crate::text::fields::Found;

/// The bytes of the name and the version.
pub(crate) const HEADER: usize = NAME.len() + 1;
/// The bytes of a record, three numbers: when; the first sector (54 bits), the code (7 bits) and
/// the device's highest 3 bits; the length less one (35 bits) and the other bits of the device.
pub(crate) const SIZE: usize = 24;
/// The second number of the last record, which no request has.
const LAST: u64 = u64::MAX;
const LBA_BITS: u32 = 54;
const CODE_BITS: u32 = 7;
const LENGTH_BITS: u32 = 35;
/// Bits of a device that stand behind the length.
const LOW_BITS: u32 = u64::BITS - LENGTH_BITS;

/// The codes: what a request does. A write that saves `n` per cent has code `WRITES + n`.
const READ: u8 = 0;
const FLUSH: u8 = 1;
const DISCARD: u8 = 2;
const WRITES: u8 = 3;
/// Of a write of which that is not known.
const WRITE: u8 = WRITES + 101;

/// What a file begins with whose writes say how well they compress, or do not.
pub(crate) fn header(has_saved: bool) -> [u8; HEADER] {
    let mut header = [3 + u8::from(has_saved); HEADER];
    header[..NAME.len()].copy_from_slice(&NAME);
    header
}

/// Whether the writes of a file that begins with `head` say how well they compress; nothing when it
/// is no such file.
pub(crate) fn has_saved(head: &[u8]) -> Option<bool> {
    match head.strip_prefix(&NAME)?.first()? {
        3 => Some(false),
        4 => Some(true),
        _ => None,
    }
}

/// A record's bytes.
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
    bytes([record.t_ns, what, record.sectors.saturating_sub(1) | dev << LENGTH_BITS])
}

/// The last record of a file with so many records and this checksum.
pub(crate) fn last(records: u64, crc: u32) -> [u8; SIZE] {
    bytes([records, LAST, crc.into()])
}

/// The count and the checksum that these bytes of a record say, if it is the last.
pub(crate) fn end(bytes: &[u8; SIZE]) -> Option<(u64, u32)> {
    let [records, what, crc] = words(bytes);
    (what == LAST).then_some((records, crc as u32))
}

/// The request of a record; nothing when there is none.
#[inline]
pub(crate) fn unpack(bytes: &[u8; SIZE]) -> Option<Record> {
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
    let (lba, less) = (what & ((1 << LBA_BITS) - 1), length & ((1 << LENGTH_BITS) - 1));
    let sectors = if op == Op::Flush { 0 } else { less + 1 };
    Some(Record { saved, ..Record::new(t_ns, op, dev, lba, sectors) })
}

/// The checksum of no records yet.
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

/// Walks through the records of a file.
pub(crate) struct Flat {
    has_saved: bool,
    digest: Digest,
    /// Bytes at the cursor that the checksum has already.
    summed: usize,
    over: bool,
}

impl Flat {
    /// Those of a file whose writes say how well they compress, or do not.
    pub(crate) fn new(has_saved: bool) -> Self {
        Flat { has_saved, digest: digest(), summed: 0, over: false }
    }

    /// Whether writes say how well they compress.
    pub(crate) fn has_saved(&self) -> bool {
        self.has_saved
    }

    /// The next request; the cursor stays at what is bad.
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
        let Some(record) = unpack(bytes).filter(|record| record.fault().is_none()) else {
            return Err(bad("a record", "bytes that are none"));
        };
        self.step(cursor);
        Ok(Some(Found { record, widened: false }))
    }

    /// Sums all whole records that are in memory, but for the last of a file.
    fn sum(&mut self, cursor: &mut Cursor) -> Result<(), Trouble> {
        if !cursor.window.has(SIZE)? {
            self.over = true;
            return Err(bad("the last record", "the end of the file: it was cut off"));
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

    /// Whether what was read is what was written.
    fn end(
        &self,
        (records, crc): (u64, u32),
        cursor: &mut Cursor,
    ) -> Result<Option<Found>, Trouble> {
        cursor.window.consume(SIZE);
        match records == cursor.line {
            false => Err(bad("as many records as the last one counts", "another number")),
            true if self.digest.finalize() as u32 != crc => {
                Err(bad("records with the checksum of the last one", "another checksum"))
            }
            true if cursor.window.has(1)? => Err(bad("the end of the file", "bytes behind it")),
            true => Ok(None),
        }
    }

    /// Steps over the record at the cursor.
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

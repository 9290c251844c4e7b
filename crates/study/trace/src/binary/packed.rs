//! This project's binary format, described byte by byte in `docs/TRACES.md`.
//!
//! A header of eight bytes whose last is the version, 2 when writes say how well they compress and
//! otherwise 1 ([`super::flat`] has others). Then frames of up to 64 KiB: payload bytes u32,
//! records u32, CRC32C of both and of the payload u32, payload. A frame of no records ends the
//! file, and its payload is the number of all records; a file without it was cut off. Within a
//! frame every field is a difference to the record before, and the first to nothing.

use crc_fast::{CrcAlgorithm, Digest};

use crate::record::{Op, Record};

/// What a file begins with; the version follows.
pub(crate) const NAME: [u8; 7] = *b"HFTLTR\x00";
/// The bytes of the name and the version.
pub(crate) const HEADER: usize = NAME.len() + 1;
/// The percentage of a write of which nothing is known.
const UNKNOWN: u8 = 255;
/// The bytes of a frame's head.
pub(crate) const HEAD: usize = 12;
/// The most bytes of a payload.
pub(crate) const MAX_PAYLOAD: usize = 1 << 16;
/// The most bytes of a record: a tag, a percentage and four numbers of at most ten bytes.
const MAX_RECORD: usize = 42;

/// The tag's bit for a device that follows.
const HAS_DEV: u8 = 1 << 2;
/// Sectors that the tag counts in.
const GRAIN: u64 = 8;

/// What a file begins with whose writes say how well they compress, or do not.
pub(crate) fn header(has_saved: bool) -> [u8; HEADER] {
    let mut header = [1 + u8::from(has_saved); HEADER];
    header[..NAME.len()].copy_from_slice(&NAME);
    header
}

/// Whether the writes of a file that begins with `head` say how well they compress; nothing when it
/// is no such file.
pub(crate) fn has_saved(head: &[u8]) -> Option<bool> {
    match head.strip_prefix(&NAME)?.first()? {
        1 => Some(false),
        2 => Some(true),
        _ => None,
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes of the payload.
    pub payload: usize,
    /// Records in it; 0 ends the file.
    pub records: u32,
    crc: u32,
}

impl Frame {
    /// What a head of [`HEAD`] bytes says; nothing when no frame is that long.
    pub(crate) fn parse(head: &[u8]) -> Option<Self> {
        let word = |at| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (payload, records, crc) = (word(0) as usize, word(4), word(8));
        (payload <= MAX_PAYLOAD && records as usize <= payload).then_some(Frame {
            payload,
            records,
            crc,
        })
    }

    /// Whether `payload` is what was written.
    pub(crate) fn is_intact(&self, payload: &[u8]) -> bool {
        checksum(self.records, payload) == self.crc
    }
}

/// The bytes of a frame's head before `payload`.
pub(crate) fn head(records: u32, payload: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[4..8].copy_from_slice(&records.to_le_bytes());
    head[8..].copy_from_slice(&checksum(records, payload).to_le_bytes());
    head
}

fn checksum(records: u32, payload: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&(payload.len() as u32).to_le_bytes());
    digest.update(&records.to_le_bytes());
    digest.update(payload);
    digest.finalize() as u32
}

/// What the next record is a difference to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    t_ns: u64,
    dev: u32,
    /// Behind the last record that had a range.
    end: u64,
    /// Whether writes say how well they compress.
    has_saved: bool,
}

impl Base {
    /// The beginning of a frame.
    pub(crate) fn new(has_saved: bool) -> Self {
        Base { has_saved, ..Base::default() }
    }

    /// Appends `record` to `payload`.
    pub(crate) fn write(&mut self, record: &Record, payload: &mut Vec<u8>) {
        let tag_at = payload.len();
        let mut tag = match record.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => 2,
            Op::Discard => 3,
        };
        payload.push(0);
        if self.has_saved && record.op == Op::Write {
            payload.push(record.saved.unwrap_or(UNKNOWN));
        }
        put(payload, zigzag(record.t_ns.wrapping_sub(self.t_ns)));
        if record.dev != self.dev {
            tag |= HAS_DEV;
            put(payload, record.dev.into());
        }
        (self.t_ns, self.dev) = (record.t_ns, record.dev);
        if record.op != Op::Flush {
            put(payload, zigzag(record.lba.wrapping_sub(self.end)));
            let grains = record.sectors / GRAIN;
            if record.sectors.is_multiple_of(GRAIN) && grains < 32 {
                tag |= (grains as u8) << 3
            } else {
                put(payload, record.sectors)
            }
            self.end = record.end();
        }
        payload[tag_at] = tag;
    }

    /// The record at the front of `payload`, and its length; nothing when there is none.
    #[inline]
    pub(crate) fn read(&mut self, payload: &[u8]) -> Option<(Record, usize)> {
        let mut at = 1;
        let tag = *payload.first()?;
        let mut saved = None;
        if self.has_saved && tag & 3 == 1 {
            let percent = *payload.get(at)?;
            at += 1;
            saved = (percent != UNKNOWN).then_some(percent);
        }
        self.t_ns = self.t_ns.wrapping_add(unzigzag(take(payload, &mut at)?));
        if tag & HAS_DEV != 0 {
            self.dev = u32::try_from(take(payload, &mut at)?).ok()?;
        }
        let op = match tag & 3 {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            _ => Op::Discard,
        };
        let (t_ns, dev) = (self.t_ns, self.dev);
        let mut record = Record { saved, ..Record::new(t_ns, op, dev, 0, 0) };
        if op != Op::Flush {
            record.lba = self.end.wrapping_add(unzigzag(take(payload, &mut at)?));
            record.sectors = match tag >> 3 {
                0 => take(payload, &mut at)?,
                grains => u64::from(grains) * GRAIN,
            };
            self.end = record.lba.checked_add(record.sectors)?;
            let is_percent = saved.is_none_or(|percent| percent <= 100);
            if record.sectors == 0 || record.fault().is_some() || !is_percent {
                return None;
            }
        }
        Some((record, at))
    }

    /// Whether a payload of `bytes` bytes has room for one more record.
    pub(crate) fn fits(bytes: usize) -> bool {
        bytes + MAX_RECORD <= MAX_PAYLOAD
    }
}

/// Small differences of either sign become small numbers.
fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    (signed << 1 ^ signed >> 63) as u64
}

#[inline]
fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn put(payload: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        payload.push(number as u8 | 0x80);
        number >>= 7;
    }
    payload.push(number as u8);
}

#[inline]
fn take(payload: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *payload.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

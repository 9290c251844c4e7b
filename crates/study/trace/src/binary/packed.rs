//! This project's binary format; `docs/TRACES.md` describes every byte.
//!
//! The header has eight bytes. The last one is the version: 1, plus 1 if writes have a
//! compressibility, plus 4 if they have a placement id ([`super::flat`] has other versions). Frames
//! of up to 64 KiB follow: payload bytes u32, records u32, CRC32C of both and of the payload u32,
//! payload. A frame without records ends the file, and its payload is the number of all records. A
//! file without it is truncated. Within a frame every field is the difference to the previous
//! record, and the first record has differences to zero.

use crc_fast::{CrcAlgorithm, Digest};

use crate::record::{Extras, Op, Record};

/// Name at the start of a file, before the version.
pub(crate) const NAME: [u8; 7] = *b"HFTLTR\x00";
/// Bytes of the name and the version.
pub(crate) const HEADER: usize = NAME.len() + 1;
/// Percentage of a write with unknown compressibility.
const UNKNOWN: u8 = 255;
/// Bytes of a frame's head.
pub(crate) const HEAD: usize = 12;
/// Maximum bytes of a payload.
pub(crate) const MAX_PAYLOAD: usize = 1 << 16;
/// Maximum bytes of a record: a tag, a percentage, a placement id and four numbers of at most ten
/// bytes.
const MAX_RECORD: usize = 43;

/// Bit of the tag for a device that follows.
const HAS_DEV: u8 = 1 << 2;
/// Sectors of the unit of lengths in the tag.
const GRAIN: u64 = 8;

/// Version of a file without optional fields.
const VERSION: u8 = 1;

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

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes of the payload.
    pub payload: usize,
    /// Records in the payload; 0 ends the file.
    pub records: u32,
    crc: u32,
}

impl Frame {
    /// Parses a head of [`HEAD`] bytes. Returns `None` if its lengths are impossible.
    pub(crate) fn parse(head: &[u8]) -> Option<Self> {
        let word = |at| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (payload, records, crc) = (word(0) as usize, word(4), word(8));
        (payload <= MAX_PAYLOAD && records as usize <= payload).then_some(Frame {
            payload,
            records,
            crc,
        })
    }

    /// Returns whether the checksum of `payload` is right.
    pub(crate) fn is_intact(&self, payload: &[u8]) -> bool {
        checksum(self.records, payload) == self.crc
    }
}

/// Returns the head of a frame with `payload`.
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

/// Base of the differences in the next record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    t_ns: u64,
    dev: u32,
    /// End of the last record that had a range.
    end: u64,
    /// Optional fields of writes.
    extras: Extras,
}

impl Base {
    /// Returns the base at the start of a frame.
    pub(crate) fn new(extras: Extras) -> Self {
        Base { extras, ..Base::default() }
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
        if self.extras.saved && record.op == Op::Write {
            payload.push(record.saved.unwrap_or(UNKNOWN));
        }
        if self.extras.placement && record.op == Op::Write {
            payload.push(record.placement);
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

    /// Parses the record at the start of `payload`. Returns it and its length, or `None` if it is
    /// invalid.
    #[inline]
    pub(crate) fn read(&mut self, payload: &[u8]) -> Option<(Record, usize)> {
        let mut at = 1;
        let tag = *payload.first()?;
        let (mut saved, mut placement) = (None, 0);
        if self.extras.saved && tag & 3 == 1 {
            let percent = *payload.get(at)?;
            at += 1;
            saved = (percent != UNKNOWN).then_some(percent);
        }
        if self.extras.placement && tag & 3 == 1 {
            placement = *payload.get(at)?;
            at += 1;
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
        let mut record = Record { saved, placement, ..Record::new(t_ns, op, dev, 0, 0) };
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

    /// Returns whether a payload of `bytes` bytes has room for one more record.
    pub(crate) fn fits(bytes: usize) -> bool {
        bytes + MAX_RECORD <= MAX_PAYLOAD
    }
}

/// Maps small differences of either sign to small numbers.
fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    (signed << 1 ^ signed >> 63) as u64
}

#[inline]
fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Appends a number with seven bits per byte, lowest first. The highest bit of a byte means that
/// more bytes follow.
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

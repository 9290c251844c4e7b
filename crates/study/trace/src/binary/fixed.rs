//! Formats with records of constant length, little-endian:
//!
//! - CloudPhysics vscsi, version 1 (32 bytes: serial u32, bytes u32, pieces u32, command u16,
//!   version u16, sector u64, µs u64) and 2 (40 bytes: command u16, version u16, serial u32, bytes
//!   u32, pieces u32, sector u64, µs u64, response u64); the version's high byte is 1 or 2
//! - libCacheSim oracleGeneral (24 bytes: seconds u32, object u64, bytes u32, next access i64)
//!
//! An object of oracleGeneral is a sector, or a byte offset with the option `id=bytes`. The format
//! has no operations, so every access is a read unless the option `op=W` is given.

use hostftl_core::SECTOR;

use crate::cursor::Bad;
use crate::left::LeftOut;
use crate::record::{Op, Record};
use crate::text::fields::Found;
use crate::unit::Unit;

/// Limit of byte offsets.
const LAST_BYTE: u64 = 1 << 62;
/// Records that must be plausible for a format to be detected.
const SAMPLE: usize = 16;

/// Meaning of the objects in oracleGeneral.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// An object's number is its first sector.
    #[default]
    Sectors,
    /// An object's number is its byte offset.
    Bytes,
}

/// A format with records of constant length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fixed {
    /// vscsi version 1.
    Vscsi1,
    /// vscsi version 2.
    Vscsi2,
    /// libCacheSim.
    Oracle {
        /// Operation of every access.
        op: Op,
        /// Meaning of the objects' numbers.
        ids: Ids,
    },
}

impl Fixed {
    /// Returns the bytes of a record.
    #[inline]
    pub(crate) fn size(self) -> usize {
        match self {
            Fixed::Vscsi1 => 32,
            Fixed::Vscsi2 => 40,
            Fixed::Oracle { .. } => 24,
        }
    }

    /// Returns the unit of time.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Fixed::Vscsi1 | Fixed::Vscsi2 => Unit::Micros,
            Fixed::Oracle { .. } => Unit::Seconds,
        }
    }

    /// Returns the version of vscsi in `head`, or `None` if it is not vscsi.
    pub(crate) fn vscsi(head: &[u8]) -> Option<Self> {
        [Fixed::Vscsi2, Fixed::Vscsi1].into_iter().find(|format| {
            let (at, version) = if *format == Fixed::Vscsi1 { (14, 1) } else { (2, 2) };
            let mut records = head.chunks_exact(format.size()).take(SAMPLE).peekable();
            records.peek().is_some() && records.all(|record| record[at + 1] == version)
        })
    }

    /// Returns whether `head` can be oracleGeneral: times are sorted, sizes are positive, each next
    /// access is later, and a short file has whole records.
    pub(crate) fn is_oracle(head: &[u8]) -> bool {
        if head.len() < 24 * SAMPLE && !head.len().is_multiple_of(24) {
            return false;
        }
        let mut last = 0;
        let mut records = head.chunks_exact(24).take(SAMPLE).enumerate().peekable();
        records.peek().is_some()
            && records.all(|(index, record)| {
                let (seconds, size) = (u32_at(record, 0), u32_at(record, 12));
                let next = u64_at(record, 16) as i64;
                let is_sorted = seconds >= last;
                last = seconds;
                is_sorted && size > 0 && (next == -1 || next > index as i64)
            })
    }

    /// Parses a record of [`Fixed::size`] bytes. Returns its request, or `None` for a record
    /// without one.
    #[inline]
    pub(crate) fn record(
        self,
        bytes: &[u8],
        unit: Unit,
        left: &mut LeftOut,
    ) -> Result<Option<Found>, Bad> {
        let (time, op, lba, length) = match self {
            Fixed::Vscsi1 => (u64_at(bytes, 24), u16_at(bytes, 12), u64_at(bytes, 16), 4),
            Fixed::Vscsi2 => (u64_at(bytes, 24), u16_at(bytes, 0), u64_at(bytes, 16), 8),
            Fixed::Oracle { op, ids } => return counted(oracle(bytes, unit, op, ids)?, left),
        };
        let t_ns = nanos(time, unit)?;
        let op = match scsi(op) {
            Ok(Op::Flush) => return Ok(Some(Found::flush(t_ns, 0))),
            Ok(op) => op,
            Err(what) => {
                left.dropped(what);
                return Ok(None);
            }
        };
        counted(request(t_ns, op, lba, u64::from(u32_at(bytes, length)))?, left)
    }
}

/// Returns the request of an access in oracleGeneral.
#[inline]
fn oracle(bytes: &[u8], unit: Unit, op: Op, ids: Ids) -> Result<Option<Found>, Bad> {
    let t_ns = nanos(u32_at(bytes, 0).into(), unit)?;
    let (object, length) = (u64_at(bytes, 4), u64::from(u32_at(bytes, 12)));
    match ids {
        Ids::Sectors => request(t_ns, op, object, length),
        Ids::Bytes if length == 0 => Ok(None),
        Ids::Bytes if object >= LAST_BYTE => Err(bad("a byte offset below 2^62", object)),
        Ids::Bytes => Ok(Some(Found::bytes(t_ns, op, 0, object, length))),
    }
}

/// Returns a request from sector `lba` on, or `None` if it has no bytes.
#[inline]
fn request(t_ns: u64, op: Op, lba: u64, bytes: u64) -> Result<Option<Found>, Bad> {
    let sectors = bytes.div_ceil(SECTOR as u64);
    let record = Record::new(t_ns, op, 0, lba, sectors);
    if let Some(expected) = record.fault() {
        return Err(bad(expected, lba));
    }
    Ok((sectors > 0).then_some(Found { record, widened: !bytes.is_multiple_of(SECTOR as u64) }))
}

/// Counts a request without bytes as dropped.
#[inline]
fn counted(found: Option<Found>, left: &mut LeftOut) -> Result<Option<Found>, Bad> {
    if found.is_none() {
        left.dropped("requests of length 0");
    }
    Ok(found)
}

#[inline]
fn nanos(time: u64, unit: Unit) -> Result<u64, Bad> {
    time.checked_mul(unit.ns()).ok_or_else(|| bad("a time below 584 years", time))
}

fn bad(expected: &'static str, found: u64) -> Bad {
    Bad { column: 0, expected, found: found.to_string() }
}

/// Returns the operation of a SCSI command. For a command without a counterpart the error is its
/// name in the plural.
#[inline]
pub(crate) fn scsi(command: u16) -> Result<Op, &'static str> {
    match command {
        0x08 | 0x28 | 0x88 | 0xa8 => Ok(Op::Read),
        0x0a | 0x2a | 0x8a | 0xaa => Ok(Op::Write),
        0x35 | 0x91 => Ok(Op::Flush),
        0x2e | 0x8e | 0xae => Err("WRITE AND VERIFY commands"),
        0x2f | 0x8f | 0xaf => Err("VERIFY commands"),
        0x41 | 0x93 => Err("WRITE SAME commands"),
        0x42 => Err("UNMAP commands"),
        0x89 => Err("COMPARE AND WRITE commands"),
        0x83 | 0x84 => Err("EXTENDED COPY commands"),
        0x00 => Err("TEST UNIT READY commands"),
        0x12 => Err("INQUIRY commands"),
        0x1a | 0x5a => Err("MODE SENSE commands"),
        0x25 | 0x9e => Err("READ CAPACITY commands"),
        0x4d => Err("LOG SENSE commands"),
        0xa0 => Err("REPORT LUNS commands"),
        _ => Err("other SCSI commands"),
    }
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

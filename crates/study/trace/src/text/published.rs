//! Text formats of published collections of traces, with one request per line:
//!
//! - MSR Cambridge: `timestamp,host,disk,Read|Write,byte offset,bytes,response`, times in 100 ns
//! - SPC: `ASU,LBA,bytes,r|w,seconds`; white space and further fields are allowed
//! - DiskSim and MQSim: `time device sector sectors flags`; bit 0 of the flags is set for a read
//! - Alibaba: `device,R|W,byte offset,bytes,microseconds`
//! - Tencent: `seconds,sector,sectors,0|1,volume`; 1 is a write

use hostftl_core::SECTOR;

use super::fields::{Fault, Fields, Found, Parsed};
use crate::binary::fixed::Ids;
use crate::left::LeftOut;
use crate::record::{Op, Record};
use crate::unit::Unit;

/// Device numbers reserved for each host of an MSR trace.
const DISKS_PER_HOST: u32 = 256;

/// Hosts of an MSR trace in the order of first occurrence.
#[derive(Default)]
pub(crate) struct Msr {
    hosts: Vec<Vec<u8>>,
}

impl Msr {
    /// Parses the request of one line. The device is the disk's number plus 256 times the index of
    /// the host.
    pub(crate) fn record(
        &mut self,
        line: &mut Fields<'_>,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        if skip_header(line, b"timestamp")? {
            return Ok(None);
        }
        let t_ns = line.time(unit)?;
        line.comma()?;
        let host = line.word("a host name")?;
        line.comma()?;
        let at = line.at;
        let disk = line.small("a disk number")?;
        if disk >= DISKS_PER_HOST {
            line.at = at;
            return line.fault("a disk number below 256");
        }
        line.comma()?;
        let at = line.at;
        let op = match line.word("Read or Write")?.to_ascii_lowercase().as_slice() {
            b"read" => Op::Read,
            b"write" => Op::Write,
            _ => {
                line.at = at;
                return line.fault("Read or Write");
            }
        };
        line.comma()?;
        let offset = line.number("a byte offset")?;
        line.comma()?;
        let bytes = line.number("a length in bytes")?;
        if !line.is_end() {
            line.comma()?;
        }
        line.skip_line()?;
        let dev = self.host(host) * DISKS_PER_HOST + disk;
        Ok(some(left, bytes, || Found::bytes(t_ns, op, dev, offset, bytes)))
    }

    fn host(&mut self, name: &[u8]) -> u32 {
        let known = self.hosts.iter().position(|host| host == name);
        known.unwrap_or_else(|| {
            self.hosts.push(name.to_vec());
            self.hosts.len() - 1
        }) as u32
    }
}

/// Returns the request of `found`. A request without length is counted as dropped instead.
#[inline]
fn some(left: &mut LeftOut, length: u64, found: impl FnOnce() -> Found) -> Option<Found> {
    if length == 0 {
        left.dropped("requests of length 0");
        return None;
    }
    Some(found())
}

/// Parses a line of SPC, with addresses in sectors or in bytes.
pub(super) fn spc(
    line: &mut Fields<'_>,
    unit: Unit,
    addresses: Ids,
    left: &mut LeftOut,
) -> Parsed<Option<Found>> {
    line.spaces();
    let dev = line.small("a unit number (ASU)")?;
    next(line)?;
    let lba = line.number("a block address")?;
    next(line)?;
    let bytes = line.number("a length in bytes")?;
    next(line)?;
    let op = match line.peek() {
        Some(b'r' | b'R') => Op::Read,
        Some(b'w' | b'W') => Op::Write,
        _ => return line.fault("r or w"),
    };
    line.at += 1;
    next(line)?;
    let t_ns = line.time(unit)?;
    line.spaces();
    if line.peek() == Some(b',') {
        line.skip_line()?;
    } else {
        line.line_end()?;
    }
    if addresses == Ids::Bytes {
        return Ok(some(left, bytes, || Found::bytes(t_ns, op, dev, lba, bytes)));
    }
    let sectors = bytes.div_ceil(SECTOR as u64);
    let widened = !bytes.is_multiple_of(SECTOR as u64);
    let record = Record::new(t_ns, op, dev, lba, sectors);
    Ok(some(left, bytes, || Found { record, widened }))
}

/// Consumes a comma with optional spaces around it.
fn next(line: &mut Fields<'_>) -> Parsed<()> {
    line.spaces();
    line.comma()?;
    line.spaces();
    Ok(())
}

/// Makes a request of `length` units from `address` on, both in sectors or both in bytes.
#[inline]
fn placed(addresses: Ids, t_ns: u64, op: Op, dev: u32, address: u64, length: u64) -> Found {
    match addresses {
        Ids::Bytes => Found::bytes(t_ns, op, dev, address, length),
        Ids::Sectors => {
            Found { record: Record::new(t_ns, op, dev, address, length), widened: false }
        }
    }
}

/// Parses a line of DiskSim or MQSim. With `is_whole`, a time with a fraction is an error.
pub(super) fn disksim(
    line: &mut Fields<'_>,
    unit: Unit,
    is_whole: bool,
    addresses: Ids,
    left: &mut LeftOut,
) -> Parsed<Option<Found>> {
    line.spaces();
    let from = line.at;
    let t_ns = line.time(unit)?;
    if is_whole && line.rest_from(from).contains(&b'.') {
        let expected = "whole nanoseconds, as before; otherwise state :time=ms or another unit";
        return Err(Fault { at: from, expected });
    }
    line.gap()?;
    let dev = line.small("a device number")?;
    line.gap()?;
    let lba = line.number("a sector")?;
    line.gap()?;
    let sectors = line.number("a length in sectors")?;
    line.gap()?;
    let flags = line.number("0 to write or 1 to read")?;
    line.spaces();
    line.line_end()?;
    let op = if flags & 1 == 1 { Op::Read } else { Op::Write };
    Ok(some(left, sectors, || placed(addresses, t_ns, op, dev, lba, sectors)))
}

/// Returns the unit of DiskSim's times: MQSim's nanoseconds if all times in `head` are whole
/// numbers, or DiskSim's milliseconds if any has a fraction.
pub(super) fn disksim_unit(head: &[u8]) -> Unit {
    let has_point = |line: &[u8]| {
        let mut line = Fields::new(line);
        line.spaces();
        line.word("a time").is_ok_and(|time| time.contains(&b'.'))
    };
    let found = head.split(|&byte| byte == b'\n').any(has_point);
    if found { Unit::Millis } else { Unit::Nanos }
}

/// Parses a line of Alibaba's format.
pub(super) fn alibaba(
    line: &mut Fields<'_>,
    unit: Unit,
    left: &mut LeftOut,
) -> Parsed<Option<Found>> {
    if skip_header(line, b"device_id")? {
        return Ok(None);
    }
    let dev = line.small("a device number")?;
    line.comma()?;
    let op = match line.peek() {
        Some(b'R') => Op::Read,
        Some(b'W') => Op::Write,
        _ => return line.fault("R or W"),
    };
    line.at += 1;
    line.comma()?;
    let offset = line.number("a byte offset")?;
    line.comma()?;
    let bytes = line.number("a length in bytes")?;
    line.comma()?;
    let t_ns = line.time(unit)?;
    line.line_end()?;
    Ok(some(left, bytes, || Found::bytes(t_ns, op, dev, offset, bytes)))
}

/// Parses a line of Tencent's format.
pub(super) fn tencent(
    line: &mut Fields<'_>,
    unit: Unit,
    addresses: Ids,
    left: &mut LeftOut,
) -> Parsed<Option<Found>> {
    if skip_header(line, b"timestamp")? {
        return Ok(None);
    }
    let t_ns = line.time(unit)?;
    line.comma()?;
    let lba = line.number("a sector")?;
    line.comma()?;
    let sectors = line.number("a length in sectors")?;
    line.comma()?;
    let op = match line.peek() {
        Some(b'0') => Op::Read,
        Some(b'1') => Op::Write,
        _ => return line.fault("0 to read or 1 to write"),
    };
    line.at += 1;
    line.comma()?;
    let dev = line.small("a volume number")?;
    line.line_end()?;
    Ok(some(left, sectors, || placed(addresses, t_ns, op, dev, lba, sectors)))
}

/// Skips the line if it begins with the name of its first column. Returns whether it does.
fn skip_header(line: &mut Fields<'_>, name: &[u8]) -> Parsed<bool> {
    let is_letter = line.peek().is_some_and(|byte| byte.is_ascii_alphabetic());
    let is_header = is_letter && line.word("a header")?.eq_ignore_ascii_case(name);
    if is_header {
        line.skip_line()?
    } else {
        line.at = 0
    }
    Ok(is_header)
}

//! The text formats in which collections of traces are published, a request a line:
//!
//! - MSR Cambridge: `timestamp,host,disk,Read|Write,byte offset,bytes,response`, times in 100 ns
//! - SPC: `ASU,LBA,bytes,r|w,seconds`; white space and further fields are allowed
//! - DiskSim and MQSim: `time device sector sectors flags`; bit 0 of the flags is set for a read
//! - Alibaba: `device,R|W,byte offset,bytes,microseconds`
//! - Tencent: `seconds,sector,sectors,0|1,volume`; 1 writes

use hostftl_core::SECTOR;

use super::fields::{Fields, Found, Parsed};
use crate::record::{Op, Record};
use crate::unit::Unit;

/// Device numbers kept for each host of an MSR trace.
const DISKS_PER_HOST: u32 = 256;

/// The hosts of an MSR trace in the order of their appearance.
#[derive(Default)]
pub struct Msr {
    hosts: Vec<Vec<u8>>,
}

impl Msr {
    /// The request of one line. The device is the disk's number, and 256 more for every host that
    /// came before this one.
    pub fn record(&mut self, line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
        if skip_header(line, b"timestamp")? {
            return Ok(None);
        }
        let t_ns = line.time(unit)?;
        line.comma()?;
        let host = line.word("the name of a host")?;
        line.comma()?;
        let at = line.at;
        let disk = line.small("the number of a disk")?;
        if disk >= DISKS_PER_HOST {
            line.at = at;
            return line.fault("the number of a disk, below 256");
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
        line.skip_line()?;
        let dev = self.host(host) * DISKS_PER_HOST + disk;
        Ok((bytes > 0).then(|| Found::bytes(t_ns, op, dev, offset, bytes)))
    }

    fn host(&mut self, name: &[u8]) -> u32 {
        let known = self.hosts.iter().position(|host| host == name);
        known.unwrap_or_else(|| {
            self.hosts.push(name.to_vec());
            self.hosts.len() - 1
        }) as u32
    }
}

/// A line of SPC.
pub fn spc(line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
    line.spaces();
    let dev = line.small("the number of a unit (ASU)")?;
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
    let sectors = bytes.div_ceil(SECTOR as u64);
    let widened = !bytes.is_multiple_of(SECTOR as u64);
    let record = Record::new(t_ns, op, dev, lba, sectors);
    Ok((bytes > 0).then_some(Found { record, widened }))
}

/// A comma, perhaps between spaces.
fn next(line: &mut Fields<'_>) -> Parsed<()> {
    line.spaces();
    line.comma()?;
    line.spaces();
    Ok(())
}

/// A line of DiskSim or MQSim.
pub fn disksim(line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
    line.spaces();
    let t_ns = line.time(unit)?;
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
    let record = Record::new(t_ns, op, dev, lba, sectors);
    Ok((sectors > 0).then_some(Found { record, widened: false }))
}

/// The unit of DiskSim's times: whole numbers are MQSim's nanoseconds, a fraction means
/// DiskSim's milliseconds.
pub fn disksim_unit(head: &[u8]) -> Unit {
    let mut line = Fields::new(head);
    line.spaces();
    match line.word("a time") {
        Ok(time) if time.contains(&b'.') => Unit::Millis,
        _ => Unit::Nanos,
    }
}

/// A line of Alibaba's.
pub fn alibaba(line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
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
    Ok((bytes > 0).then(|| Found::bytes(t_ns, op, dev, offset, bytes)))
}

/// A line of Tencent's.
pub fn tencent(line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
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
    let dev = line.small("a volume's number")?;
    line.line_end()?;
    let record = Record::new(t_ns, op, dev, lba, sectors);
    Ok((sectors > 0).then_some(Found { record, widened: false }))
}

/// Steps over a line that begins with the name of its first column.
fn skip_header(line: &mut Fields<'_>, name: &[u8]) -> Parsed<bool> {
    let is_letter = line.peek().is_some_and(|byte| byte.is_ascii_alphabetic());
    let is_header = is_letter && line.word("a header")?.eq_ignore_ascii_case(name);
    match is_header {
        true => line.skip_line()?,
        false => line.at = 0,
    }
    Ok(is_header)
}

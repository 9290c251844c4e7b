//! Records of a recording: each is one input of a layer, as bytes.
//!
//! | part | bytes |
//! |---|---|
//! | file | magic `HFTLREC1`, head, batches, end |
//! | head | length u32, CRC-32C u32, JSON |
//! | batch | length u32, records u32, CRC-32C u32 seeded with the batch's number, records |
//! | end | length `0xffff_ffff`, 0 u32, CRC-32C u32, then steps u64 and digest u64 |
//! | record | nanoseconds since the last one, kind, fields; all numbers as LEB128 |
//!
//! Integers outside of records are little-endian.

use hostftl_core::{
    AdminCommand, BLOCK, Command, DeviceError, DeviceInfo, DeviceKind, Done, HostOp, Input, Nanos,
    Page, Target, Verdict,
};
use serde::{Deserialize, Serialize};

/// Magic bytes of a recording.
pub(crate) const MAGIC: [u8; 8] = *b"HFTLREC1";
/// Length value that marks the end of the batches.
pub(crate) const END: u32 = u32::MAX;

/// Configuration of the recorded layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// Layer and its parameters as canonical text.
    pub layer: String,
    pub deadline: Nanos,
    /// Deadlines of single devices, by index; 0 = `deadline`.
    #[serde(default)]
    pub deadlines: [Nanos; 16],
    pub uuid: [u8; 16],
    /// Whether the layer formatted an empty volume first.
    pub format: bool,
    /// Missing members, as a bit set by index.
    #[serde(default)]
    pub missing: u16,
    pub devices: Vec<HeadDevice>,
}

/// Properties of a device, which is always a block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadDevice {
    pub sectors: u64,
    pub map_unit: u32,
    #[serde(default)]
    pub reclaim_unit: u64,
    pub volatile_cache: bool,
    #[serde(default)]
    pub merges: bool,
    pub discard: bool,
    #[serde(default)]
    pub collection_hint: bool,
}

impl From<&DeviceInfo> for HeadDevice {
    fn from(info: &DeviceInfo) -> Self {
        assert_eq!(info.kind, DeviceKind::Block, "only block devices are recorded");
        assert_eq!(info.placements, 1, "no real device takes placement hints");
        let DeviceInfo {
            sectors,
            iu_sectors: map_unit,
            reclaim_unit,
            volatile_cache,
            merges,
            discard,
            collection_hint,
            ..
        } = *info;
        HeadDevice {
            sectors,
            map_unit,
            reclaim_unit,
            volatile_cache,
            merges,
            discard,
            collection_hint,
        }
    }
}

impl From<&HeadDevice> for DeviceInfo {
    fn from(head: &HeadDevice) -> Self {
        let HeadDevice { sectors, map_unit, reclaim_unit, .. } = *head;
        let HeadDevice { volatile_cache, merges, discard, collection_hint, .. } = *head;
        let block = DeviceInfo::block(sectors, map_unit);
        DeviceInfo { reclaim_unit, volatile_cache, merges, discard, collection_hint, ..block }
    }
}

/// Operation of a host request, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    Trim,
    Zeroes,
}

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    Host { kind: Kind, fua: bool, ticket: u64, lba: u64, sectors: u64 },
    Done { token: u64, result: Result<Verdict, DeviceError>, meta: &'a [u8] },
    Timer,
    Stop,
    Command(AdminCommand),
}

const KINDS: [Kind; 5] = [Kind::Read, Kind::Write, Kind::Flush, Kind::Trim, Kind::Zeroes];
const ERRORS: [DeviceError; 4] =
    [DeviceError::Media, DeviceError::NoSpace, DeviceError::Removed, DeviceError::Unsupported];

const TIMER: u64 = 0;
const STOP: u64 = 1;
/// First of five operations, followed by the same five with FUA.
const HOST: u64 = 2;
/// A success; the errors follow.
const DONE: u64 = 12;
/// A command of an operator.
const COMMAND: u64 = 32;

/// Appends the record of `input`, `since` nanoseconds after the previous one.
pub(crate) fn emit(since: Nanos, input: &Input, out: &mut Vec<u8>) {
    put(out, since);
    match input {
        Input::Timer => put(out, TIMER),
        Input::Stop => put(out, STOP),
        Input::Host(request) => {
            let (kind, fua) = match request.op {
                HostOp::Read(_) => (Kind::Read, false),
                HostOp::Write { fua, .. } => (Kind::Write, fua),
                HostOp::Flush => (Kind::Flush, false),
                HostOp::Trim { fua } => (Kind::Trim, fua),
                HostOp::Zeroes { fua } => (Kind::Zeroes, fua),
            };
            put(out, HOST + kind as u64 + if fua { KINDS.len() as u64 } else { 0 });
            put(out, request.ticket.id());
            put(out, request.lba);
            put(out, request.sectors);
        }
        Input::Done(done) => emit_done(done, out),
    }
}

/// Appends the record of an operator's command, `since` nanoseconds after the previous one.
pub(crate) fn emit_command(since: Nanos, command: AdminCommand, out: &mut Vec<u8>) {
    [since, COMMAND].into_iter().chain(command.to_numbers()).for_each(|number| put(out, number));
}

fn emit_done(done: &Done, out: &mut Vec<u8>) {
    let error = |error| ERRORS.iter().position(|e| *e == error).expect("all are listed") as u64;
    match done.result {
        Ok(verdict) => {
            put(out, DONE);
            put(out, verdict.bytes.into());
            put(out, verdict.crc.into());
        }
        Err(failed) => put(out, DONE + 1 + error(failed)),
    }
    put(out, done.token.0);
    match &done.command {
        Command::Read { into: Target::Meta { buf, pages }, .. }
        | Command::Peek { into: buf, pages, .. } => {
            put_pages(out, &buf.pages()[..*pages as usize]);
        }
        Command::Report { into, .. } => put_pages(out, into.pages()),
        // Other commands have no data that the layer reads.
        _ => put(out, 0),
    }
}

fn put_pages(out: &mut Vec<u8>, pages: &[Page]) {
    put(out, pages.len() as u64);
    pages.iter().for_each(|page| out.extend_from_slice(&page.0));
}

/// Parses the next record and removes it from `bytes`; `None` when the bytes are not a record.
pub(crate) fn parse<'a>(bytes: &mut &'a [u8]) -> Option<(Nanos, Entry<'a>)> {
    let since = take(bytes)?;
    let entry = match take(bytes)? {
        TIMER => Entry::Timer,
        STOP => Entry::Stop,
        code @ HOST..DONE => {
            let code = (code - HOST) as usize;
            let (kind, fua) = (KINDS[code % KINDS.len()], code >= KINDS.len());
            let (ticket, lba, sectors) = (take(bytes)?, take(bytes)?, take(bytes)?);
            Entry::Host { kind, fua, ticket, lba, sectors }
        }
        COMMAND => {
            Entry::Command(AdminCommand::from_numbers([take(bytes)?, take(bytes)?, take(bytes)?])?)
        }
        code => {
            let result = match (code - DONE) as usize {
                0 => {
                    let (bytes, crc) = (take(bytes)?, take(bytes)?);
                    Ok(Verdict { bytes: bytes.try_into().ok()?, crc: crc.try_into().ok()? })
                }
                error => Err(*ERRORS.get(error - 1)?),
            };
            let token = take(bytes)?;
            // The length is untrusted and may overflow.
            let len = usize::try_from(take(bytes)?).ok()?.checked_mul(BLOCK)?;
            let (meta, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Entry::Done { token, result, meta }
        }
    };
    Some((since, entry))
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::{Cause, MetaBuf, Request, Scrub, Tally, Ticket, Token};

    #[test]
    fn numbers_of_any_size_round_trip() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(take(&mut &bytes[..]), Some(number));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn inputs_round_trip() {
        let mut bytes = Vec::new();
        let mut buf = MetaBuf::new(2);
        buf.pages_mut()[1].0[5] = 6;
        let into = Target::Meta { buf, pages: 2 };
        let command = Command::Read { device: 0, lba: 9, into, cause: Cause::Map };
        let done = Done { token: Token(1 << 40), command, result: Err(DeviceError::Removed) };
        emit(7, &Input::Done(done), &mut bytes);
        let ticket = Ticket::issue(77);
        let (op, tally) = (HostOp::Zeroes { fua: true }, Tally::default());
        let input =
            Input::Host(Request { ticket, op, lba: 3, sectors: 1 << 33, tally, placement: 0 });
        emit(0, &input, &mut bytes);
        let Input::Host(request) = input else { unreachable!() };
        request.ticket.close();
        let command = AdminCommand::Scrub(Scrub::Start(300));
        emit_command(2, command, &mut bytes);
        emit(1, &Input::Stop, &mut bytes);
        let rest = &mut &bytes[..];
        let Some((7, Entry::Done { token, result, meta })) = parse(rest) else { panic!("no end") };
        assert_eq!((token, result, meta[BLOCK + 5]), (1 << 40, Err(DeviceError::Removed), 6));
        let (kind, sectors) = (Kind::Zeroes, 1 << 33);
        let host = Entry::Host { kind, fua: true, ticket: 77, lba: 3, sectors };
        assert_eq!(parse(rest), Some((0, host)));
        assert_eq!(parse(rest), Some((2, Entry::Command(command))));
        assert_eq!(parse(rest), Some((1, Entry::Stop)));
        assert!(rest.is_empty());
    }
}

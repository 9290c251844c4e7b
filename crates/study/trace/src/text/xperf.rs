//! The dump of a Windows event trace as printed by xperf: `xperf -i FILE.etl -o FILE.csv`.
//!
//! Lines between `BeginHeader` and `EndHeader` name the columns of each event. `DiskRead`,
//! `DiskWrite` and `DiskFlush` are requests. Times are those of the events, in microseconds.
//! Addresses and lengths are hexadecimal with the prefix 0x.

use super::fields::{Fault, Fields, Found, Parsed};
use super::lost;
use crate::left::LeftOut;
use crate::record::Op;
use crate::unit::Unit;

/// First line of a dump.
pub(crate) const BEGIN: &[u8] = b"BeginHeader";
const END: &[u8] = b"EndHeader";
/// Events that are requests.
const EVENTS: [(&[u8], Op); 3] =
    [(b"DiskRead", Op::Read), (b"DiskWrite", Op::Write), (b"DiskFlush", Op::Flush)];
/// Limit of addresses and lengths in bytes.
const LAST_BYTE: u64 = 1 << 63;

/// Positions of an event's fields.
#[derive(Clone, Copy)]
struct Places {
    time: usize,
    offset: usize,
    length: usize,
    disk: usize,
}

/// A parser of dumps.
pub(crate) struct Xperf {
    in_header: bool,
    /// Positions of each event's fields.
    places: [Places; 3],
}

impl Default for Xperf {
    fn default() -> Self {
        let transfer = Places { time: 1, offset: 5, length: 6, disk: 8 };
        let flush = Places { disk: 6, ..transfer };
        Xperf { in_header: false, places: [transfer, transfer, flush] }
    }
}

impl Xperf {
    /// Parses the request of one line.
    pub(crate) fn record(
        &mut self,
        line: &mut Fields<'_>,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        let text = line.rest();
        let name = name(text);
        let event = EVENTS.iter().position(|(event, _)| *event == name);
        if name == BEGIN || name == END {
            self.in_header = name == BEGIN;
        } else if let (Some(event), true) = (event, self.in_header) {
            self.places[event] = places(text, self.places[event]);
        } else if let Some(event) = event {
            let found = self.request(text, event, unit, left)?;
            line.skip_line()?;
            return Ok(found);
        } else if !self.in_header {
            left.lost(lost::events(text).unwrap_or(0));
            if !name.first().is_some_and(u8::is_ascii_alphabetic) {
                return line.fault("an event such as DiskWrite");
            }
            left.foreign("events other than DiskRead, DiskWrite and DiskFlush");
        }
        line.skip_line()?;
        Ok(None)
    }

    fn request(
        &self,
        text: &[u8],
        event: usize,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        let (places, op) = (self.places[event], EVENTS[event].1);
        let t_ns = field(text, places.time, |field| field.time(unit))?;
        let disk = field(text, places.disk, |field| field.small("a disk number"))?;
        if op == Op::Flush {
            return Ok(Some(Found::flush(t_ns, disk)));
        }
        let offset =
            field(text, places.offset, |field| hex(field, "a byte offset such as 0x1000"))?;
        let length =
            field(text, places.length, |field| hex(field, "a length in bytes such as 0x1000"))?;
        if length == 0 {
            left.dropped("requests of length 0");
            return Ok(None);
        }
        Ok(Some(Found::bytes(t_ns, op, disk, offset, length)))
    }
}

/// Returns the first field.
fn name(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b',').next().unwrap_or_default().trim_ascii()
}

/// Returns the positions in a line of the header, or those in `known` if it does not have them.
fn places(text: &[u8], known: Places) -> Places {
    let place = |name: &[u8], known: usize| {
        let mut names = text.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        names.position(|it| it.eq_ignore_ascii_case(name)).unwrap_or(known)
    };
    Places {
        time: place(b"TimeStamp", known.time),
        offset: place(b"ByteOffset", known.offset),
        length: place(b"IOSize", known.length),
        disk: place(b"DiskNum", known.disk),
    }
}

/// Parses the field at `place`, without the spaces around it.
fn field<T>(
    text: &[u8],
    place: usize,
    parse: impl FnOnce(&mut Fields<'_>) -> Parsed<T>,
) -> Parsed<T> {
    let mut commas = text.iter().enumerate().filter(|(_, byte)| **byte == b',').map(|it| it.0);
    let from = match place {
        0 => Some(0),
        place => commas.by_ref().nth(place - 1).map(|at| at + 1),
    };
    let from = from.ok_or(Fault { at: text.len(), expected: "a further column" })?;
    let end = commas.next().unwrap_or(text.len());
    let blanks = text[from..end].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let end = from + text[from..end].trim_ascii_end().len();
    let mut fields = Fields::new(&text[..end]);
    fields.at = (from + blanks).min(end);
    let value = parse(&mut fields)?;
    if fields.at == end { Ok(value) } else { fields.fault("the end of the field") }
}

/// Parses a hexadecimal number of bytes below 8 EiB.
fn hex(field: &mut Fields<'_>, expected: &'static str) -> Parsed<u64> {
    let from = field.at;
    let digits = field.rest().strip_prefix(b"0x").ok_or(Fault { at: from, expected })?;
    let length = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let text = std::str::from_utf8(&digits[..length]).unwrap_or_default();
    let number = u64::from_str_radix(text, 16).map_err(|_| Fault { at: from, expected })?;
    if number >= LAST_BYTE {
        return Err(Fault { at: from, expected: "a number of bytes below 8 EiB" });
    }
    field.at += 2 + length;
    Ok(number)
}

//! The binary format of blktrace, little- or big-endian, version 7.
//!
//! A record has 48 bytes: magic and version (u32), sequence number (u32), ns (u64), sector (u64),
//! bytes (u32), action (u32), process (u32), device (u32), CPU (u32), error (u16), and the number
//! of payload bytes that follow (u16). The lower half of an action is its kind. The upper half has
//! bits for the operation.
//!
//! As in `blkparse`, issued requests count, or queued ones if none are issued. Each device and CPU
//! numbers its events; gaps in the numbers are events that the kernel dropped for lack of buffer
//! space.

use std::collections::HashMap;

use hostftl_core::SECTOR;

use crate::cursor::{Bad, Cursor, Trouble};
use crate::left::LeftOut;
use crate::record::{Op, Record};
use crate::text::events::device_name;
use crate::text::fields::Found;

/// Bytes of a record without its payload.
pub(crate) const SIZE: usize = 48;
/// Magic number, without the version in its lowest byte.
const MAGIC: u32 = 0x6561_7400;
/// Supported version.
const VERSION: u32 = 7;
/// Kinds of actions: queued and issued.
const QUEUE: u16 = 1;
const ISSUE: u16 = 7;
/// Bit of a kind that is followed by the cgroup's number.
const CGROUP: u16 = 1 << 8;
/// Bits of the operation.
const WRITE: u16 = 1 << 1;
const FLUSH: u16 = 1 << 2;
const PASS_THROUGH: u16 = 1 << 9;
const NOTIFY: u16 = 1 << 10;
const DISCARD: u16 = 1 << 13;
const DRIVER_DATA: u16 = 1 << 14;

/// One record.
#[derive(Clone, Copy)]
struct Event {
    sequence: u32,
    t_ns: u64,
    sector: u64,
    bytes: u32,
    kind: u16,
    bits: u16,
    dev: u32,
    cpu: u32,
    /// Length including the payload.
    size: usize,
}

/// A reader of the format.
#[derive(Default)]
pub(crate) struct Blktrace {
    /// Kind of the actions that count as requests.
    kind: u16,
    pending: Option<Found>,
    /// Last sequence number of each device and CPU.
    last: HashMap<(u32, u32), u32>,
    /// Last sequence number of all devices and CPUs.
    previous: Option<u32>,
    /// Missing sequence numbers, counted per CPU and in the order of the file. The second count is
    /// for recorders with one sequence for all CPUs.
    gaps: [u64; 2],
    /// Record after the first gap.
    first_gap: u64,
    /// Issued requests that do not count, because the beginning of the file has only queued ones.
    issued: u64,
    /// Actions that do not count, by kind.
    seen: [u64; 32],
}

impl Blktrace {
    /// Returns the version if `head` begins with a record.
    pub(crate) fn version(head: &[u8]) -> Option<u32> {
        let magic: [u8; 4] = head.get(..4)?.try_into().ok()?;
        [u32::from_le_bytes(magic), u32::from_be_bytes(magic)]
            .into_iter()
            .find_map(|magic| (magic & !0xff == MAGIC).then_some(magic & 0xff))
    }

    /// Returns whether this version is supported.
    pub(crate) fn reads(version: u32) -> bool {
        version == VERSION
    }

    /// Makes a reader of a file that begins with `head`. If `dev` is given, only its requests
    /// decide which kind of actions counts.
    pub(crate) fn new(mut head: &[u8], dev: Option<u32>) -> Self {
        let (mut issued, mut queued) = (false, false);
        while let Some(event) = Event::parse(head) {
            let is_of = dev.is_none_or(|dev| dev == event.dev) && event.bits & NOTIFY == 0;
            issued |= is_of && event.kind == ISSUE;
            queued |= is_of && event.kind == QUEUE;
            head = head.get(event.size..).unwrap_or_default();
        }
        let kind = if !issued && queued { QUEUE } else { ISSUE };
        Blktrace { kind, ..Blktrace::default() }
    }

    /// Returns the next request. The cursor stays at a bad record.
    pub(crate) fn next(&mut self, cursor: &mut Cursor) -> Result<Option<Found>, Trouble> {
        if let Some(found) = self.pending.take() {
            return Ok(Some(found));
        }
        loop {
            let is_whole = cursor.window.has(SIZE)?;
            if cursor.window.bytes().is_empty() {
                return Ok(None);
            }
            cursor.step();
            let event = Event::parse(cursor.window.bytes());
            let Some(event) = event.filter(|_| is_whole) else {
                return Err(self.bad(cursor).into());
            };
            if !cursor.window.has(event.size)? {
                return Err(self.bad(cursor).into());
            }
            let found = self.request(&event, &mut cursor.left)?;
            cursor.window.consume(event.size);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Returns the error for the record at the cursor.
    fn bad(&self, cursor: &Cursor) -> Bad {
        let rest = cursor.window.bytes();
        let found = match Event::parse(rest) {
            None if rest.len() >= SIZE => "other bytes".to_owned(),
            Some(event) => format!("{} of {} bytes", rest.len(), event.size),
            None => format!("{} of {SIZE} bytes", rest.len()),
        };
        Bad { column: 0, expected: "a whole record of blktrace", found }
    }

    /// Skips the record at the cursor, up to the next position that looks like the start of a
    /// record.
    pub(crate) fn skip(&mut self, cursor: &mut Cursor) {
        let rest = cursor.window.bytes();
        let next = (1..rest.len()).find(|at| Blktrace::version(&rest[*at..]) == Some(VERSION));
        let length = next.unwrap_or(rest.len());
        cursor.window.consume(length);
    }

    fn request(&mut self, event: &Event, left: &mut LeftOut) -> Result<Option<Found>, Bad> {
        if event.bits & NOTIFY != 0 {
            left.event("messages and names of processes");
            return Ok(None);
        }
        self.follow(event, left.line);
        if event.kind != self.kind || event.bits & DRIVER_DATA != 0 {
            self.issued += u64::from(event.kind == ISSUE);
            self.seen[usize::from(event.kind).min(31)] += 1;
            left.event(if self.kind == ISSUE {
                "actions other than D"
            } else {
                "actions other than Q"
            });
            return Ok(None);
        }
        if event.bits & PASS_THROUGH != 0 {
            left.dropped("SCSI pass-through commands");
            return Ok(None);
        }
        let op = match event.bits {
            bits if bits & DISCARD != 0 => Op::Discard,
            bits if bits & WRITE != 0 => Op::Write,
            _ => Op::Read,
        };
        let sectors = u64::from(event.bytes).div_ceil(SECTOR as u64);
        let record = Record::new(event.t_ns, op, event.dev, event.sector, sectors);
        if let Some(expected) = record.fault() {
            return Err(Bad { column: 0, expected, found: event.sector.to_string() });
        }
        let widened = !u64::from(event.bytes).is_multiple_of(SECTOR as u64);
        let data = (sectors > 0).then_some(Found { record, widened });
        if event.bits & FLUSH != 0 {
            self.pending = data;
            return Ok(Some(Found::flush(event.t_ns, event.dev)));
        }
        if data.is_none() {
            left.dropped("requests of length 0");
        }
        Ok(data)
    }

    /// Counts the events that are missing before `event`.
    fn follow(&mut self, event: &Event, line: u64) {
        let of_cpu = self.last.insert((event.dev, event.cpu), event.sequence);
        let of_all = self.previous.replace(event.sequence);
        for (gaps, last) in self.gaps.iter_mut().zip([of_cpu, of_all]) {
            let next = last.map_or(event.sequence, |last| last.saturating_add(1));
            *gaps += u64::from(event.sequence.saturating_sub(next));
        }
        if self.first_gap == 0 && self.gaps[0] > 0 {
            self.first_gap = line;
        }
    }

    /// Returns the number of lost events and the record after the first gap.
    pub(crate) fn lost(&self) -> (u64, u64) {
        // The count that does not fit the numbering of the recorder is too high.
        (self.gaps[0].min(self.gaps[1]), self.first_gap)
    }

    /// Returns warnings about the results, one sentence each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        if self.kind == ISSUE || self.issued == 0 {
            return Vec::new();
        }
        vec![format!(
            "{} issued requests (D) are omitted: the beginning of the trace has only queued \
             requests (Q), which are used instead",
            self.issued
        )]
    }

    /// Returns the reason why there is no request, if other events explain it.
    pub(crate) fn reason(&self) -> Option<String> {
        let others: u64 = self.seen.iter().sum();
        (others > 0).then(|| {
            let devices: Vec<_> = self.last.keys().map(|(dev, _)| device_name(*dev)).collect();
            format!(
                "it has {others} events of {}, but no issued (D) or queued (Q) requests; record \
                 the trace with blktrace without -a, or with -a issue",
                devices.first().map_or("no device", |name| name)
            )
        })
    }
}

impl Event {
    /// Parses the record at the start of `bytes`. Its payload may be missing.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.get(..SIZE)?.try_into().ok()?;
        let is_big = u32::from_be_bytes(bytes[..4].try_into().ok()?) == MAGIC | VERSION;
        let number = |at: usize, length: usize| {
            let fold = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            if is_big {
                bytes[at..at + length].iter().fold(0, fold)
            } else {
                bytes[at..at + length].iter().rev().fold(0, fold)
            }
        };
        let action = number(28, 4) as u32;
        (number(0, 4) == u64::from(MAGIC | VERSION)).then(|| Event {
            sequence: number(4, 4) as u32,
            t_ns: number(8, 8),
            sector: number(16, 8),
            bytes: number(24, 4) as u32,
            kind: action as u16 & !CGROUP,
            bits: (action >> 16) as u16,
            dev: number(36, 4) as u32,
            cpu: number(40, 4) as u32,
            size: SIZE + number(46, 2) as usize,
        })
    }
}

/// Returns the time and the length of the record at the start of `bytes`, or `None` if there is
/// none.
pub(crate) fn measure(bytes: &[u8]) -> Option<(u64, usize)> {
    Event::parse(bytes).map(|event| (event.t_ns, event.size))
}

//! fio's iolog, version 2 (`file action [offset length]`, with waits between) and 3 (with a time
//! first).
//!
//! Each file is a device, numbered in the order of first occurrence. `sync` and `datasync` are
//! flushes, `trim` is a discard. `add`, `open` and `close` are not requests.

use super::fields::{Fault, Fields, Found, Parsed};
use crate::left::LeftOut;
use crate::record::Op;
use crate::unit::Unit;

/// First line of version 2.
pub(crate) const HEADER_2: &[u8] = b"fio version 2 iolog";
/// First line of version 3.
pub(crate) const HEADER_3: &[u8] = b"fio version 3 iolog";

/// Returns whether `line` is the first line of such a log.
pub(crate) fn is_header(line: &[u8]) -> bool {
    [HEADER_2, HEADER_3].contains(&line)
}

/// State of a reader.
pub(crate) struct Fio {
    has_times: bool,
    files: Vec<Vec<u8>>,
    /// Sum of the waits, in ns.
    now: u64,
}

impl Fio {
    /// Makes a reader; the first line of `head` determines the version.
    pub(crate) fn new(head: &[u8]) -> Self {
        let has_times = Fields::new(head).rest() != HEADER_2;
        Fio { has_times, files: Vec::new(), now: 0 }
    }

    /// Parses the request of one line.
    pub(crate) fn record(
        &mut self,
        line: &mut Fields<'_>,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        if line.peek() == Some(b'f') && is_header(line.rest()) {
            self.has_times = line.rest() != HEADER_2;
            line.skip_line()?;
            return Ok(None);
        }
        if self.has_times {
            self.now = line.time(unit)?;
            line.gap()?;
        }
        let file = line.word("a file name")?;
        line.gap()?;
        let at = line.at;
        let op = match line.word("an action such as read")? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" | b"sync_file_range" => Op::Flush,
            b"wait" if !self.has_times => return self.wait(line, unit),
            b"add" | b"open" | b"close" => {
                line.line_end()?;
                left.event("add, open and close");
                return Ok(None);
            }
            _ => {
                line.at = at;
                return line.fault("read, write, trim, sync, datasync, add, open or close");
            }
        };
        if op == Op::Flush {
            line.skip_line()?;
            return Ok(Some(Found::flush(self.now, self.device(file))));
        }
        line.gap()?;
        let offset = line.number("a byte offset")?;
        line.gap()?;
        let bytes = line.number("a length in bytes")?;
        line.line_end()?;
        let dev = self.device(file);
        if bytes == 0 {
            left.dropped("requests of length 0");
            return Ok(None);
        }
        Ok(Some(Found::bytes(self.now, op, dev, offset, bytes)))
    }

    fn wait(&mut self, line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
        line.gap()?;
        let at = line.at;
        let later = self.now.checked_add(line.time(unit)?);
        self.now = later.ok_or(Fault { at, expected: "a sum of waits below 584 years" })?;
        if !line.is_end() {
            line.gap()?;
        }
        line.skip_line()?;
        Ok(None)
    }

    fn device(&mut self, name: &[u8]) -> u32 {
        let known = self.files.iter().position(|file| file == name);
        known.unwrap_or_else(|| {
            self.files.push(name.to_vec());
            self.files.len() - 1
        }) as u32
    }
}

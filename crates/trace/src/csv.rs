//! This project's own format: `t_us,[dev,]op,byte_off,byte_len`, a request a line.
//!
//! The first line may be the header, which also tells whether there is a `dev` column; without it
//! the number of commas does. `op` is R, W, F(lush) or D(iscard). `t_us` may have a fraction.
//! Offsets that are not whole sectors are widened, and [`CsvReader::widened`] counts them.

use std::io::Read;
use std::path::{Path, PathBuf};

use hostftl_core::SECTOR;

use crate::error::TraceError;
use crate::input;
use crate::record::{Op, Record};

/// Bytes read at once.
const CHUNK: usize = 1 << 18;
/// The longest line.
const MAX_LINE: usize = 256;
/// Digits that always fit 64 bits.
const MAX_DIGITS: usize = 18;
const HEADER: &[u8] = b"t_us,op,byte_off,byte_len";
const HEADER_DEV: &[u8] = b"t_us,dev,op,byte_off,byte_len";

/// Reads a file record by record.
pub struct CsvReader {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    over: bool,
    line: u64,
    has_dev: bool,
    widened: u64,
    failed: bool,
}

/// What a line should have had, and in which column, from 0.
struct Fault {
    at: usize,
    expected: &'static str,
}

type Parsed<T> = Result<T, Fault>;

impl CsvReader {
    /// Opens `path` and looks at its first line.
    ///
    /// # Errors
    /// When the file can't be opened or read, or has no requests.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let input = input::open(path)
            .map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        let mut reader = CsvReader {
            path: path.to_owned(),
            input,
            buffer: vec![0; CHUNK],
            at: 0,
            end: 0,
            over: false,
            line: 0,
            has_dev: false,
            widened: 0,
            failed: false,
        };
        reader.refill()?;
        reader.detect();
        Ok(reader)
    }

    /// How many records so far did not begin or end at a sector's edge.
    pub fn widened(&self) -> u64 {
        self.widened
    }

    fn detect(&mut self) {
        let first = self.buffer[..self.end].split(|&byte| byte == b'\n').next().unwrap_or(&[]);
        let text = first.strip_suffix(b"\r").unwrap_or(first);
        self.has_dev = text.iter().filter(|&&byte| byte == b',').count() == 4;
        if text == HEADER || text == HEADER_DEV {
            self.at = (first.len() + 1).min(self.end);
            self.line = 1;
        }
    }

    /// Moves what is left to the front and fills the buffer up.
    fn refill(&mut self) -> Result<(), TraceError> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while !self.over && self.end < CHUNK {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.over = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let (path, line) = (self.path.clone(), self.line);
                    return Err(TraceError::Read { path, line, source });
                }
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if self.end - self.at < MAX_LINE && !self.over {
                self.refill()?;
            }
            if self.at == self.end {
                return Ok(None);
            }
            self.line += 1;
            let rest = &self.buffer[self.at..self.end];
            let rest = &rest[..rest.len().min(MAX_LINE)];
            if let [b'\n', ..] | [b'\r', b'\n', ..] = rest {
                self.at += 1 + usize::from(rest[0] == b'\r');
                continue;
            }
            let mut fields = Fields { bytes: rest, at: 0 };
            return match fields.record(self.has_dev) {
                Ok((record, widened)) => {
                    self.widened += u64::from(widened);
                    self.at += fields.at;
                    Ok(Some(record))
                }
                Err(fault) => Err(self.fault(&fault)),
            };
        }
    }

    fn fault(&self, fault: &Fault) -> TraceError {
        let rest = &self.buffer[self.at + fault.at..self.end];
        let length = rest.iter().position(|byte| b",\r\n".contains(byte)).unwrap_or(rest.len());
        let found = match rest.first() {
            None => "the end of the file".to_owned(),
            Some(b'\n' | b'\r') => "the end of the line".to_owned(),
            Some(b',') => "','".to_owned(),
            Some(_) => format!("'{}'", rest[..length.min(24)].escape_ascii()),
        };
        TraceError::Line {
            path: self.path.clone(),
            line: self.line,
            column: fault.at + 1,
            expected: fault.expected,
            found,
        }
    }
}

impl Iterator for CsvReader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.read().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

/// The fields of one line; what it looks at may run past the line's end, but not past 256 bytes.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    /// The record, and whether it had to be widened to whole sectors.
    fn record(&mut self, has_dev: bool) -> Parsed<(Record, bool)> {
        let t_ns = self.time()?;
        let mut dev = 0;
        if has_dev {
            self.comma()?;
            let at = self.at;
            let number = self.number("a device number")?;
            dev = u32::try_from(number)
                .map_err(|_| Fault { at, expected: "a device number below 2^32" })?;
        }
        self.comma()?;
        let op = self.op()?;
        self.comma()?;
        let offset = self.number("a byte offset")?;
        self.comma()?;
        let at = self.at;
        let bytes = self.number("a length in bytes")?;
        self.line_end()?;
        if op == Op::Flush {
            return Ok((Record { t_ns, op, dev, lba: 0, sectors: 0 }, false));
        }
        if bytes == 0 {
            return Err(Fault { at, expected: "a length above 0" });
        }
        let sector = SECTOR as u64;
        let (lba, end) = (offset / sector, (offset + bytes).div_ceil(sector));
        let widened = offset % sector != 0 || bytes % sector != 0;
        Ok((Record { t_ns, op, dev, lba, sectors: end - lba }, widened))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn number(&mut self, expected: &'static str) -> Parsed<u64> {
        let from = self.at;
        let mut value = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            if self.at - from == MAX_DIGITS {
                return Err(Fault { at: from, expected: "a number of at most 18 digits" });
            }
            value = value * 10 + u64::from(digit - b'0');
            self.at += 1;
        }
        if self.at == from {
            return Err(Fault { at: from, expected });
        }
        Ok(value)
    }

    /// Microseconds, perhaps with a fraction, as nanoseconds.
    fn time(&mut self) -> Parsed<u64> {
        let from = self.at;
        let micros = self.number("a time in microseconds")?;
        let mut nanos = micros
            .checked_mul(1000)
            .ok_or(Fault { at: from, expected: "a time below 584 years" })?;
        if self.peek() == Some(b'.') {
            self.at += 1;
            let mut weight = 100;
            let from = self.at;
            let fraction = self.number("digits after the point")?;
            let digits = (self.at - from) as u32;
            let mut rest = 10u64.pow(digits);
            let mut left = fraction;
            while rest > 1 && weight > 0 {
                rest /= 10;
                nanos += left / rest * weight;
                left %= rest;
                weight /= 10;
            }
        }
        Ok(nanos)
    }

    fn comma(&mut self) -> Parsed<()> {
        match self.peek() {
            Some(b',') => self.at += 1,
            _ => return Err(Fault { at: self.at, expected: "a comma" }),
        }
        Ok(())
    }

    fn op(&mut self) -> Parsed<Op> {
        let op = match self.peek() {
            Some(b'R') => Op::Read,
            Some(b'W') => Op::Write,
            Some(b'F') => Op::Flush,
            Some(b'D') => Op::Discard,
            _ => return Err(Fault { at: self.at, expected: "R, W, F or D" }),
        };
        self.at += 1;
        Ok(op)
    }

    /// Steps over the end of the line; a file's last line may lack it.
    fn line_end(&mut self) -> Parsed<()> {
        if self.peek() == Some(b'\r') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'\n') => self.at += 1,
            None if self.bytes.len() < MAX_LINE => {}
            _ => return Err(Fault { at: self.at, expected: "the end of the line" }),
        }
        Ok(())
    }
}

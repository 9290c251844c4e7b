//! The fields of one line, from left to right.

use hostftl_core::SECTOR;

use crate::record::{Op, Record};
use crate::unit::Unit;

/// The longest line in bytes; what a reader looks at may run past the line's end, but not further.
pub const MAX_LINE: usize = 1024;
/// Digits that always fit 64 bits.
const MAX_DIGITS: usize = 18;

/// What a line should have had, and in which column, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The column.
    pub at: usize,
    /// What should stand there.
    pub expected: &'static str,
}

/// A part of a line, or what is wrong with it.
pub type Parsed<T> = Result<T, Fault>;

/// A request as a line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The request in whole sectors.
    pub record: Record,
    /// Whether it had to be widened to whole sectors.
    pub widened: bool,
}

impl Found {
    /// A flush.
    pub fn flush(t_ns: u64, dev: u32) -> Self {
        let record = Record { t_ns, op: Op::Flush, dev, lba: 0, sectors: 0 };
        Found { record, widened: false }
    }

    /// A request of `bytes` bytes, above 0, from byte `offset` on; both below 10^18.
    pub fn bytes(t_ns: u64, op: Op, dev: u32, offset: u64, bytes: u64) -> Self {
        let sector = SECTOR as u64;
        let (lba, end) = (offset / sector, (offset + bytes).div_ceil(sector));
        let widened = !(offset.is_multiple_of(sector) && bytes.is_multiple_of(sector));
        Found { record: Record { t_ns, op, dev, lba, sectors: end - lba }, widened }
    }
}

/// Where the parser stands in a line.
pub struct Fields<'a> {
    bytes: &'a [u8],
    /// The column of what comes next, from 0.
    pub at: usize,
}

impl<'a> Fields<'a> {
    /// The line that `bytes` begin with.
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes: &bytes[..bytes.len().min(MAX_LINE)], at: 0 }
    }

    /// The next byte.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// What is wrong here.
    pub fn fault<T>(&self, expected: &'static str) -> Parsed<T> {
        Err(Fault { at: self.at, expected })
    }

    /// Whether the line ends here.
    pub fn is_end(&self) -> bool {
        matches!(self.peek(), None | Some(b'\n' | b'\r'))
    }

    /// What the line still has, without its end.
    pub fn rest(&self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// A whole number of at most 18 digits.
    #[inline]
    pub fn number(&mut self, expected: &'static str) -> Parsed<u64> {
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

    /// A number below 2^32.
    #[inline]
    pub fn small(&mut self, expected: &'static str) -> Parsed<u32> {
        let at = self.at;
        u32::try_from(self.number(expected)?)
            .map_err(|_| Fault { at, expected: "a number below 2^32" })
    }

    /// A time in `unit`, perhaps with a fraction, as nanoseconds.
    #[inline]
    pub fn time(&mut self, unit: Unit) -> Parsed<u64> {
        let from = self.at;
        let whole = self.number(unit.expected())?;
        let too_late = Fault { at: from, expected: "a time below 584 years" };
        let nanos = whole.checked_mul(unit.ns()).ok_or(too_late)?;
        match self.peek() {
            Some(b'.') => nanos.checked_add(self.fraction(unit)?).ok_or(too_late),
            _ => Ok(nanos),
        }
    }

    /// The digits behind a point, as nanoseconds; more than 18 are read, but too small to count.
    fn fraction(&mut self, unit: Unit) -> Parsed<u64> {
        self.at += 1;
        let from = self.at;
        let (mut value, mut scale) = (0u64, 1u64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            if self.at - from < MAX_DIGITS {
                value = value * 10 + u64::from(digit - b'0');
                scale *= 10;
            }
            self.at += 1;
        }
        if self.at == from {
            return self.fault("digits after the point");
        }
        Ok((u128::from(value) * u128::from(unit.ns()) / u128::from(scale)) as u64)
    }

    /// Steps over a comma.
    #[inline]
    pub fn comma(&mut self) -> Parsed<()> {
        match self.peek() {
            Some(b',') => self.at += 1,
            _ => return self.fault("a comma"),
        }
        Ok(())
    }

    /// Steps over spaces and tabs, if there are any.
    #[inline]
    pub fn spaces(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Steps over at least one space.
    pub fn gap(&mut self) -> Parsed<()> {
        let from = self.at;
        self.spaces();
        if self.at == from { self.fault("a space") } else { Ok(()) }
    }

    /// What stands before the next space, comma or end; at least one byte.
    #[inline]
    pub fn word(&mut self, expected: &'static str) -> Parsed<&'a [u8]> {
        let from = self.at;
        while !matches!(self.peek(), None | Some(b' ' | b'\t' | b',' | b'\r' | b'\n')) {
            self.at += 1;
        }
        let word = &self.bytes[from..self.at];
        if word.is_empty() { self.fault(expected) } else { Ok(word) }
    }

    /// Steps over the end of the line; a file's last line may lack it.
    #[inline]
    pub fn line_end(&mut self) -> Parsed<()> {
        if self.peek() == Some(b'\r') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'\n') => self.at += 1,
            None if self.bytes.len() < MAX_LINE => {}
            _ => return self.fault("the end of the line"),
        }
        Ok(())
    }

    /// Steps over the rest of the line, whatever it is.
    #[inline]
    pub fn skip_line(&mut self) -> Parsed<()> {
        let rest = &self.bytes[self.at..];
        match rest.iter().position(|&byte| byte == b'\n') {
            Some(end) => self.at += end + 1,
            None if self.bytes.len() < MAX_LINE => self.at = self.bytes.len(),
            None => return self.fault("a line of less than 1024 bytes"),
        }
        Ok(())
    }
}

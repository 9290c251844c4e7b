//! Parser for the fields of one line, from left to right.

use hostftl_core::SECTOR;

use crate::record::{Op, Record};
use crate::unit::Unit;

/// Maximum length of a line in bytes. A parser may look beyond the end of the line, but not further
/// than this.
pub(crate) const MAX_LINE: usize = 1024;
/// Number of digits that always fits into 64 bits.
const MAX_DIGITS: usize = 19;
/// Number of significant digits after a point. The fraction times a second in nanoseconds still
/// fits into 64 bits.
const MAX_FRACTION: usize = 9;

/// Expected content of a line, and its column, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Column.
    pub at: usize,
    /// Expected content.
    pub expected: &'static str,
}

/// A parsed part of a line, or its error.
pub(crate) type Parsed<T> = Result<T, Fault>;

/// A request as parsed from a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Request in whole sectors.
    pub record: Record,
    /// Whether it had to be extended to whole sectors.
    pub widened: bool,
}

impl Found {
    /// Makes a flush.
    pub(crate) fn flush(t_ns: u64, dev: u32) -> Self {
        Found { record: Record::flush(t_ns, dev), widened: false }
    }

    /// Makes a request of `bytes` bytes, above 0, from byte `offset` on. Both have at most 19
    /// digits.
    #[inline]
    pub(crate) fn bytes(t_ns: u64, op: Op, dev: u32, offset: u64, bytes: u64) -> Self {
        let sector = SECTOR as u64;
        let (lba, before) = (offset / sector, offset % sector);
        let sectors = (before + bytes).div_ceil(sector);
        let widened = !(before == 0 && bytes.is_multiple_of(sector));
        Found { record: Record::new(t_ns, op, dev, lba, sectors), widened }
    }
}

/// Position of the parser in a line.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    /// Column of the next byte, from 0.
    pub at: usize,
}

impl<'a> Fields<'a> {
    /// Makes a parser of the line at the start of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes: &bytes[..bytes.len().min(MAX_LINE)], at: 0 }
    }

    /// Returns the next byte.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Returns an error at the present position.
    pub(crate) fn fault<T>(&self, expected: &'static str) -> Parsed<T> {
        Err(Fault { at: self.at, expected })
    }

    /// Returns whether the line ends here.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.peek(), None | Some(b'\n' | b'\r'))
    }

    /// Returns the rest of the line without its end.
    pub(crate) fn rest(&self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Returns the text that was parsed from column `from` on.
    pub(crate) fn rest_from(&self, from: usize) -> &'a [u8] {
        &self.bytes[from..self.at]
    }

    /// Parses digits. Returns the number and the count of digits, of which at most `most`, up to
    /// 19, are consumed.
    #[inline(always)]
    fn digits(&mut self, most: usize) -> (u64, usize) {
        let (mut value, mut count) = (0u64, 0);
        for byte in self.bytes[self.at..].iter().take(most) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            // 19 digits cannot overflow. The unchecked arithmetic matters, because this loop is
            // most of the time of reading a trace.
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            count += 1;
        }
        self.at += count;
        (value, count)
    }

    /// Parses a whole number of at most 19 digits.
    #[inline]
    pub(crate) fn number(&mut self, expected: &'static str) -> Parsed<u64> {
        let from = self.at;
        let (value, count) = self.digits(MAX_DIGITS);
        match count {
            0 => Err(Fault { at: from, expected }),
            MAX_DIGITS if self.peek().is_some_and(|byte| byte.is_ascii_digit()) => {
                Err(Fault { at: from, expected: "a number of at most 19 digits" })
            }
            _ => Ok(value),
        }
    }

    /// Parses a number below 2^32.
    #[inline]
    pub(crate) fn small(&mut self, expected: &'static str) -> Parsed<u32> {
        let at = self.at;
        u32::try_from(self.number(expected)?)
            .map_err(|_| Fault { at, expected: "a number below 2^32" })
    }

    /// Parses a placement id.
    #[inline]
    pub(crate) fn placement(&mut self) -> Parsed<u8> {
        let (at, expected) = (self.at, "a placement id, 0 to 255");
        u8::try_from(self.number(expected)?).map_err(|_| Fault { at, expected })
    }

    /// Parses a time in `unit` with an optional fraction, and returns nanoseconds.
    #[inline]
    pub(crate) fn time(&mut self, unit: Unit) -> Parsed<u64> {
        let from = self.at;
        let whole = self.number(unit.expected())?;
        let too_late =
            Fault { at: from, expected: "a time below 584 years, or another unit as in :time=ns" };
        let nanos = whole.checked_mul(unit.ns()).ok_or(too_late)?;
        match self.peek() {
            Some(b'.') => nanos.checked_add(self.fraction(unit)?).ok_or(too_late),
            _ => Ok(nanos),
        }
    }

    /// Parses the digits after a point, and returns nanoseconds. Digits after the ninth are
    /// ignored.
    #[inline]
    fn fraction(&mut self, unit: Unit) -> Parsed<u64> {
        self.at += 1;
        let (value, count) = self.digits(MAX_FRACTION);
        if count == 0 {
            return self.fault("digits after the point");
        }
        if count == MAX_FRACTION {
            while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                self.at += 1;
            }
        }
        let scale = 10u64.pow(count as u32);
        Ok(value * unit.ns() / scale)
    }

    /// Consumes a comma.
    #[inline]
    pub(crate) fn comma(&mut self) -> Parsed<()> {
        match self.peek() {
            Some(b',') => self.at += 1,
            _ => return self.fault("a comma"),
        }
        Ok(())
    }

    /// Consumes spaces and tabs, if there are any.
    #[inline]
    pub(crate) fn spaces(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Consumes at least one space.
    pub(crate) fn gap(&mut self) -> Parsed<()> {
        let from = self.at;
        self.spaces();
        if self.at == from { self.fault("a space") } else { Ok(()) }
    }

    /// Parses a word of at least one byte, up to the next space, comma or end.
    #[inline]
    pub(crate) fn word(&mut self, expected: &'static str) -> Parsed<&'a [u8]> {
        let from = self.at;
        while !matches!(self.peek(), None | Some(b' ' | b'\t' | b',' | b'\r' | b'\n')) {
            self.at += 1;
        }
        let word = &self.bytes[from..self.at];
        if word.is_empty() { self.fault(expected) } else { Ok(word) }
    }

    /// Consumes the end of the line, which can be absent in the last line of a file.
    #[inline]
    pub(crate) fn line_end(&mut self) -> Parsed<()> {
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

    /// Skips the rest of the line.
    #[inline]
    pub(crate) fn skip_line(&mut self) -> Parsed<()> {
        let rest = &self.bytes[self.at..];
        match rest.iter().position(|&byte| byte == b'\n') {
            Some(end) => self.at += end + 1,
            None if self.bytes.len() < MAX_LINE => self.at = self.bytes.len(),
            None => return self.fault("a line of less than 1024 bytes"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_are_read_with_any_following_text() {
        for digits in 1..=19 {
            let text: String = "9182736450192837465".chars().take(digits).collect();
            for behind in ["", ",", ",12", "x", "/0000000000", ":::::::::", ".5", "\n", "\u{ff}0"] {
                let line = format!("{text}{behind}");
                let mut fields = Fields::new(line.as_bytes());
                assert_eq!(fields.number(""), Ok(text.parse().unwrap()), "{line}");
                assert_eq!(fields.at, digits);
            }
            let line = format!("{}, and on", "0".repeat(digits));
            let mut padded = Fields::new(line.as_bytes());
            assert_eq!((padded.number(""), padded.at), (Ok(0), digits));
        }
        for wrong in
            ["", ",1", "-1", "/", ":", "NaN", "01234567890123456789", "99999999999999999999"]
        {
            for behind in ["", ", and so on"] {
                assert!(Fields::new(format!("{wrong}{behind}").as_bytes()).number("").is_err());
            }
        }
    }

    #[test]
    fn fractions_count_to_the_nanosecond() {
        let time = |text: &str, unit| Fields::new(text.as_bytes()).time(unit);
        assert_eq!(time("1.5,", Unit::Micros), Ok(1_500));
        assert_eq!(time("0.123456789", Unit::Seconds), Ok(123_456_789));
        assert_eq!(time("0.1234567899999999999999999,W", Unit::Seconds), Ok(123_456_789));
        assert_eq!(time("18446744073.709551615", Unit::Seconds), Ok(u64::MAX));
        assert!(time("18446744073.709551616", Unit::Seconds).is_err());
        assert!(time("1.", Unit::Seconds).is_err());
    }
}

//! This project's text format: `t_us,[dev,]op,byte_off,byte_len[,saved]`, one request per line.
//!
//! The first line may be the header. The number of its commas determines whether there is a `dev`
//! column, and whether there is also a `saved` column: the percentage that compression of a write
//! saves, or nothing. `op` is R, W, F(lush) or D(iscard). `t_us` may have a fraction.

use super::fields::{Fault, Fields, Found, Parsed};
use crate::left::LeftOut;
use crate::record::Op;
use crate::unit::Unit;

/// Header without devices.
pub(crate) const HEADER: &str = "t_us,op,byte_off,byte_len";
/// Header with devices.
pub(crate) const HEADER_DEV: &str = "t_us,dev,op,byte_off,byte_len";

/// Header with devices and compressibility.
pub(crate) const HEADER_SAVED: &str = "t_us,dev,op,byte_off,byte_len,saved";
/// Expected content in the error for an invalid number.
const SAVED: &str = "the percentage that compression saves, 0 to 100";

/// Columns as determined by the first line.
pub(crate) struct Own {
    has_dev: bool,
    /// Whether any line can have a compressibility.
    has_saved: bool,
    /// Whether the lines at the cursor have a column for it.
    has_column: bool,
}

impl Own {
    /// Makes a parser; the first line of `head` determines the columns.
    pub(crate) fn new(head: &[u8]) -> Self {
        let first = Fields::new(head).rest();
        let commas = first.iter().filter(|&&byte| byte == b',').count();
        let has_saved = commas == 5;
        Own { has_dev: commas == 4 || has_saved, has_saved, has_column: has_saved }
    }

    /// Returns whether there is a column for compressibility.
    pub(crate) fn has_saved(&self) -> bool {
        self.has_saved
    }

    /// Parses the request of one line.
    #[inline]
    pub(crate) fn record(
        &mut self,
        line: &mut Fields<'_>,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        if line.peek() == Some(b't') && is_header(line.rest()) {
            return self.header(line);
        }
        let t_ns = line.time(unit)?;
        let mut dev = 0;
        if self.has_dev {
            line.comma()?;
            dev = line.small("a device number")?;
        }
        line.comma()?;
        let op = op(line)?;
        line.comma()?;
        let offset = line.number("a byte offset")?;
        line.comma()?;
        let bytes = line.number("a length in bytes")?;
        let saved = if self.has_column { saved(line, op)? } else { None };
        line.line_end()?;
        if op == Op::Flush {
            return Ok(Some(Found::flush(t_ns, dev)));
        }
        if bytes == 0 {
            left.dropped("requests of length 0");
            return Ok(None);
        }
        let mut found = Found::bytes(t_ns, op, dev, offset, bytes);
        found.record.saved = saved;
        Ok(Some(found))
    }
}

impl Own {
    /// Consumes a header. In concatenated files it can have other columns than the first one.
    #[cold]
    fn header(&mut self, line: &mut Fields<'_>) -> Parsed<Option<Found>> {
        let here = Own::new(line.rest());
        if here.has_saved && !self.has_saved {
            return line.fault("no column for compression, because the first line has none");
        }
        *self = Own { has_saved: self.has_saved, ..here };
        line.skip_line()?;
        Ok(None)
    }
}

/// Returns whether `line` is a header.
pub(crate) fn is_header(line: &[u8]) -> bool {
    [HEADER, HEADER_DEV, HEADER_SAVED].iter().any(|header| line == header.as_bytes())
}

/// Parses a comma and the percentage that compression of a write saves. The field is empty for
/// other operations.
#[inline]
fn saved(line: &mut Fields<'_>, op: Op) -> Parsed<Option<u8>> {
    line.comma()?;
    if line.is_end() {
        return Ok(None);
    }
    let at = line.at;
    let percent = line.number(SAVED)?;
    let is_sound = percent <= 100 && op == Op::Write;
    let expected =
        if op == Op::Write { SAVED } else { "nothing, because only writes are compressed" };
    if is_sound { Ok(Some(percent as u8)) } else { Err(Fault { at, expected }) }
}

#[inline]
fn op(line: &mut Fields<'_>) -> Parsed<Op> {
    let op = match line.peek() {
        Some(b'R') => Op::Read,
        Some(b'W') => Op::Write,
        Some(b'F') => Op::Flush,
        Some(b'D') => Op::Discard,
        _ => return line.fault("R, W, F or D"),
    };
    line.at += 1;
    Ok(op)
}

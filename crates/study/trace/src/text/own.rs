//! This project's text format: `t_us,[dev,]op,byte_off,byte_len[,saved][,placement]`, one request
//! per line.
//!
//! The first line may be the header. Without one, the number of commas determines the columns:
//! `dev` is there from four on, `saved` from five on, and `placement` with six. `saved` is the
//! percentage that compression of a write saves, and `placement` its placement id; both can be
//! empty. `op` is R, W, F(lush) or D(iscard). `t_us` may have a fraction.

use super::fields::{Fault, Fields, Found, Parsed};
use crate::left::LeftOut;
use crate::record::{Extras, Op};
use crate::unit::Unit;

/// Header without devices.
pub(crate) const HEADER: &str = "t_us,op,byte_off,byte_len";
/// Header with devices.
pub(crate) const HEADER_DEV: &str = "t_us,dev,op,byte_off,byte_len";
/// Names of the optional columns.
const SAVED_COLUMN: &str = ",saved";
const PLACEMENT_COLUMN: &str = ",placement";
/// Expected content in the error for an invalid number.
const SAVED: &str = "the percentage that compression saves, 0 to 100";

/// Columns as determined by the first line.
pub(crate) struct Own {
    has_dev: bool,
    /// Optional columns of the first lines.
    extras: Extras,
    /// Optional columns of the lines at the cursor.
    here: Extras,
}

impl Own {
    /// Makes a parser; the first line of `head` determines the columns.
    pub(crate) fn new(head: &[u8]) -> Self {
        let first = Fields::new(head).rest();
        let commas = first.iter().filter(|&&byte| byte == b',').count();
        let of_header = all_extras().find(|extras| header(*extras).as_bytes() == first);
        let extras = of_header
            .unwrap_or(Extras { saved: commas == 5 || commas == 6, placement: commas == 6 });
        Own { has_dev: (4..=6).contains(&commas), extras, here: extras }
    }

    /// Returns the optional columns.
    pub(crate) fn extras(&self) -> Extras {
        self.extras
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
        let saved = if self.here.saved { saved(line, op)? } else { None };
        let placement = if self.here.placement { placement(line, op)? } else { 0 };
        line.line_end()?;
        if op == Op::Flush {
            return Ok(Some(Found::flush(t_ns, dev)));
        }
        if bytes == 0 {
            left.dropped("requests of length 0");
            return Ok(None);
        }
        let mut found = Found::bytes(t_ns, op, dev, offset, bytes);
        (found.record.saved, found.record.placement) = (saved, placement);
        Ok(Some(found))
    }
}

impl Own {
    /// Consumes a header. In concatenated files it can have other columns than the first one.
    #[cold]
    fn header(&mut self, line: &mut Fields<'_>) -> Parsed<Option<Found>> {
        let here = Own::new(line.rest());
        if here.extras.saved && !self.extras.saved {
            return line.fault("no column for compression, because the first line has none");
        }
        if here.extras.placement && !self.extras.placement {
            return line.fault("no column for placement ids, because the first line has none");
        }
        *self = Own { extras: self.extras, ..here };
        line.skip_line()?;
        Ok(None)
    }
}

/// Returns whether `line` is a header.
pub(crate) fn is_header(line: &[u8]) -> bool {
    line == HEADER.as_bytes() || all_extras().any(|extras| line == header(extras).as_bytes())
}

/// Returns the header of a file with devices and these columns.
pub(crate) fn header(extras: Extras) -> String {
    let column = |name: &'static str, is_there: bool| if is_there { name } else { "" };
    let saved = column(SAVED_COLUMN, extras.saved);
    format!("{HEADER_DEV}{saved}{}", column(PLACEMENT_COLUMN, extras.placement))
}

/// Returns all combinations of the optional columns.
fn all_extras() -> impl Iterator<Item = Extras> {
    (0..4).map(|bits| Extras { saved: bits & 1 > 0, placement: bits & 2 > 0 })
}

/// Parses a comma and the percentage that compression of a write saves. The field is empty for
/// other operations.
#[inline]
fn saved(line: &mut Fields<'_>, op: Op) -> Parsed<Option<u8>> {
    line.comma()?;
    if line.is_end() || line.peek() == Some(b',') {
        return Ok(None);
    }
    let at = line.at;
    let percent = line.number(SAVED)?;
    let is_sound = percent <= 100 && op == Op::Write;
    let expected =
        if op == Op::Write { SAVED } else { "nothing, because only writes are compressed" };
    if is_sound { Ok(Some(percent as u8)) } else { Err(Fault { at, expected }) }
}

/// Parses a comma and the placement id of a write. The field is empty for other operations.
#[inline]
fn placement(line: &mut Fields<'_>, op: Op) -> Parsed<u8> {
    line.comma()?;
    if line.is_end() {
        return Ok(0);
    }
    let (at, placement) = (line.at, line.placement()?);
    let expected = "nothing, because only writes have a placement id";
    if op == Op::Write { Ok(placement) } else { Err(Fault { at, expected }) }
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

//! This project's own text: `t_us,[dev,]op,byte_off,byte_len[,saved]`, a request a line.
//!
//! The first line may be the header. The number of its commas tells whether there is a `dev`
//! column, and whether there is also a `saved` column: the per cent that compressing a write saves,
//! or nothing. `op` is R, W, F(lush) or D(iscard). `t_us` may have a fraction.

use super::fields::{Fault, Fields, Found, Parsed};
use crate::record::Op;
use crate::unit::Unit;

/// The header without devices.
pub const HEADER: &str = "t_us,op,byte_off,byte_len";
/// The header with devices.
pub const HEADER_DEV: &str = "t_us,dev,op,byte_off,byte_len";

/// The header with devices and what compression saves.
pub const HEADER_SAVED: &str = "t_us,dev,op,byte_off,byte_len,saved";
/// What stands there after a wrong number.
const SAVED: &str = "per cent that compression saves, 0 to 100";

/// What the first line tells.
pub struct Own {
    has_dev: bool,
    has_saved: bool,
}

impl Own {
    /// Looks at the first line of `head`.
    pub fn new(head: &[u8]) -> Self {
        let first = Fields::new(head).rest();
        let commas = first.iter().filter(|&&byte| byte == b',').count();
        Own { has_dev: commas == 4 || commas == 5, has_saved: commas == 5 }
    }

    /// Whether there is a column for what compression saves.
    pub fn has_saved(&self) -> bool {
        self.has_saved
    }

    /// The request of one line.
    #[inline]
    pub fn record(&self, line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
        if line.peek() == Some(b't') && is_header(line.rest()) {
            line.skip_line()?;
            return Ok(None);
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
        let at = line.at;
        let bytes = line.number("a length in bytes")?;
        let saved = if self.has_saved { saved(line, op)? } else { None };
        line.line_end()?;
        if op == Op::Flush {
            return Ok(Some(Found::flush(t_ns, dev)));
        }
        if bytes == 0 {
            return Err(Fault { at, expected: "a length above 0" });
        }
        let mut found = Found::bytes(t_ns, op, dev, offset, bytes);
        found.record.saved = saved;
        Ok(Some(found))
    }
}

/// Whether `line` names the columns.
pub fn is_header(line: &[u8]) -> bool {
    [HEADER, HEADER_DEV, HEADER_SAVED].iter().any(|header| line == header.as_bytes())
}

/// A comma, and what compressing a write saves; nothing stands there for all others.
#[inline]
fn saved(line: &mut Fields<'_>, op: Op) -> Parsed<Option<u8>> {
    line.comma()?;
    if line.is_end() {
        return Ok(None);
    }
    let at = line.at;
    let percent = line.number(SAVED)?;
    let is_sound = percent <= 100 && op == Op::Write;
    let expected = if op == Op::Write { SAVED } else { "nothing, for only writes are compressed" };
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

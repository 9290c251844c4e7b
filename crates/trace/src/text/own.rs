//! This project's own text: `t_us,[dev,]op,byte_off,byte_len`, a request a line.
//!
//! The first line may be the header, which also tells whether there is a `dev` column; without it
//! the number of commas does. `op` is R, W, F(lush) or D(iscard). `t_us` may have a fraction.

use super::fields::{Fault, Fields, Found, Parsed};
use crate::record::Op;
use crate::unit::Unit;

/// The header without devices.
pub const HEADER: &str = "t_us,op,byte_off,byte_len";
/// The header with devices.
pub const HEADER_DEV: &str = "t_us,dev,op,byte_off,byte_len";

/// What the first line tells.
pub struct Own {
    has_dev: bool,
}

impl Own {
    /// Looks at the first line of `head`.
    pub fn new(head: &[u8]) -> Self {
        let first = Fields::new(head).rest();
        Own { has_dev: first.iter().filter(|&&byte| byte == b',').count() == 4 }
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
        line.line_end()?;
        if op == Op::Flush {
            return Ok(Some(Found::flush(t_ns, dev)));
        }
        if bytes == 0 {
            return Err(Fault { at, expected: "a length above 0" });
        }
        Ok(Some(Found::bytes(t_ns, op, dev, offset, bytes)))
    }
}

/// Whether `line` names the columns.
pub fn is_header(line: &[u8]) -> bool {
    line == HEADER.as_bytes() || line == HEADER_DEV.as_bytes()
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

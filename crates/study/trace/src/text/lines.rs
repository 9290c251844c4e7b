//! Reader of a text, line by line.

use std::io;

use super::fields::{Fault, Fields, Found, MAX_LINE};
use super::{Text, lost};
use crate::cursor::{Bad, Cursor, Trouble};

/// Bytes that some editors insert at the start of a text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines of one format.
pub(crate) struct Lines(pub Text);

impl Lines {
    /// Returns the next request. The cursor stays at an invalid line.
    #[inline]
    pub(crate) fn next(&mut self, cursor: &mut Cursor) -> Result<Option<Found>, Trouble> {
        if let Some(found) = self.0.pending() {
            return Ok(Some(found));
        }
        loop {
            cursor.window.has(MAX_LINE)?;
            if cursor.window.bytes().is_empty() {
                return Ok(None);
            }
            cursor.step();
            let mut line = Fields::new(cursor.window.bytes());
            let parsed = match line.peek() {
                Some(b'\n' | b'\r') => line.line_end().map(|()| None),
                _ => self.0.record(&mut line, cursor.unit, &mut cursor.left),
            };
            let fault = |found: Option<Found>| found.and_then(|found| found.record.fault());
            match parsed {
                Ok(found) if fault(found).is_some() => {
                    let expected = fault(found).unwrap_or_default();
                    return Err(bad(cursor, Fault { at: 0, expected }).into());
                }
                Ok(found) => {
                    let length = line.at;
                    cursor.window.consume(length);
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Err(_) if cursor.window.bytes().starts_with(BYTE_ORDER_MARK) => {
                    // A file that was appended to this one begins with its own mark.
                    cursor.window.consume(BYTE_ORDER_MARK.len());
                    cursor.line -= 1;
                }
                Err(_) if is_message(cursor) => self.skip(cursor)?,
                Err(fault) => return Err(bad(cursor, fault).into()),
            }
        }
    }

    /// Skips the line at the cursor.
    pub(crate) fn skip(&mut self, cursor: &mut Cursor) -> io::Result<()> {
        loop {
            cursor.window.has(MAX_LINE)?;
            let bytes = cursor.window.bytes();
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let (length, is_over) =
                end.map_or((bytes.len(), bytes.is_empty()), |at| (at + 1, true));
            cursor.window.consume(length);
            if is_over {
                return Ok(());
            }
        }
    }
}

/// Returns whether the line at the cursor, which is not a request, is a recorder's message about
/// lost events. Counts these events.
#[cold]
fn is_message(cursor: &mut Cursor) -> bool {
    let line = Fields::new(cursor.window.bytes()).rest();
    let begins = |byte: &u8| byte.is_ascii_alphabetic() || b"[#*".contains(byte);
    if !line.trim_ascii_start().first().is_some_and(begins) {
        return false;
    }
    let lost = lost::events(line);
    cursor.left.lost(lost.unwrap_or(0));
    lost.is_some()
}

#[cold]
fn bad(cursor: &Cursor, fault: Fault) -> Bad {
    let rest = &cursor.window.bytes()[fault.at..];
    let length = rest.iter().position(|byte| b", \t\r\n".contains(byte)).unwrap_or(rest.len());
    let found = match rest.first() {
        None => "the end of the file".to_owned(),
        Some(b'\n' | b'\r') => "the end of the line".to_owned(),
        Some(b',') => "','".to_owned(),
        Some(b' ' | b'\t') => "a space".to_owned(),
        Some(_) => format!("'{}'", rest[..length.min(24)].escape_ascii()),
    };
    Bad { column: fault.at + 1, expected: fault.expected, found }
}

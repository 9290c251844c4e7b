//! Reader of the frames of this project's binary format.

use super::packed::{Base, Frame, HEAD};
use crate::cursor::{Bad, Cursor, Trouble};
use crate::record::Extras;
use crate::text::fields::Found;

/// State of the frame that is being read.
pub(crate) struct Frames {
    /// Optional fields of writes.
    extras: Extras,
    base: Base,
    /// Remaining records of the frame.
    records: u32,
    /// Remaining bytes of the frame.
    bytes: usize,
    /// Whether the final frame was read.
    over: bool,
}

impl Frames {
    /// Makes a reader of a file whose writes have these fields.
    pub(crate) fn new(extras: Extras) -> Self {
        Frames { extras, base: Base::new(extras), records: 0, bytes: 0, over: false }
    }

    /// Returns the optional fields of writes.
    pub(crate) fn extras(&self) -> Extras {
        self.extras
    }

    /// Returns the next request. The cursor stays at a bad record.
    #[inline]
    pub(crate) fn next(&mut self, cursor: &mut Cursor) -> Result<Option<Found>, Trouble> {
        while self.records == 0 {
            if self.over {
                return Ok(None);
            }
            self.frame(cursor)?;
        }
        cursor.step();
        match self.base.read(&cursor.window.bytes()[..self.bytes]) {
            Some((record, length)) => {
                self.records -= 1;
                self.bytes -= length;
                cursor.window.consume(length);
                if self.records == 0 && self.bytes > 0 {
                    return Err(bad("the end of a frame", "bytes after the last record"));
                }
                Ok(Some(Found { record, widened: false }))
            }
            None => Err(bad("a record", "invalid bytes")),
        }
    }

    /// Opens the frame at the cursor.
    fn frame(&mut self, cursor: &mut Cursor) -> Result<(), Trouble> {
        if !cursor.window.has(HEAD)? {
            return Err(bad("the final frame", "the end of the file (truncated)"));
        }
        let frame = Frame::parse(&cursor.window.bytes()[..HEAD])
            .ok_or_else(|| bad("the head of a frame", "invalid bytes"))?;
        if !cursor.window.has(HEAD + frame.payload)? {
            return Err(bad("a whole frame", "the end of the file (truncated)"));
        }
        let payload = &cursor.window.bytes()[HEAD..HEAD + frame.payload];
        if !frame.is_intact(payload) {
            return Err(bad("a frame with the checksum of its head", "another checksum"));
        }
        if frame.records == 0 {
            let total = payload.try_into().map(u64::from_le_bytes).ok();
            if total != Some(cursor.line) {
                self.over = true;
                return Err(bad("the number of records in the final frame", "another number"));
            }
            self.over = true;
            return Ok(());
        }
        cursor.window.consume(HEAD);
        let base = Base::new(self.extras);
        (self.base, self.records, self.bytes) = (base, frame.records, frame.payload);
        Ok(())
    }

    /// Skips the rest of the frame at the cursor. Without an intact frame head it skips to the end
    /// of the file.
    pub(crate) fn skip(&mut self, cursor: &mut Cursor) {
        let mut length = self.bytes;
        cursor.line += u64::from(self.records);
        if length == 0 {
            let head = cursor.window.bytes();
            let frame = if head.len() < HEAD { None } else { Frame::parse(&head[..HEAD]) };
            length = frame.map_or(usize::MAX, |frame| HEAD + frame.payload);
            cursor.line += frame.map_or(0, |frame| u64::from(frame.records));
        }
        (self.records, self.bytes) = (0, 0);
        self.over |= length > cursor.window.bytes().len();
        cursor.window.consume(length.min(cursor.window.bytes().len()));
    }
}

#[cold]
fn bad(expected: &'static str, found: &str) -> Trouble {
    Bad { column: 0, expected, found: found.to_owned() }.into()
}

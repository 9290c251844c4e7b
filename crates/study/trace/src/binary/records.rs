//! Reader of records of constant length.

use super::fixed::Fixed;
use crate::cursor::{Bad, Cursor, Trouble};
use crate::text::fields::Found;

/// The records of one format.
pub(crate) struct Records(pub Fixed);

impl Records {
    /// Returns the next request. The cursor stays at a bad record.
    #[inline]
    pub(crate) fn next(&mut self, cursor: &mut Cursor) -> Result<Option<Found>, Trouble> {
        let size = self.0.size();
        loop {
            let is_whole = cursor.window.has(size)?;
            if cursor.window.bytes().is_empty() {
                return Ok(None);
            }
            cursor.step();
            let rest = cursor.window.bytes();
            if !is_whole {
                let found = format!("{} of {size} bytes", rest.len());
                return Err(Bad { column: 0, expected: "a whole record", found }.into());
            }
            let found = self.0.record(&rest[..size], cursor.unit, &mut cursor.left)?;
            cursor.window.consume(size);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Skips the record at the cursor.
    pub(crate) fn skip(&mut self, cursor: &mut Cursor) {
        let length = self.0.size().min(cursor.window.bytes().len());
        cursor.window.consume(length);
    }
}

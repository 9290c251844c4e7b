//! Position of a reader in a file, and errors at that position.

use std::io;

use crate::left::LeftOut;
use crate::unit::Unit;
use crate::window::Window;

/// A file's bytes and the progress of the reader.
pub(crate) struct Cursor {
    /// Bytes from the position on.
    pub window: Window,
    /// Unit of the file's times.
    pub unit: Unit,
    /// Number of the last line, or in binary formats of the last record, that was read; from 1.
    pub line: u64,
    /// Lines and records that were not passed on.
    pub left: LeftOut,
}

impl Cursor {
    /// Makes a cursor at the start of a file's bytes.
    pub(crate) fn new(window: Window, unit: Unit) -> Self {
        Cursor { window, unit, line: 0, left: LeftOut::default() }
    }

    /// Advances to the next line or record.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.line += 1;
        self.left.line = self.line;
    }
}

/// Reason why there is no request at the position.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The file cannot be read.
    Read(io::Error),
    /// The line or record is invalid.
    Bad(Bad),
}

/// Description of an invalid line or record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// Column in bytes, from 1; 0 for a whole record.
    pub column: usize,
    /// Expected content.
    pub expected: &'static str,
    /// Content that was found.
    pub found: String,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Read(error)
    }
}

impl From<Bad> for Trouble {
    fn from(bad: Bad) -> Self {
        Trouble::Bad(bad)
    }
}

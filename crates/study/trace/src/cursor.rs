//! Where a reader stands in a file, and what may be wrong there.

use std::io;

use crate::left::LeftOut;
use crate::unit::Unit;
use crate::window::Window;

/// The file's bytes, and how much of them was read.
pub(crate) struct Cursor {
    /// The bytes from here on.
    pub window: Window,
    /// The unit of the file's times.
    pub unit: Unit,
    /// The line, or in binary formats the record, that was read last; from 1.
    pub line: u64,
    /// Everything that is not handed on.
    pub left: LeftOut,
}

impl Cursor {
    /// The beginning of a file's bytes.
    pub(crate) fn new(window: Window, unit: Unit) -> Self {
        Cursor { window, unit, line: 0, left: LeftOut::default() }
    }

    /// Goes on to the next line or record.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.line += 1;
        self.left.line = self.line;
    }
}

/// Why there is no request here.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The file can't be read on.
    Read(io::Error),
    /// What stands here is none.
    Bad(Bad),
}

/// What stands where a request should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// The column in bytes, from 1; 0 for a whole record.
    pub column: usize,
    /// What should stand there.
    pub expected: &'static str,
    /// What stands there.
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

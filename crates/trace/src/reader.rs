//! Reads a trace file of any format, record by record, with constant memory.
//!
//! Invariants:
//! - a record that is handed on has sectors unless it is a flush, and ends near 8 EiB at most;
//! - the buffer holds a whole line, record or frame before it is parsed, unless the file is over;
//! - after an error nothing more comes.

use crate::binary::fixed::Fixed;
use crate::binary::flat::{self, Flat};
use crate::binary::frames::Frames;
use crate::binary::packed;
use crate::binary::records::Records;
use crate::cursor::{Cursor, Trouble};
use crate::error::TraceError;
use crate::file::TraceFile;
use crate::format::Format;
use crate::input;
use crate::notes::{Notes, Place};
use crate::record::{Op, Record};
use crate::text::Text;
use crate::text::lines::Lines;
use crate::unit::Unit;
use crate::window::Window;

/// What some editors put before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes of an unknown file that are shown.
const SHOWN: usize = 32;

/// Reads a file.
pub struct Reader {
    file: TraceFile,
    format: Format,
    /// Whether the file is not compressed.
    is_plain: bool,
    cursor: Cursor,
    body: Body,
    notes: Notes,
    /// Rounds after this one, and what is added to the times of this one, in ns.
    rounds_left: u32,
    later_ns: u64,
    failed: bool,
}

enum Body {
    Lines(Lines),
    Records(Records),
    Frames(Frames),
    Flat(Box<Flat>),
}

impl Reader {
    /// Opens `file` and finds out its format.
    ///
    /// # Errors
    /// When the file can't be opened or read, or its format is not known.
    pub fn open(file: &TraceFile) -> Result<Self, TraceError> {
        let path = || file.path.clone();
        let (input, is_plain) =
            input::open(&file.path).map_err(|source| TraceError::Open { path: path(), source })?;
        let mut window = Window::new(input).map_err(|source| TraceError::Read {
            path: path(),
            line: 0,
            source,
        })?;
        if window.bytes().starts_with(BYTE_ORDER_MARK) {
            window.consume(BYTE_ORDER_MARK.len());
        }
        let format = file.format.or_else(|| Format::detect(window.bytes()));
        let begins = || beginning(window.bytes());
        let format =
            format.ok_or_else(|| TraceError::Unknown { path: path(), begins: begins() })?;
        let (body, unit) = body(file, format, window.bytes())
            .ok_or_else(|| TraceError::NotThat { path: path(), format })?;
        match format {
            Format::Packed => window.consume(packed::HEADER),
            Format::Flat => window.consume(flat::HEADER),
            _ => {}
        }
        let cursor = Cursor { window, unit: file.time.unwrap_or(unit), line: 0 };
        let notes = Notes::new(cursor.unit, file);
        let file = TraceFile { format: Some(format), ..file.clone() };
        let rounds_left = file.rounds - 1;
        let later_ns = 0;
        Ok(Reader {
            file,
            format,
            is_plain,
            cursor,
            body,
            notes,
            rounds_left,
            later_ns,
            failed: false,
        })
    }

    /// The format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether reading it once more costs next to nothing: it is flat, and not compressed.
    pub fn is_flat(&self) -> bool {
        self.format == Format::Flat && self.is_plain
    }

    /// Whether writes may say how well they compress.
    pub fn has_saved(&self) -> bool {
        match &self.body {
            Body::Lines(Lines(Text::Own(own))) => own.has_saved(),
            Body::Frames(frames) => frames.has_saved(),
            Body::Flat(flat) => flat.has_saved(),
            _ => false,
        }
    }

    /// What was noticed so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    #[inline]
    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            let found = match &mut self.body {
                Body::Lines(lines) => lines.next(&mut self.cursor),
                Body::Records(records) => records.next(&mut self.cursor),
                Body::Frames(frames) => frames.next(&mut self.cursor),
                Body::Flat(flat) => flat.next(&mut self.cursor),
            };
            let found = match found {
                Ok(Some(found)) => found,
                Ok(None) if self.again()? => continue,
                Ok(None) => return Ok(None),
                Err(trouble) => {
                    self.skip(trouble)?;
                    continue;
                }
            };
            let mut record = found.record;
            record.t_ns = record.t_ns.saturating_add(self.later_ns);
            if record.op != Op::Flush && self.file.shift > 0 {
                record.lba += self.file.shift;
                self.check_shifted(&record)?;
            }
            if let Some(dev) = self.file.dev {
                if record.dev != dev {
                    self.notes.others += 1;
                    continue;
                }
                record.dev = 0;
            }
            self.notes.widened += u64::from(found.widened);
            self.notes.record(&record, self.cursor.line);
            return Ok(Some(record));
        }
    }

    /// Whether a device could be asked for a record still, now that it is shifted.
    fn check_shifted(&self, record: &Record) -> Result<(), TraceError> {
        let Some(expected) = record.fault() else { return Ok(()) };
        let (text, line) = (self.file.to_string(), self.cursor.line);
        let why = format!("shift= moves request {line} out of {expected}; use a smaller shift");
        Err(TraceError::Options { text, why })
    }

    /// Begins the next round, if there is one: its first request comes a mean gap after the last.
    #[cold]
    fn again(&mut self) -> Result<bool, TraceError> {
        if self.rounds_left == 0 || self.notes.records() == 0 {
            return Ok(false);
        }
        self.rounds_left -= 1;
        let fresh = Reader::open(&self.file)?;
        (self.cursor, self.body) = (fresh.cursor, fresh.body);
        self.later_ns = self.notes.round_ns().saturating_add(self.later_ns);
        Ok(true)
    }

    /// Steps over what is bad if the user wants that; otherwise it is an error.
    #[cold]
    fn skip(&mut self, trouble: Trouble) -> Result<(), TraceError> {
        let (path, line) = (self.file.path.clone(), self.cursor.line);
        let bad = match trouble {
            Trouble::Read(source) => return Err(TraceError::Read { path, line, source }),
            Trouble::Bad(bad) => bad,
        };
        if !self.file.skip_bad {
            let (column, expected, found) = (bad.column, bad.expected, bad.found);
            return Err(match self.body {
                Body::Lines(_) => TraceError::Line { path, line, column, expected, found },
                _ => TraceError::Record { path, record: line, expected, found },
            });
        }
        self.notes.skip(Place { line, column: bad.column }, bad.expected);
        match &mut self.body {
            Body::Lines(lines) => lines.skip(&mut self.cursor),
            Body::Records(records) => {
                records.skip(&mut self.cursor);
                Ok(())
            }
            Body::Frames(frames) => {
                frames.skip(&mut self.cursor);
                Ok(())
            }
            Body::Flat(flat) => {
                flat.skip(&mut self.cursor);
                Ok(())
            }
        }
        .map_err(|source| TraceError::Read { path, line, source })
    }
}

/// The beginning of the first line of `head`, readable whatever it is.
fn beginning(head: &[u8]) -> String {
    let line = head.split(|byte| b"\r\n".contains(byte)).next().unwrap_or_default();
    let more = if line.len() > SHOWN { "…" } else { "" };
    format!("{}{more}", line[..line.len().min(SHOWN)].escape_ascii())
}

/// How to read `file` in `format`, and the unit of its times; nothing if `head` can't be that.
fn body(file: &TraceFile, format: Format, head: &[u8]) -> Option<(Body, Unit)> {
    if let Some(text) = Text::new(format, head) {
        return Some((Body::Lines(Lines(text)), Text::unit(format, head)));
    }
    if format == Format::Packed {
        let frames = Frames::new(packed::has_saved(head)?);
        return Some((Body::Frames(frames), Unit::Nanos));
    }
    if format == Format::Flat {
        let flat = Flat::new(flat::has_saved(head)?);
        return Some((Body::Flat(Box::new(flat)), Unit::Nanos));
    }
    let fixed = match format {
        Format::Oracle => Fixed::Oracle { op: file.op, ids: file.ids },
        _ => Fixed::vscsi(head)?,
    };
    Some((Body::Records(Records(fixed)), fixed.unit()))
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.read().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

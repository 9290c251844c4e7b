//! Reader of a trace file in any format, record by record, with constant memory.
//!
//! Invariants
//! - A returned record has sectors unless it is a flush, and ends at 8 EiB at most.
//! - The buffer has a whole line, record or frame before it is parsed, unless the file has ended.
//! - After an error the iterator ends.

use crate::binary::blktrace::Blktrace;
use crate::binary::fixed::Fixed;
use crate::binary::flat::{self, Flat};
use crate::binary::frames::Frames;
use crate::binary::packed;
use crate::binary::records::Records;
use crate::cursor::{Cursor, Trouble};
use crate::error::TraceError;
use crate::file::TraceFile;
use crate::foreign;
use crate::format::Format;
use crate::input::{self, About};
use crate::notes::{Doubt, Notes, Place};
use crate::record::{Extras, Op, Record};
use crate::text::Text;
use crate::text::lines::{BYTE_ORDER_MARK, Lines};
use crate::unit::Unit;
use crate::window::Window;

/// Bytes of an unknown file that a message shows.
const SHOWN: usize = 32;

/// A reader of a file.
pub struct Reader {
    file: TraceFile,
    format: Format,
    /// Whether the file is not compressed.
    is_plain: bool,
    cursor: Cursor,
    body: Body,
    /// Properties of the input.
    about: About,
    notes: Notes,
    /// Remaining rounds, and the offset of this round's times in ns.
    rounds_left: u32,
    later_ns: u64,
    failed: bool,
}

enum Body {
    Lines(Lines),
    Records(Records),
    Frames(Frames),
    Flat(Box<Flat>),
    Blktrace(Box<Blktrace>),
}

impl Reader {
    /// Opens `file` and detects its format.
    ///
    /// # Errors
    /// When the file cannot be opened or read, or its format is unknown.
    pub fn open(file: &TraceFile) -> Result<Self, TraceError> {
        let path = || file.path.clone();
        let file = &TraceFile { once: file.once && file.rounds == 1, ..file.clone() };
        let raw = input::open(file).map_err(|source| TraceError::Open { path: path(), source })?;
        let failed = |source| TraceError::Read { path: path(), line: 0, source };
        let input::Input { bytes, is_plain, about } = input::expand(raw).map_err(failed)?;
        let mut window = Window::new(bytes).map_err(failed)?;
        if window.bytes().starts_with(BYTE_ORDER_MARK) {
            window.consume(BYTE_ORDER_MARK.len());
        }
        let format = known(file, window.bytes())?;
        file.check(format)?;
        let (body, unit) = body(file, format, window.bytes())
            .ok_or_else(|| TraceError::NotThat { path: path(), format })?;
        match format {
            Format::Packed => window.consume(packed::HEADER),
            Format::Flat => window.consume(flat::HEADER),
            _ => {}
        }
        let cursor = Cursor::new(window, file.time.unwrap_or(unit));
        let mut notes = Notes::new(cursor.unit, file, format);
        notes.doubt_addresses(doubt(file, format));
        let file = TraceFile { format: Some(format), ..file.clone() };
        let rounds_left = file.rounds - 1;
        let later_ns = 0;
        Ok(Reader {
            file,
            format,
            is_plain,
            cursor,
            body,
            about,
            notes,
            rounds_left,
            later_ns,
            failed: false,
        })
    }

    /// Returns the format of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns whether repeated reads are cheap: the file is flat and not compressed.
    pub fn is_flat(&self) -> bool {
        self.format == Format::Flat && self.is_plain
    }

    /// Returns the fields that writes can have besides the usual ones.
    pub fn extras(&self) -> Extras {
        match &self.body {
            Body::Lines(Lines(Text::Own(own))) => own.extras(),
            Body::Lines(Lines(Text::Table(table))) => table.extras(),
            Body::Frames(frames) => frames.extras(),
            Body::Flat(flat) => flat.extras(),
            _ => Extras::default(),
        }
    }

    /// Returns the notes so far.
    pub fn notes(&self) -> Notes {
        let mut remarks = self.about.remarks();
        let (more, reason) = match &self.body {
            Body::Lines(lines) => (lines.0.remarks(), lines.0.reason()),
            Body::Blktrace(events) => (events.remarks(), events.reason()),
            _ => (Vec::new(), None),
        };
        remarks.extend(more);
        let mut left = self.cursor.left.clone();
        if let Body::Blktrace(events) = &self.body {
            let (lost, line) = events.lost();
            left.line = line;
            left.lost(lost);
        }
        self.notes.with(&left, remarks, reason)
    }

    #[inline]
    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            let found = match &mut self.body {
                Body::Lines(lines) => lines.next(&mut self.cursor),
                Body::Records(records) => records.next(&mut self.cursor),
                Body::Frames(frames) => frames.next(&mut self.cursor),
                Body::Flat(flat) => flat.next(&mut self.cursor),
                Body::Blktrace(events) => events.next(&mut self.cursor),
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
                    self.notes.other(record.dev);
                    continue;
                }
                record.dev = 0;
            }
            self.notes.widened += u64::from(found.widened);
            self.notes.record(&record, self.cursor.line);
            return Ok(Some(record));
        }
    }

    /// Checks that the shifted record is still within the limits.
    fn check_shifted(&self, record: &Record) -> Result<(), TraceError> {
        let Some(expected) = record.fault() else { return Ok(()) };
        let (text, line) = (self.file.to_string(), self.cursor.line);
        let why = format!("shift= moves request {line} out of {expected}; use a smaller shift");
        Err(TraceError::Options { text, why })
    }

    /// Starts the next round, if there is one. Its first request comes a mean gap after the last
    /// request.
    #[cold]
    fn again(&mut self) -> Result<bool, TraceError> {
        if self.rounds_left == 0 || self.notes.records() == 0 {
            return Ok(false);
        }
        self.rounds_left -= 1;
        let fresh = Reader::open(&self.file)?;
        let left = std::mem::take(&mut self.cursor.left);
        (self.cursor, self.body) = (fresh.cursor, fresh.body);
        self.cursor.left = left;
        self.later_ns = self.notes.round_ns().saturating_add(self.later_ns);
        Ok(true)
    }

    /// Skips an invalid line or record if the option `skip-bad` is set. Otherwise it is an error.
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
            Body::Blktrace(events) => {
                events.skip(&mut self.cursor);
                Ok(())
            }
        }
        .map_err(|source| TraceError::Read { path, line, source })
    }
}

/// Returns the format of `file`, which begins with `head`.
fn known(file: &TraceFile, head: &[u8]) -> Result<Format, TraceError> {
    let path = || file.path.clone();
    let is_binary =
        |format| matches!(format, Format::Packed | Format::Flat | Format::Vscsi | Format::Oracle);
    if !file.format.is_some_and(is_binary) {
        if let Some((what, next)) = foreign::name(head) {
            let next = next.replace("FILE", &file.to_string());
            return Err(TraceError::Foreign { path: path(), what, next });
        }
        if Blktrace::version(head).is_some_and(|version| !Blktrace::reads(version)) {
            let (what, next) = ("blktrace of this version", "run blkparse and use its output");
            return Err(TraceError::Foreign { path: path(), what, next: next.to_owned() });
        }
    }
    let format = file.format.or_else(|| Format::detect(file, head));
    format.ok_or_else(|| TraceError::Unknown { path: path(), begins: beginning(head) })
}

/// Returns the doubt about the unit of addresses in `format`, unless an option decides it.
fn doubt(file: &TraceFile, format: Format) -> Option<Doubt> {
    let (option, with_lengths, is_settled) = match format {
        Format::DiskSim | Format::Tencent => ("addr", true, file.addresses.is_some()),
        Format::Spc => ("addr", false, file.addresses.is_some()),
        Format::Oracle | Format::CacheCsv => ("id", false, file.ids.is_some()),
        _ => return None,
    };
    (!is_settled).then_some(Doubt { option, with_lengths })
}

/// Returns the start of the first line of `head`, with escapes for unprintable bytes.
fn beginning(head: &[u8]) -> String {
    let line = head.split(|byte| b"\r\n".contains(byte)).next().unwrap_or_default();
    let more = if line.len() > SHOWN { "…" } else { "" };
    format!("{}{more}", line[..line.len().min(SHOWN)].escape_ascii())
}

/// Returns the parser of `file` in `format` and the unit of its times, or `None` if `head` is
/// impossible in that format.
fn body(file: &TraceFile, format: Format, head: &[u8]) -> Option<(Body, Unit)> {
    if let Some(text) = Text::new(file, format, head) {
        let unit = text.unit(head);
        return Some((Body::Lines(Lines(text)), unit));
    }
    if format == Format::Blktrace {
        Blktrace::version(head)?;
        let events = Blktrace::new(head, file.dev);
        return Some((Body::Blktrace(Box::new(events)), Unit::Nanos));
    }
    if format == Format::Packed {
        let frames = Frames::new(packed::extras(head)?);
        return Some((Body::Frames(frames), Unit::Nanos));
    }
    if format == Format::Flat {
        let flat = Flat::new(flat::extras(head)?);
        return Some((Body::Flat(Box::new(flat)), Unit::Nanos));
    }
    let fixed = match format {
        Format::Oracle => {
            let op = file.op.unwrap_or(Op::Read);
            Fixed::Oracle { op, ids: file.ids.unwrap_or_default() }
        }
        Format::Vscsi => Fixed::vscsi(head)?,
        _ => return None,
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

//! Tables with one request per line. Columns are separated by commas, semicolons, tabs, bars or
//! white space.
//!
//! A header with the names of the columns is skipped at every occurrence, and so are lines that
//! begin with `#`. Fields may be quoted. Columns after the described ones are ignored.

use std::collections::HashMap;

use super::events::device_number;
use super::fields::{Fault, Fields, Found, Parsed};
use super::rwbs::{Action, Rwbs};
use crate::binary::fixed::scsi;
use crate::columns::{Column, Columns, OpWords};
use crate::left::LeftOut;
use crate::record::{Extras, Op, Record};
use crate::unit::Unit;

/// Limit of addresses and lengths in bytes.
const LAST_BYTE: u64 = 1 << 63;
/// Maximum number of named devices.
const MOST_DEVICES: usize = 1 << 16;
/// Lines that may contain the header.
const HEADER_LINES: usize = 16;
/// Output of tools for the address of a request without one.
const NO_ADDRESS: [&[u8]; 2] = [b"18446744073709551615", b"-1"];
/// Number of device names that a note lists.
const MOST_NAMES: usize = 8;

/// Start and end of a field in a line.
type Span = (usize, usize);

/// A parser of tables.
pub(crate) struct Table {
    columns: Vec<Column>,
    /// Byte between two fields; a space stands for any white space.
    delimiter: u8,
    /// Whether a line may not have more fields than there are columns.
    is_exact: bool,
    ops: OpWords,
    /// Operation of every request, if no column has it.
    op: Option<Op>,
    header: Vec<u8>,
    /// Beginnings of lines that a tool prints around its table.
    prose: &'static [&'static str],
    /// Whether devices have names instead of numbers; unknown before the first device.
    by_name: Option<bool>,
    names: HashMap<Vec<u8>, u32>,
    /// Whether 0 and 1 were interpreted as a read and a write.
    has_digits: bool,
    /// Write whose flush was returned already.
    pub pending: Option<Found>,
    spans: Vec<Span>,
}

/// The relevant fields of a line.
struct Row {
    t_ns: u64,
    flushes: bool,
    op: Option<Op>,
    dev: u32,
    /// In bytes.
    offset: u64,
    /// In bytes.
    length: u64,
    placement: u8,
}

impl Table {
    /// Makes a table with these columns, separated by `delimiter`.
    pub(crate) fn new(columns: Vec<Column>, delimiter: u8) -> Self {
        Table {
            columns,
            delimiter,
            is_exact: true,
            ops: OpWords::default(),
            op: None,
            header: Vec::new(),
            prose: &[],
            by_name: None,
            names: HashMap::new(),
            has_digits: false,
            pending: None,
            spans: Vec::new(),
        }
    }

    /// Makes the table that a user describes, for a file that begins with `head`.
    pub(crate) fn described(columns: &Columns, ops: &OpWords, op: Option<Op>, head: &[u8]) -> Self {
        let columns = columns.0.clone();
        let few = columns.len();
        let mut table = Table::new(columns, b' ');
        table.delimiter = delimiter(head, few);
        (table.is_exact, table.ops, table.op) = (false, ops.clone(), op);
        table.find_header(head);
        table
    }

    /// Adds a header, the beginnings of lines that a tool prints around the table, and an operation
    /// for every request if no column has it.
    pub(crate) fn with(
        self,
        header: &[u8],
        prose: &'static [&'static str],
        op: Option<Op>,
    ) -> Self {
        Table { header: header.to_vec(), prose, op, ..self }
    }

    /// Returns the unit of its times.
    pub(crate) fn unit(&self) -> Unit {
        let time = self.columns.iter().find_map(|column| match column {
            Column::Time(unit) => Some(*unit),
            _ => None,
        });
        time.unwrap_or(Unit::Nanos)
    }

    /// Returns the optional fields of writes.
    pub(crate) fn extras(&self) -> Extras {
        Extras { saved: false, placement: self.columns.contains(&Column::Placement) }
    }

    /// Sets the header to the first line if it has words in the columns for numbers.
    fn find_header(&mut self, head: &[u8]) {
        for line in head.split(|&byte| byte == b'\n').take(HEADER_LINES) {
            let line = line.trim_ascii_end();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            self.split(line);
            let mut spans = self.spans.iter().zip(&self.columns);
            let is_wordy = |span: &Span| {
                line.get(span.0).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            };
            let is_header = spans.all(|(span, column)| match column {
                Column::Time(_) | Column::Offset(_) | Column::Length(_) | Column::Placement => {
                    is_wordy(span)
                }
                _ => true,
            });
            if is_header {
                self.header = line.to_vec();
            }
            return;
        }
    }

    /// Parses the request of one line.
    pub(crate) fn record(
        &mut self,
        line: &mut Fields<'_>,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        let text = line.rest();
        let is_header = !self.header.is_empty() && text.trim_ascii_end() == self.header;
        if is_header || text.trim_ascii().is_empty() || text.starts_with(b"#") {
            line.skip_line()?;
            return Ok(None);
        }
        if self.prose.iter().any(|begin| text.starts_with(begin.as_bytes())) {
            left.foreign("lines outside the table");
            line.skip_line()?;
            return Ok(None);
        }
        self.split(text);
        let spans = std::mem::take(&mut self.spans);
        let row = self.row(text, &spans, unit, left);
        self.spans = spans;
        let row = row?;
        line.skip_line()?;
        let Row { t_ns, flushes, op, dev, offset, length, placement } = row;
        let data = match op {
            Some(Op::Flush) => return Ok(Some(Found::flush(t_ns, dev))),
            Some(_) if length == 0 => {
                if !flushes {
                    left.dropped("requests of length 0");
                }
                None
            }
            Some(op) => {
                let mut found = Found::bytes(t_ns, op, dev, offset, length);
                found.record.placement = if op == Op::Write { placement } else { 0 };
                Some(found)
            }
            None => None,
        };
        if flushes {
            self.pending = data;
            return Ok(Some(Found { record: Record::flush(t_ns, dev), widened: false }));
        }
        Ok(data)
    }

    /// Splits `text` into fields.
    fn split(&mut self, text: &[u8]) {
        self.spans.clear();
        if self.delimiter != b' ' {
            delimited(text, self.delimiter, &mut self.spans);
            return;
        }
        let mut at = 0;
        while at < text.len() {
            let is_space = |byte: &&u8| byte.is_ascii_whitespace();
            at += text[at..].iter().take_while(is_space).count();
            let length = text[at..].iter().take_while(|byte| !is_space(byte)).count();
            if length > 0 {
                self.spans.push((at, at + length));
            }
            at += length;
        }
        let wordy = self.columns.iter().position(|column| *column == Column::Text);
        if let (Some(at), Some(more)) =
            (wordy, self.spans.len().checked_sub(self.columns.len()).filter(|more| *more > 0))
        {
            self.spans[at].1 = self.spans[at + more].1;
            self.spans.drain(at + 1..=at + more);
        }
    }

    fn row(&mut self, text: &[u8], spans: &[Span], unit: Unit, left: &mut LeftOut) -> Parsed<Row> {
        if spans.len() < self.columns.len() {
            return Err(Fault { at: text.len(), expected: "a further column" });
        }
        if self.is_exact && spans.len() > self.columns.len() {
            let at = spans[self.columns.len()].0;
            return Err(Fault { at, expected: "the end of the line" });
        }
        let (op, flushes, placement) = (self.op, false, 0);
        let mut row = Row { t_ns: 0, flushes, op, dev: 0, offset: 0, length: 0, placement };
        let (mut major, mut has_address) = (0, true);
        for (index, span) in spans.iter().enumerate().take(self.columns.len()) {
            let field = &text[span.0..span.1];
            match self.columns[index] {
                Column::Time(_) => row.t_ns = whole(text, *span, |field| field.time(unit))?,
                Column::Op => row.op = Some(self.word(field, span.0)?),
                Column::Rwbs => (row.flushes, row.op) = kernel_word(field, span.0, left)?,
                Column::Scsi => row.op = command(field, span.0, left)?,
                Column::Offset(_) if NO_ADDRESS.contains(&field) => has_address = false,
                Column::Offset(scale) => {
                    let expected = if scale == 1 { "a byte offset" } else { "an address" };
                    row.offset = bytes(text, *span, expected, scale)?;
                }
                Column::Length(scale) => row.length = bytes(text, *span, "a length", scale)?,
                Column::Placement if field.is_empty() => row.placement = 0,
                Column::Placement => row.placement = whole(text, *span, |field| field.placement())?,
                Column::Dev => row.dev = self.device(field, span.0)?,
                Column::Major => major = small(text, *span, "a major number")?,
                Column::Minor => {
                    let minor = small(text, *span, "a minor number")?;
                    let fault = Fault { at: span.0, expected: "a device below 4096,1048576" };
                    row.dev = device_number(major, minor).ok_or(fault)?;
                }
                Column::Skip | Column::Text => {}
            }
        }
        if !has_address && row.length > 0 {
            return Err(Fault { at: 0, expected: "an address" });
        }
        Ok(row)
    }

    /// Returns the operation of `word`.
    fn word(&mut self, word: &[u8], at: usize) -> Parsed<Op> {
        if let Some(op) = self.ops.meaning(word) {
            return Ok(op);
        }
        let digit = match word {
            b"0" => Some(Op::Read),
            b"1" => Some(Op::Write),
            _ => None,
        };
        if let Some(op) = digit.filter(|_| self.ops.is_empty()) {
            self.has_digits = true;
            return Ok(op);
        }
        match Rwbs::parse(word) {
            Some(Rwbs { flushes: false, action: Action::Op(op) }) => Ok(op),
            Some(Rwbs { action: Action::Nothing, .. }) => Ok(Op::Flush),
            _ => Err(Fault { at, expected: "R, W, F, D or a word of read=, write=, …" }),
        }
    }

    /// Returns the number of a device: its own number, or the index of its name.
    fn device(&mut self, name: &[u8], at: usize) -> Parsed<u32> {
        let text = std::str::from_utf8(name).unwrap_or_default();
        let number = match text.split_once(',') {
            Some((major, minor)) => match (major.parse(), minor.parse()) {
                (Ok(major), Ok(minor)) => device_number(major, minor),
                _ => None,
            },
            None if name.iter().all(u8::is_ascii_digit) => text.parse().ok(),
            None => None,
        };
        let by_name = *self.by_name.get_or_insert(number.is_none());
        if name.is_empty() {
            return Err(Fault { at, expected: "a device" });
        }
        match number {
            Some(number) if !by_name => return Ok(number),
            None if !by_name => return Err(Fault { at, expected: "the number of a device" }),
            _ => {}
        }
        let next = self.names.len();
        match self.names.get(name) {
            Some(number) => Ok(*number),
            None if next == MOST_DEVICES => Err(Fault { at, expected: "at most 65,536 devices" }),
            None => {
                self.names.insert(name.to_vec(), next as u32);
                Ok(next as u32)
            }
        }
    }

    /// Returns warnings about the results, one sentence each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut texts = Vec::new();
        if self.has_digits {
            texts.push(
                "0 is read as a read and 1 as a write; state read=1,write=0 for the opposite"
                    .to_owned(),
            );
        }
        if !self.columns.iter().any(|column| matches!(column, Column::Time(_))) {
            texts.push("the trace has no times; all requests arrive at once".to_owned());
        }
        if self.names.len() > 1 {
            texts.push(device_names(self.names.iter().map(|(name, number)| (*number, &name[..]))));
        }
        texts
    }
}

/// Returns a sentence with the numbers of named devices.
fn device_names<'a>(names: impl Iterator<Item = (u32, &'a [u8])>) -> String {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    let more = if names.len() > MOST_NAMES { " …" } else { "" };
    let texts: Vec<_> = (names.iter().take(MOST_NAMES))
        .map(|(number, name)| format!("{number} is {}", name.escape_ascii()))
        .collect();
    format!("devices are numbered in the order of their first lines: {}{more}", texts.join(", "))
}

/// Splits a line at `delimiter`, without spaces and quotes around the fields.
fn delimited(text: &[u8], delimiter: u8, spans: &mut Vec<Span>) {
    let mut at = 0;
    loop {
        let blanks = text[at..].iter().take_while(|byte| **byte == b' ').count();
        let from = at + blanks;
        let is_quoted = text.get(from) == Some(&b'"');
        let quoted = is_quoted.then(|| text[from + 1..].iter().position(|byte| *byte == b'"'));
        let behind = match quoted.flatten() {
            Some(length) => from + 1 + length + 1,
            None => from,
        };
        let end = text[behind..].iter().position(|byte| *byte == delimiter);
        let end = end.map_or(text.len(), |length| behind + length);
        let (mut first, mut last) = (from.min(end), end);
        while last > first && text[last - 1].is_ascii_whitespace() {
            last -= 1;
        }
        if behind > from && last == behind {
            (first, last) = (from + 1, behind - 1);
        }
        spans.push((first, last));
        if end == text.len() {
            return;
        }
        at = end + 1;
    }
}

/// Returns the byte between the fields of a table with `columns` columns.
fn delimiter(head: &[u8], columns: usize) -> u8 {
    let lines = head.split(|&byte| byte == b'\n').take(HEADER_LINES);
    let lines: Vec<_> = lines.filter(|line| !line.starts_with(b"#")).collect();
    let count = |line: &[u8], byte: u8| line.iter().filter(|it| **it == byte).count();
    let fits = |byte: &u8| lines.iter().any(|line| count(line, *byte) + 1 >= columns);
    [b'\t', b';', b'|', b','].into_iter().find(fits).unwrap_or(b' ')
}

/// Parses a whole field.
fn whole<T>(
    text: &[u8],
    (from, to): Span,
    parse: impl FnOnce(&mut Fields<'_>) -> Parsed<T>,
) -> Parsed<T> {
    let mut field = Fields::new(&text[..to]);
    field.at = from;
    let value = parse(&mut field)?;
    if field.at == to { Ok(value) } else { field.fault("the end of the field") }
}

/// Parses a number of units of `scale` bytes, and returns bytes.
fn bytes(text: &[u8], span: Span, expected: &'static str, scale: u64) -> Parsed<u64> {
    let number = whole(text, span, |field| field.number(expected))?;
    let bytes = number.checked_mul(scale).filter(|bytes| *bytes < LAST_BYTE);
    bytes.ok_or(Fault { at: span.0, expected: "a number of bytes below 8 EiB" })
}

fn small(text: &[u8], span: Span, expected: &'static str) -> Parsed<u32> {
    whole(text, span, |field| field.small(expected))
}

/// Parses the kernel's letters of an operation. Returns whether it flushes first, and the action
/// after that.
fn kernel_word(word: &[u8], at: usize, left: &mut LeftOut) -> Parsed<(bool, Option<Op>)> {
    let expected = "the kind of the request, such as WS";
    let Rwbs { flushes, action } = Rwbs::parse(word).ok_or(Fault { at, expected })?;
    Ok(match action {
        Action::Op(op) => (flushes, Some(op)),
        Action::Nothing => (false, Some(Op::Flush)),
        Action::Other(what) => {
            left.dropped(what);
            (false, None)
        }
    })
}

/// Returns the action of a SCSI command with a hexadecimal number.
fn command(word: &[u8], at: usize, left: &mut LeftOut) -> Parsed<Option<Op>> {
    let text = std::str::from_utf8(word).unwrap_or_default();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let number = u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
    let number =
        number.ok_or(Fault { at, expected: "the number of a SCSI command, such as 2a" })?;
    match scsi(number.into()) {
        Ok(op) => Ok(Some(op)),
        Err(what) => {
            left.dropped(what);
            Ok(None)
        }
    }
}

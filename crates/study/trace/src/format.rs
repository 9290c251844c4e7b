//! The trace formats: their names, and detection of a file's format.

use std::fmt;
use std::str::FromStr;

use crate::binary::blktrace::Blktrace;
use crate::binary::fixed::Fixed;
use crate::binary::flat;
use crate::binary::packed;
use crate::file::TraceFile;
use crate::left::LeftOut;
use crate::text::fields::Fields;
use crate::text::{Text, fio, own, tables, xperf};
use crate::unit::Unit;

/// Requests that a text must have for its format to be certain.
const ENOUGH: u64 = 16;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// This project's text format: `t_us,[dev,]op,byte_off,byte_len`.
    Own,
    /// This project's binary format.
    Packed,
    /// This project's format for many concurrent readers.
    Flat,
    /// MSR Cambridge.
    Msr,
    /// SPC, the format of the UMass Financial and WebSearch traces.
    Spc,
    /// The text format of DiskSim and MQSim.
    DiskSim,
    /// The output of `blkparse`.
    Blkparse,
    /// The kernel's `block_rq_issue` events as text.
    Kernel,
    /// fio's iolog, version 2 or 3.
    Fio,
    /// CloudPhysics vscsi, version 1 or 2.
    Vscsi,
    /// Alibaba's block traces.
    Alibaba,
    /// Tencent's block traces.
    Tencent,
    /// libCacheSim's oracleGeneral.
    Oracle,
    /// SYSTOR '17.
    Systor,
    /// FIU (SyLab).
    Fiu,
    /// bcc's biosnoop.
    Biosnoop,
    /// perf-tools' iosnoop.
    Iosnoop,
    /// The dump of a Windows event trace by xperf.
    Xperf,
    /// libCacheSim's CSV.
    CacheCsv,
    /// blktrace's binary format.
    Blktrace,
    /// A table whose columns the user describes.
    Columns,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 21] = [
        Format::Own,
        Format::Packed,
        Format::Flat,
        Format::Msr,
        Format::Spc,
        Format::DiskSim,
        Format::Blkparse,
        Format::Kernel,
        Format::Fio,
        Format::Vscsi,
        Format::Alibaba,
        Format::Tencent,
        Format::Oracle,
        Format::Systor,
        Format::Fiu,
        Format::Biosnoop,
        Format::Iosnoop,
        Format::Xperf,
        Format::CacheCsv,
        Format::Blktrace,
        Format::Columns,
    ];

    /// Returns its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Own => "csv",
            Format::Packed => "hft",
            Format::Flat => "flat",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::DiskSim => "disksim",
            Format::Blkparse => "blkparse",
            Format::Kernel => "block_rq_issue",
            Format::Fio => "fio",
            Format::Vscsi => "vscsi",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Oracle => "oracleGeneral",
            Format::Systor => "systor",
            Format::Fiu => "fiu",
            Format::Biosnoop => "biosnoop",
            Format::Iosnoop => "iosnoop",
            Format::Xperf => "xperf",
            Format::CacheCsv => "libcachesim-csv",
            Format::Blktrace => "blktrace",
            Format::Columns => "columns",
        }
    }

    /// Returns all names, separated by commas.
    pub fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// Returns whether its devices are kernel devices, `major:minor`.
    pub(crate) const fn has_kernel_devices(self) -> bool {
        let text = matches!(self, Format::Blkparse | Format::Kernel | Format::Fiu);
        text || matches!(self, Format::Iosnoop | Format::Blktrace)
    }

    /// Returns the options that are valid for a file of this format.
    pub(crate) fn options(self) -> Vec<&'static str> {
        let has_time =
            !matches!(self, Format::Packed | Format::Flat | Format::Blktrace | Format::Columns);
        let has_devices = !matches!(self, Format::Vscsi | Format::Oracle | Format::CacheCsv);
        let has_sectors = matches!(self, Format::Spc | Format::DiskSim | Format::Tencent);
        let is_cache = matches!(self, Format::Oracle | Format::CacheCsv);
        let is_table = self == Format::Columns;
        [
            ("format", !is_table),
            ("columns", is_table),
            ("dev", has_devices),
            ("time", has_time),
            ("addr", has_sectors),
            ("op", is_cache || is_table),
            ("id", is_cache),
            ("read", is_table),
            ("write", is_table),
            ("flush", is_table),
            ("discard", is_table),
            ("skip-bad", true),
            ("shift", true),
            ("loop", true),
            ("compress", true),
        ]
        .into_iter()
        .filter_map(|(option, is_used)| is_used.then_some(option))
        .collect()
    }

    /// Returns the format of `file`, which begins with `head`, or `None` if it is unknown.
    pub(crate) fn detect(file: &TraceFile, head: &[u8]) -> Option<Format> {
        let has_text = |byte: &u8| *byte >= b' ' || b"\t\r\n".contains(byte);
        if packed::extras(head).is_some() {
            return Some(Format::Packed);
        }
        if flat::extras(head).is_some() {
            return Some(Format::Flat);
        }
        if Blktrace::version(head).is_some() {
            return Some(Format::Blktrace);
        }
        if head.iter().take(4096).all(has_text) {
            return text(file, head);
        }
        match Fixed::vscsi(head) {
            Some(_) => Some(Format::Vscsi),
            None => Fixed::is_oracle(head).then_some(Format::Oracle),
        }
    }
}

/// Returns the format whose header `head` begins with. Otherwise returns the text format with the
/// most requests, or other valid lines, before the first invalid line of `head`.
fn text(file: &TraceFile, head: &[u8]) -> Option<Format> {
    let first = Fields::new(head).rest();
    if head.trim_ascii().is_empty() || own::is_header(first) {
        return Some(Format::Own);
    }
    if fio::is_header(first) {
        return Some(Format::Fio);
    }
    if first == xperf::BEGIN {
        return Some(Format::Xperf);
    }
    if let Some(format) = tables::has_header(head) {
        return Some(format);
    }
    let best = |unit: Option<Unit>| {
        let scores = Text::FORMATS.map(|format| (score(file, unit, format, head), format));
        let best =
            scores.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.filter(|(score, _)| *score > (0, 0)).map(|(_, format)| format)
    };
    // A time that overflows in the format's own unit is reported later as an error of its line, so
    // it must not prevent the detection.
    best(file.time).or_else(|| best(Some(Unit::Nanos)))
}

/// Returns the number of requests in `head` before the first line that is invalid in `format`, up
/// to 16, and the number of other lines that belong to the format.
fn score(file: &TraceFile, unit: Option<Unit>, format: Format, head: &[u8]) -> (u64, u64) {
    let Some(mut text) = Text::new(file, format, head) else { return (0, 0) };
    let unit = unit.unwrap_or_else(|| text.unit(head));
    let mut left = LeftOut::default();
    let (mut found, mut at) = (0, 0);
    while found < ENOUGH && at < head.len() {
        let mut line = Fields::new(&head[at..]);
        let is_good = if line.is_end() {
            line.line_end().is_ok()
        } else {
            match text.record(&mut line, unit, &mut left) {
                Ok(request) => {
                    found += u64::from(request.is_some());
                    true
                }
                Err(_) => false,
            }
        };
        if !is_good {
            break;
        }
        at += line.at;
    }
    (found, left.recognised())
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Format::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("'{text}' is not a trace format; use {}", Format::names()))
    }
}

//! The trace formats: their names, and which one a file has.

use std::fmt;
use std::str::FromStr;

use crate::binary::fixed::Fixed;
use crate::binary::flat;
use crate::binary::packed;
use crate::text::fields::Fields;
use crate::text::{Text, own};

/// Requests that a text must have for its format to be certain.
const ENOUGH: u64 = 16;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// This project's text: `t_us,[dev,]op,byte_off,byte_len`.
    Own,
    /// This project's binary format.
    Packed,
    /// This project's format for many readers at once.
    Flat,
    /// MSR Cambridge.
    Msr,
    /// SPC, as the UMass Financial and WebSearch traces have it.
    Spc,
    /// DiskSim's and MQSim's text.
    DiskSim,
    /// What `blkparse` prints.
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
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 13] = [
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
    ];

    /// Its name on the command line.
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
        }
    }

    /// All names, with commas between.
    pub fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// The format of a file that begins with `head`, if it is known.
    pub fn detect(head: &[u8]) -> Option<Format> {
        let has_text = |byte: &u8| *byte >= b' ' || b"\t\r\n".contains(byte);
        if packed::has_saved(head).is_some() {
            return Some(Format::Packed);
        }
        if flat::has_saved(head).is_some() {
            return Some(Format::Flat);
        }
        if head.iter().take(4096).all(has_text) {
            return text(head);
        }
        match Fixed::vscsi(head) {
            Some(_) => Some(Format::Vscsi),
            None => Fixed::is_oracle(head).then_some(Format::Oracle),
        }
    }
}

/// The text format in which `head` has the most requests before the first bad line.
fn text(head: &[u8]) -> Option<Format> {
    if head.trim_ascii().is_empty() || own::is_header(Fields::new(head).rest()) {
        return Some(Format::Own);
    }
    let scores = Text::FORMATS.map(|format| (requests(format, head), format));
    let best = scores.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(requests, _)| *requests > 0).map(|(_, format)| format)
}

/// How many requests `head` has before its first line that is none of `format`, up to 16.
fn requests(format: Format, head: &[u8]) -> u64 {
    let Some(mut text) = Text::new(format, head) else { return 0 };
    let unit = Text::unit(format, head);
    let (mut found, mut at) = (0, 0);
    while found < ENOUGH && at < head.len() {
        let mut line = Fields::new(&head[at..]);
        match line.is_end() {
            true if line.line_end().is_err() => return found,
            true => {}
            false => match text.record(&mut line, unit) {
                Ok(request) => found += u64::from(request.is_some()),
                Err(_) => return found,
            },
        }
        at += line.at;
    }
    found
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
        found.ok_or_else(|| format!("'{text}' is no trace format: use {}", Format::names()))
    }
}

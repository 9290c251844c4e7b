//! A trace file with its options: `FILE`, or `FILE:format=msr,dev=0,time=us,skip-bad`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hostftl_core::SECTOR;

use crate::binary::fixed::Ids;
use crate::columns::{Columns, OpWords};
use crate::compress::Compressibility;
use crate::error::TraceError;
use crate::format::Format;
use crate::input::Pipe;
use crate::record::Op;
use crate::unit::Unit;

/// Options after a file's name.
const OPTIONS: [&str; 15] = [
    "format", "columns", "dev", "time", "addr", "op", "id", "read", "write", "flush", "discard",
    "skip-bad", "shift", "loop", "compress",
];
/// Name of standard input, and its path.
const STDIN: (&str, &str) = ("-", "/dev/stdin");

/// A trace file and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Path of the file.
    pub path: PathBuf,
    /// `format=`: format; detected from the content if absent.
    pub format: Option<Format>,
    /// `time=`: unit of times; that of the format if absent.
    pub time: Option<Unit>,
    /// `dev=`: the only device whose requests are read. It becomes device 0.
    pub dev: Option<u32>,
    /// `skip-bad`: invalid lines are counted and skipped instead of being an error.
    pub skip_bad: bool,
    /// `columns=`: columns of a table.
    pub columns: Option<Columns>,
    /// `read=`, `write=`, `flush=` and `discard=`: a table's words for operations.
    pub words: OpWords,
    /// `op=R` or `op=W`: operation of every access, in a format without operations.
    pub op: Option<Op>,
    /// `id=sectors` or `id=bytes`: meaning of an object's number, in a format with objects.
    pub ids: Option<Ids>,
    /// `addr=sectors` or `addr=bytes`: unit of addresses, in a format that has sectors.
    pub addresses: Option<Ids>,
    /// `shift=`: sectors added to every address, to correct a misaligned partition.
    pub shift: u64,
    /// `loop=`: number of times that the trace is repeated; at least 1.
    pub rounds: u32,
    /// `compress=`: compressibility of the written data. It overrides that of the file.
    pub compress: Option<Compressibility>,
    /// Whether it is read only once, so that the bytes of a pipe need not be stored.
    pub once: bool,
    /// Bytes of a pipe, which cannot be read from the pipe twice.
    pub pipe: Pipe,
}

impl TraceFile {
    /// Makes a file without options, whose format is detected.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TraceFile {
            path: path.into(),
            format: None,
            time: None,
            dev: None,
            skip_bad: false,
            columns: None,
            words: OpWords::default(),
            op: None,
            ids: None,
            addresses: None,
            shift: 0,
            rounds: 1,
            compress: None,
            once: false,
            pipe: Pipe::default(),
        }
    }

    /// Splits `text`, the list of options after a file's name. The columns of `columns=` stay
    /// together.
    pub fn options(text: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match all.last_mut() {
                Some(last) if last.starts_with("columns=") && Columns::is_column(part) => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => all.push(part.to_owned()),
            }
        }
        all
    }

    /// Returns the list of options after the file's name in `text`, which may be empty.
    pub fn options_text(text: &str) -> &str {
        part(text).1
    }

    /// Checks that every option is valid for `format`.
    pub(crate) fn check(&self, format: Format) -> Result<(), TraceError> {
        let given = [
            ("columns", self.columns.is_some()),
            ("dev", self.dev.is_some()),
            ("time", self.time.is_some()),
            ("addr", self.addresses.is_some()),
            ("op", self.op.is_some()),
            ("id", self.ids.is_some()),
            ("read, write, flush and discard", !self.words.is_empty()),
        ];
        let fail = |why: String| Err(TraceError::Options { text: self.to_string(), why });
        let used = format.options();
        for (option, is_given) in given {
            let name = option.split(',').next().unwrap_or_default();
            if is_given && !used.contains(&name) {
                let used = used.join(", ");
                return fail(format!(
                    "{option}= has no effect with the format {format}; use {used}"
                ));
            }
        }
        let Some(columns) = self.columns.as_ref().filter(|_| format == Format::Columns) else {
            return if format == Format::Columns {
                fail(
                    "format=columns needs columns=, as in columns=time:us,op,offset:bytes,\
                     length:bytes"
                        .to_owned(),
                )
            } else {
                Ok(())
            };
        };
        match (columns.has_op(), self.op.is_some()) {
            (true, true) => {
                fail("op= has no effect if a column is the operation; omit it".to_owned())
            }
            (false, false) => fail(
                "no column is the operation; add the column op, or state op=R or op=W".to_owned(),
            ),
            (false, true) if !self.words.is_empty() => fail(
                "read=, write=, … name words of the column op, which is missing; add it".to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// Returns whether its requests are used unchanged and once.
    pub fn is_whole(&self) -> bool {
        let as_they_are = self.dev.is_none() && self.shift == 0 && self.compress.is_none();
        as_they_are && self.rounds == 1
    }

    fn set(&mut self, option: &str) -> Result<(), String> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "format" => self.format = Some(value.parse()?),
            "time" => self.time = Some(value.parse()?),
            "dev" => self.dev = Some(device(value)?),
            "compress" => self.compress = Some(value.parse()?),
            "skip-bad" => self.skip_bad = true,
            "shift" => self.shift = shift(value)?,
            "loop" => {
                let rounds = value.parse().ok().filter(|rounds| *rounds > 0);
                self.rounds =
                    rounds.ok_or_else(|| format!("loop={value}: expected a number above 0"))?;
            }
            "columns" => {
                self.columns = Some(value.parse()?);
                self.format = Some(Format::Columns);
            }
            "op" => {
                self.op = match value {
                    "R" => Some(Op::Read),
                    "W" => Some(Op::Write),
                    _ => return Err(format!("op={value} is invalid; use op=R or op=W")),
                }
            }
            "id" => self.ids = Some(ids(key, value)?),
            "addr" => self.addresses = Some(ids(key, value)?),
            "read" => self.words.name(value, Op::Read)?,
            "write" => self.words.name(value, Op::Write)?,
            "flush" => self.words.name(value, Op::Flush)?,
            "discard" => self.words.name(value, Op::Discard)?,
            _ => return Err(format!("'{key}' is not an option; use {}", OPTIONS.join(", "))),
        }
        Ok(())
    }
}

/// Parses `sectors` or `bytes`.
fn ids(key: &str, value: &str) -> Result<Ids, String> {
    match value {
        "sectors" => Ok(Ids::Sectors),
        "bytes" => Ok(Ids::Bytes),
        _ => Err(format!("{key}={value} is invalid; use {key}=sectors or {key}=bytes")),
    }
}

/// Splits the name of a file from the list of options after it.
fn part(text: &str) -> (&str, &str) {
    let is_option = |rest: &str| {
        OPTIONS.iter().any(|key| {
            let rest = rest.strip_prefix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', ',']))
        })
    };
    let mut colons = text.match_indices(':').map(|(at, _)| at);
    match colons.find(|at| is_option(&text[at + 1..])) {
        Some(colon) => (&text[..colon], &text[colon + 1..]),
        None => misspelt(text).unwrap_or((text, "")),
    }
}

/// Splits the name of an existing file from a list that starts with an unknown option. Returns
/// `None` if `text` is the name of a file itself.
fn misspelt(text: &str) -> Option<(&str, &str)> {
    let exists = |name: &str| name == STDIN.0 || Path::new(name).exists();
    if !text.contains(':') || exists(text) {
        return None;
    }
    let mut parts = text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    parts.find(|(name, _)| exists(name))
}

/// Parses a number of bytes below 2^40 and returns its sectors.
fn shift(text: &str) -> Result<u64, String> {
    let sector = SECTOR as u64;
    let bytes = text.parse().ok().filter(|bytes: &u64| *bytes < 1 << 40);
    let whole = bytes.filter(|bytes| bytes.is_multiple_of(sector));
    let wrong = || format!("shift={text}: expected bytes, a multiple of 512, as in shift=512");
    whole.map(|bytes| bytes / sector).ok_or_else(wrong)
}

/// Parses a device's number, or `major:minor`.
fn device(text: &str) -> Result<u32, String> {
    let wrong = || format!("dev={text}: expected a number, or major:minor, as in dev=8:0");
    match text.split_once(':') {
        None => text.parse().map_err(|_| wrong()),
        Some((major, minor)) => match (major.parse::<u32>(), minor.parse::<u32>()) {
            (Ok(major @ 0..4096), Ok(minor @ 0..1_048_576)) => Ok(major << 20 | minor),
            _ => Err(wrong()),
        },
    }
}

impl FromStr for TraceFile {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let (name, options) = part(text);
        let mut file = TraceFile::new(if name == STDIN.0 { STDIN.1 } else { name });
        let wrong = |why: String| TraceError::Options { text: text.to_owned(), why };
        let options = TraceFile::options(options);
        for option in &options {
            file.set(option).map_err(wrong)?;
        }
        let both = ["format=", "columns="];
        if both.iter().all(|key| options.iter().any(|option| option.starts_with(key))) {
            return Err(wrong("columns= excludes format=; omit format=".to_owned()));
        }
        Ok(file)
    }
}

impl fmt::Display for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

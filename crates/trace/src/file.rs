//! A trace file as a user names it: `FILE`, or `FILE:format=msr,dev=0,time=us,skip-bad`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use hostftl_core::SECTOR;

use crate::binary::fixed::Ids;
use crate::compress::Compressibility;
use crate::error::TraceError;
use crate::format::Format;
use crate::record::Op;
use crate::unit::Unit;

/// The options that may stand behind a file's name.
const OPTIONS: [&str; 9] =
    ["format", "dev", "time", "skip-bad", "op", "id", "shift", "loop", "compress"];

/// A trace file, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Where it is.
    pub path: PathBuf,
    /// `format=`: its format, unless its content tells.
    pub format: Option<Format>,
    /// `time=`: the unit of its times, unless that of the format.
    pub time: Option<Unit>,
    /// `dev=`: the one device whose requests count; it becomes device 0.
    pub dev: Option<u32>,
    /// `skip-bad`: bad lines are counted and left out instead of ending the work.
    pub skip_bad: bool,
    /// `op=R` or `op=W`: what every access does, in a format without operations.
    pub op: Op,
    /// `id=sectors` or `id=bytes`: what an object's number is, in a format with objects.
    pub ids: Ids,
    /// `shift=`: sectors added to every address, to undo a partition that was not aligned.
    pub shift: u64,
    /// `loop=`: how often the trace is read, one round after the other; at least 1.
    pub rounds: u32,
    /// `compress=`: how well the written data compresses, whatever the file says of it.
    pub compress: Option<Compressibility>,
}

impl TraceFile {
    /// The file at `path`, read as its content says.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TraceFile {
            path: path.into(),
            format: None,
            time: None,
            dev: None,
            skip_bad: false,
            op: Op::Read,
            ids: Ids::Sectors,
            shift: 0,
            rounds: 1,
            compress: None,
        }
    }

    /// Whether its requests are taken as they are, once.
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
            "op" => {
                self.op = match value {
                    "R" => Op::Read,
                    "W" => Op::Write,
                    _ => return Err(format!("op={value}: use op=R or op=W")),
                }
            }
            "id" => {
                self.ids = match value {
                    "sectors" => Ids::Sectors,
                    "bytes" => Ids::Bytes,
                    _ => return Err(format!("id={value}: use id=sectors or id=bytes")),
                }
            }
            _ => return Err(format!("'{key}' is not an option: use {}", OPTIONS.join(", "))),
        }
        Ok(())
    }
}

/// Sectors in a number of bytes below 2^40.
fn shift(text: &str) -> Result<u64, String> {
    let sector = SECTOR as u64;
    let bytes = text.parse().ok().filter(|bytes: &u64| *bytes < 1 << 40);
    let whole = bytes.filter(|bytes| bytes.is_multiple_of(sector));
    let wrong = || format!("shift={text}: expected bytes, a multiple of 512 as in shift=512");
    whole.map(|bytes| bytes / sector).ok_or_else(wrong)
}

/// A device's number, or `major:minor`.
fn device(text: &str) -> Result<u32, String> {
    let wrong = || format!("dev={text}: expected a number, or major:minor as in dev=8:0");
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
        let is_option = |rest: &str| {
            OPTIONS.iter().any(|key| {
                let rest = rest.strip_prefix(key);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', ',']))
            })
        };
        let mut colons = text.match_indices(':').map(|(at, _)| at);
        let Some(colon) = colons.find(|at| is_option(&text[at + 1..])) else {
            return Ok(TraceFile::new(text));
        };
        let mut file = TraceFile::new(&text[..colon]);
        for option in text[colon + 1..].split(',') {
            file.set(option).map_err(|why| TraceError::Options { text: text.to_owned(), why })?;
        }
        Ok(file)
    }
}

impl fmt::Display for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

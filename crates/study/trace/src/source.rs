//! Where a study's requests come from: a file or a synthetic workload.

use std::fmt;
use std::str::FromStr;

use crate::compact::Compact;
use crate::compress::{Compressibility, Draws};
use crate::error::TraceError;
use crate::file::TraceFile;
use crate::format::Format;
use crate::like::{self, Like, LikeStream};
use crate::mqsim;
use crate::notes::Notes;
use crate::reader::Reader;
use crate::record::{Op, Record};
use crate::synth::Synth;
use crate::workload::Workload;

/// What the texts of synthetic workloads begin with, and of those that are like a real volume.
const SYNTH: &str = "synth:";
const LIKE: &str = "like:";

/// A workload that can be read again and again.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A trace.
    File(TraceFile),
    /// A synthetic workload.
    Synth(Workload),
    /// A synthetic workload that is like a real volume.
    Like(Like),
    /// One of the others, as the file of another program defines it.
    Told(Box<Told>),
}

/// A source that the file of another program defines.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// What it is here: a file or a synthetic workload.
    pub(crate) plain: Source,
    /// What is not carried over, a sentence each.
    pub(crate) left: Vec<String>,
}

impl FromStr for Source {
    type Err = TraceError;

    /// `synth:…` is a workload, `….xml` MQSim's definition of workloads, anything else a trace,
    /// perhaps with options behind it. A definition is read at once.
    fn from_str(text: &str) -> Result<Self, TraceError> {
        match text.strip_prefix(SYNTH) {
            Some(work) => match work.strip_prefix(LIKE) {
                Some(options) => like::parse(options)
                    .map(Source::Like)
                    .map_err(|why| TraceError::Workload { text: work.to_owned(), why }),
                None => Ok(Source::Synth(work.parse()?)),
            },
            None => match mqsim::source(text)? {
                Some(source) => Ok(source),
                None => Ok(Source::File(text.parse()?)),
            },
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(file) => file.fmt(f),
            Source::Synth(_) => f.write_str("the synthetic workload"),
            Source::Like(like) => write!(f, "a workload like {}", like.volume.name),
            Source::Told(told) => told.plain.fmt(f),
        }
    }
}

impl Source {
    /// The source without what is said of it: never one that is told.
    pub fn plain(&self) -> &Source {
        match self {
            Source::Told(told) => &told.plain,
            plain => plain,
        }
    }

    /// The same, to change it.
    pub fn plain_mut(&mut self) -> &mut Source {
        match self {
            Source::Told(told) => &mut told.plain,
            plain => plain,
        }
    }

    /// States that its records are read once only: the bytes of a pipe are not kept then.
    pub fn read_once(&mut self) {
        if let Source::File(file) = self.plain_mut() {
            file.once = true;
        }
    }

    /// How well the written data compresses, as the options of the source say; nothing when they do
    /// not, but then the file itself may, write by write.
    pub fn compressibility(&self) -> Option<Compressibility> {
        match self {
            Source::File(file) => file.compress,
            Source::Synth(work) => work.compress,
            Source::Like(like) => like.compress,
            Source::Told(told) => told.plain.compressibility(),
        }
    }

    /// Whether anything of its records is chosen at random, so that they depend on the seed.
    pub fn is_drawn(&self) -> bool {
        !matches!(self.plain(), Source::File(file) if file.compress.is_none())
    }

    /// The records from the start. `seed` matters to what is chosen at random only; `compact` packs
    /// the addresses as [`Compact`] says.
    ///
    /// # Errors
    /// When the file can't be opened. The records themselves come as results too.
    pub fn open(&self, seed: u64, compact: bool) -> Result<Stream, TraceError> {
        let raw = match self {
            Source::File(file) => Raw::File(Reader::open(file)?),
            Source::Synth(work) => Raw::Synth(Synth::new(*work, seed)),
            Source::Like(like) => Raw::Like(LikeStream::new(like, seed)),
            Source::Told(told) => {
                let stream = told.plain.open(seed, compact)?;
                return Ok(Stream { left: told.left.clone(), ..stream });
            }
        };
        let records = if compact { Records::Compact(Compact::new(raw)) } else { Records::Raw(raw) };
        let draws = self.compressibility().map(|choice| Draws::new(choice, seed));
        Ok(Stream { records, draws, left: Vec::new() })
    }

    /// Reads everything once and counts it.
    ///
    /// # Errors
    /// The first thing that is wrong with the file, which also must have a request.
    pub fn scan(&self, seed: u64, compact: bool) -> Result<Summary, TraceError> {
        let mut stream = self.open(seed, compact)?;
        let mut sum = Summary::default();
        for record in &mut stream {
            sum.count(&record?);
        }
        sum.notes = stream.notes();
        sum.widened = sum.notes.widened;
        match self.plain() {
            Source::File(file) if sum.records == 0 => {
                Err(TraceError::Empty { path: file.path.clone(), why: sum.notes.emptiness() })
            }
            _ => Ok(sum),
        }
    }
}

/// The records of a source.
pub struct Stream {
    records: Records,
    draws: Option<Draws>,
    /// What is not carried over from the file of another program, a sentence each.
    left: Vec<String>,
}

/// Records before it is said how well they compress.
#[allow(clippy::large_enum_variant, reason = "there is one per run, and it is never moved")]
enum Records {
    /// As they are.
    Raw(Raw),
    /// With addresses packed.
    Compact(Compact<Raw>),
}

impl Stream {
    /// How many records did not begin or end at a sector's edge so far.
    pub fn widened(&self) -> u64 {
        self.notes().widened
    }

    /// The format of the file; nothing for a synthetic workload.
    pub fn format(&self) -> Option<Format> {
        match self.raw() {
            Raw::File(reader) => Some(reader.format()),
            Raw::Synth(_) | Raw::Like(_) => None,
        }
    }

    /// Whether reading it once more costs next to nothing: a flat file that is taken as it is.
    pub fn is_flat(&self) -> bool {
        matches!(&self.records, Records::Raw(Raw::File(reader)) if reader.is_flat())
    }

    /// Whether writes may say how well they compress.
    pub fn has_saved(&self) -> bool {
        let in_file = matches!(self.raw(), Raw::File(reader) if reader.has_saved());
        in_file || self.draws.is_some()
    }

    /// What was noticed so far.
    pub fn notes(&self) -> Notes {
        let mut notes = self.raw().notes();
        if let Records::Compact(compact) = &self.records {
            (notes.compacted, notes.split) = (true, compact.split());
        }
        notes.left.clone_from(&self.left);
        notes
    }

    fn raw(&self) -> &Raw {
        match &self.records {
            Records::Raw(raw) => raw,
            Records::Compact(compact) => compact.inner(),
        }
    }
}

impl Iterator for Stream {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(draws) = &mut self.draws else { return self.records.next() };
        let mut item = self.records.next();
        if let Some(Ok(record)) = &mut item {
            draws.apply(record);
        }
        item
    }
}

impl Iterator for Records {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Records::Raw(raw) => raw.next(),
            Records::Compact(compact) => compact.next(),
        }
    }
}

/// The records before any packing.
#[allow(clippy::large_enum_variant, reason = "there is one per run, and it is never moved")]
enum Raw {
    /// From a file.
    File(Reader),
    /// Generated.
    Synth(Synth),
    /// Generated like a volume.
    Like(LikeStream),
}

impl Raw {
    fn notes(&self) -> Notes {
        match self {
            Raw::File(reader) => reader.notes(),
            Raw::Synth(_) | Raw::Like(_) => Notes::default(),
        }
    }
}

impl Iterator for Raw {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Raw::File(reader) => reader.next(),
            Raw::Synth(synth) => synth.next().map(Ok),
            Raw::Like(like) => like.next().map(Ok),
        }
    }
}

/// What a workload holds. Lengths are in sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All records.
    pub records: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Sectors read.
    pub read: u64,
    /// Sectors written.
    pub written: u64,
    /// The first sector behind every record.
    pub end: u64,
    /// Records that did not begin or end at a sector's edge.
    pub widened: u64,
    /// What was noticed on the way.
    pub notes: Notes,
    /// The greatest device number.
    pub last_dev: u32,
    /// The time of the first record, in ns.
    pub first_ns: u64,
    /// The greatest time of a record, in ns.
    pub last_ns: u64,
}

impl Summary {
    fn count(&mut self, record: &Record) {
        if self.records == 0 {
            self.first_ns = record.t_ns;
        }
        self.records += 1;
        self.end = self.end.max(record.end());
        self.last_dev = self.last_dev.max(record.dev);
        self.last_ns = self.last_ns.max(record.t_ns);
        match record.op {
            Op::Read => {
                self.reads += 1;
                self.read = self.read.saturating_add(record.sectors);
            }
            Op::Write => {
                self.writes += 1;
                self.written = self.written.saturating_add(record.sectors);
            }
            Op::Flush => self.flushes += 1,
            Op::Discard => self.discards += 1,
        }
    }
}

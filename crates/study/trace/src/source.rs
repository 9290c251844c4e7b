//! Sources of requests for a study: a file or a synthetic workload.

use std::fmt;
use std::str::FromStr;

use crate::compact::Compact;
use crate::compress::{Compressibility, Draws};
use crate::error::TraceError;
use crate::file::TraceFile;
use crate::format::Format;
use crate::kvcache::{self, KvCache, KvStream};
use crate::like::{self, Like, LikeStream};
use crate::mixture::{Mixed, Mixture, PLUS};
use crate::mqsim;
use crate::notes::Notes;
use crate::reader::Reader;
use crate::record::{Extras, Op, Record};
use crate::synth::Synth;
use crate::workload::Workload;

/// Prefixes of synthetic workloads, and of those that resemble a real volume.
const SYNTH: &str = "synth:";
const LIKE: &str = "like:";

/// A workload that can be read repeatedly.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A trace.
    File(TraceFile),
    /// A synthetic workload.
    Synth(Workload),
    /// A mixture of synthetic workloads.
    Mixture(Mixture),
    /// A synthetic workload that resembles a real volume.
    Like(Like),
    /// The cache of a language model.
    KvCache(KvCache),
    /// Any of the others, defined in another program's file.
    Told(Box<Told>),
}

/// A source that is defined in another program's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The file or synthetic workload that results.
    pub(crate) plain: Source,
    /// Settings that were ignored, one sentence each.
    pub(crate) left: Vec<String>,
}

impl FromStr for Source {
    type Err = TraceError;

    /// Parses a source. `synth:…` is a synthetic workload, `kvcache:…` the cache of a language
    /// model, `….xml` MQSim's definition of workloads, and anything else a trace with optional
    /// options. A definition is read immediately.
    fn from_str(text: &str) -> Result<Self, TraceError> {
        if let Some(options) = text.strip_prefix(kvcache::PREFIX) {
            return kvcache::parse(options).map(Source::KvCache);
        }
        match text.strip_prefix(SYNTH) {
            Some(work) => match work.strip_prefix(LIKE) {
                Some(options) => like::parse(options)
                    .map(Source::Like)
                    .map_err(|why| TraceError::Workload { text: work.to_owned(), why }),
                None if work.contains(PLUS) => Ok(Source::Mixture(work.parse()?)),
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
            Source::Synth(_) | Source::Mixture(_) => f.write_str("the synthetic workload"),
            Source::KvCache(kv) => kv.fmt(f),
            Source::Like(like) => write!(f, "a workload like {}", like.volume.name),
            Source::Told(told) => told.plain.fmt(f),
        }
    }
}

impl Source {
    /// Returns the file or synthetic workload of the source; never [`Source::Told`].
    pub fn plain(&self) -> &Source {
        match self {
            Source::Told(told) => &told.plain,
            plain => plain,
        }
    }

    /// Returns the file or synthetic workload of the source, for changes.
    pub fn plain_mut(&mut self) -> &mut Source {
        match self {
            Source::Told(told) => &mut told.plain,
            plain => plain,
        }
    }

    /// Declares that the records are read only once, so that the bytes of a pipe need not be
    /// stored.
    pub fn read_once(&mut self) {
        if let Source::File(file) = self.plain_mut() {
            file.once = true;
        }
    }

    /// Returns the compressibility that the options of the source select. Without it, the file may
    /// have the compressibility of each write.
    pub fn compressibility(&self) -> Option<Compressibility> {
        match self {
            Source::File(file) => file.compress,
            Source::Synth(work) => work.compress,
            Source::Mixture(mixture) => mixture.compressibility(),
            Source::Like(like) => like.compress,
            Source::KvCache(kv) => kv.compress,
            Source::Told(told) => told.plain.compressibility(),
        }
    }

    /// Returns whether the records are partly random, so that they depend on the seed.
    pub fn is_drawn(&self) -> bool {
        match self.plain() {
            Source::File(_) | Source::KvCache(_) => self.compressibility().is_some(),
            _ => true,
        }
    }

    /// Opens the records from the start. `seed` determines random choices. `compact` packs the
    /// addresses as described for [`Compact`].
    ///
    /// # Errors
    /// When the file cannot be opened. Later errors are items of the stream.
    pub fn open(&self, seed: u64, compact: bool) -> Result<Stream, TraceError> {
        let raw = match self {
            Source::File(file) => Raw::File(Reader::open(file)?),
            Source::Synth(work) => Raw::Synth(Synth::new(*work, seed)),
            Source::Mixture(mixture) => Raw::Mixed(Mixed::new(mixture, seed)),
            Source::Like(like) => Raw::Like(LikeStream::new(like, seed)),
            Source::KvCache(kv) => Raw::KvCache(Box::new(KvStream::open(kv)?)),
            Source::Told(told) => {
                let stream = told.plain.open(seed, compact)?;
                return Ok(Stream { left: told.left.clone(), ..stream });
            }
        };
        let records = if compact { Records::Compact(Compact::new(raw)) } else { Records::Raw(raw) };
        let draws = self.compressibility().map(|choice| Draws::new(choice, seed));
        Ok(Stream { records, draws, left: Vec::new() })
    }

    /// Reads all records once and counts them.
    ///
    /// # Errors
    /// The first error in the file. A file without requests is an error too.
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
    /// Settings of another program's file that were ignored, one sentence each.
    left: Vec<String>,
}

/// Records before compressibility is drawn.
#[allow(clippy::large_enum_variant, reason = "one value per run, which is not moved")]
enum Records {
    /// Unchanged addresses.
    Raw(Raw),
    /// Packed addresses.
    Compact(Compact<Raw>),
}

impl Stream {
    /// Returns the number of records so far that did not begin or end at a sector boundary.
    pub fn widened(&self) -> u64 {
        self.notes().widened
    }

    /// Returns the format of the file, or `None` for a synthetic workload.
    pub fn format(&self) -> Option<Format> {
        match self.raw() {
            Raw::File(reader) => Some(reader.format()),
            Raw::Synth(_) | Raw::Mixed(_) | Raw::Like(_) | Raw::KvCache(_) => None,
        }
    }

    /// Returns whether repeated reads are cheap: an unpacked flat file.
    pub fn is_flat(&self) -> bool {
        matches!(&self.records, Records::Raw(Raw::File(reader)) if reader.is_flat())
    }

    /// Returns the fields that writes can have besides the usual ones.
    pub fn extras(&self) -> Extras {
        let extras = match self.raw() {
            Raw::File(reader) => reader.extras(),
            Raw::Synth(synth) => synth.extras(),
            Raw::Mixed(mixed) => mixed.extras(),
            Raw::Like(_) => Extras::default(),
            Raw::KvCache(kv) => kv.extras(),
        };
        Extras { saved: extras.saved || self.draws.is_some(), ..extras }
    }

    /// Returns the notes so far.
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

/// Records before packing.
#[allow(clippy::large_enum_variant, reason = "one value per run, which is not moved")]
enum Raw {
    /// Read from a file.
    File(Reader),
    /// Generated.
    Synth(Synth),
    /// Generated from several workloads.
    Mixed(Mixed),
    /// Generated to resemble a volume.
    Like(LikeStream),
    /// The requests of a cache.
    KvCache(Box<KvStream>),
}

impl Raw {
    fn notes(&self) -> Notes {
        match self {
            Raw::File(reader) => reader.notes(),
            Raw::Synth(_) | Raw::Mixed(_) | Raw::Like(_) => Notes::default(),
            Raw::KvCache(kv) => kv.notes(),
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
            Raw::Mixed(mixed) => mixed.next().map(Ok),
            Raw::Like(like) => like.next().map(Ok),
            Raw::KvCache(kv) => kv.next(),
        }
    }
}

/// Counters of a workload. Lengths are in sectors.
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
    /// First sector after all records.
    pub end: u64,
    /// Records that did not begin or end at a sector boundary.
    pub widened: u64,
    /// Notes of the reader.
    pub notes: Notes,
    /// Highest device number.
    pub last_dev: u32,
    /// Time of the first record, in ns.
    pub first_ns: u64,
    /// Latest time of a record, in ns.
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

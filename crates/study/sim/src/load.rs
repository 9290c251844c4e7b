//! Workloads in the form in which studies play them. A workload is read and checked once, and kept
//! in 16 bytes per request, and one more for each optional field that it has: compressibility and
//! placement id. Flat traces are not kept: they are read again from the page cache, which all
//! processes of a machine share.
//!
//! Invariants
//! - Every replay has the requests of the first reading, whether they were kept or are read again.
//! - A kept workload has requests for device 0 only. Any other is refused before it is played.

use hostftl_trace::{
    Compressibility, Extras, Grain, Notes, Op, Record, Source, Stream, TraceError,
};

/// Bits for the length in sectors of a kept request. All ones mark an index into `wide`.
const LENGTH_BITS: u32 = 24;
/// Bits for its first sector.
const LBA_BITS: u32 = 38;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;
/// Percentage for requests with unknown compressibility.
const UNKNOWN: u8 = u8::MAX;
/// Number of requests between two checks for cancellation.
const GLANCE: u64 = 1 << 16;
/// Odd multiplier that mixes bits: 2^64 divided by the golden ratio.
const DIGEST: u64 = 0x9e37_79b9_7f4a_7c15;

/// A workload and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Text of the user.
    pub name: String,
    /// Source of its requests.
    pub source: Source,
}

impl Load {
    /// Parses a trace name or `synth:…`.
    ///
    /// # Errors
    /// Invalid options.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        Ok(Load { name: text.to_owned(), source: text.parse()? })
    }

    /// Reads the workload and returns its extent, or `None` if `cancelled` returned true first.
    /// `compact` packs its addresses.
    ///
    /// # Errors
    /// A workload that can't be read.
    pub fn extent(
        &self,
        seed: u64,
        compact: bool,
        cancelled: impl Fn() -> bool,
    ) -> Result<Option<Extent>, TraceError> {
        let loaded = Loaded::new(self, seed, compact, 0, cancelled)?;
        let extent = Extent { sectors: loaded.end, duration_ns: loaded.duration() };
        Ok((!loaded.cancelled).then_some(extent))
    }
}

/// Extent of a workload in space and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// End of the highest request, in sectors.
    pub sectors: u64,
    /// Time from the first to the last request by its own clock, in ns; 0 without a clock.
    pub duration_ns: u64,
}

/// A request in 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Kept {
    t_ns: u64,
    /// From the highest bit: two bits of operation, first sector, length.
    what: u64,
}

/// Requests in memory.
#[derive(Debug, Default)]
struct List {
    kept: Vec<Kept>,
    /// Requests whose length or address does not fit into 16 bytes.
    wide: Vec<Record>,
    /// Percentage saved by compression for each request, or [`UNKNOWN`]. `None` if the workload
    /// does not state it.
    saved: Option<Vec<u8>>,
    /// Placement id of each request. `None` if the workload does not state it.
    placements: Option<Vec<u8>>,
}

impl List {
    /// Creates an empty list with space for the optional fields of the workload.
    fn new(extras: Extras) -> Self {
        let (saved, placements) = (extras.saved.then(Vec::new), extras.placement.then(Vec::new));
        List { saved, placements, ..List::default() }
    }

    fn push(&mut self, record: &Record) {
        let fits = record.lba >> LBA_BITS == 0 && record.sectors < LENGTH_MASK;
        let (lba, length) = if fits {
            (record.lba, record.sectors)
        } else {
            self.wide.push(*record);
            (self.wide.len() as u64 - 1, LENGTH_MASK)
        };
        let what = (record.op as u64) << (LBA_BITS + LENGTH_BITS) | lba << LENGTH_BITS | length;
        self.kept.push(Kept { t_ns: record.t_ns, what });
        self.saved.iter_mut().for_each(|saved| saved.push(record.saved.unwrap_or(UNKNOWN)));
        self.placements.iter_mut().for_each(|all| all.push(record.placement));
    }

    fn get(&self, index: usize) -> Option<Record> {
        let Kept { t_ns, what } = *self.kept.get(index)?;
        let lba = what >> LENGTH_BITS & ((1 << LBA_BITS) - 1);
        let op = match what >> (LBA_BITS + LENGTH_BITS) {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            _ => Op::Discard,
        };
        match what & LENGTH_MASK {
            LENGTH_MASK => Some(self.wide[lba as usize]),
            sectors => {
                let saved = self.saved.as_ref().map(|saved| saved[index]);
                let saved = saved.filter(|percent| *percent != UNKNOWN);
                let placement = self.placements.as_ref().map_or(0, |all| all[index]);
                Some(Record { saved, placement, ..Record::new(t_ns, op, 0, lba, sectors) })
            }
        }
    }

    fn bytes(&self) -> u64 {
        let fields = [&self.saved, &self.placements].into_iter().flatten();
        let fields: usize = fields.map(Vec::capacity).sum();
        let kept = self.kept.capacity() * size_of::<Kept>();
        (kept + self.wide.capacity() * size_of::<Record>() + fields) as u64
    }
}

/// A workload after its first reading.
#[derive(Debug)]
pub(crate) struct Loaded {
    source: Source,
    seed: u64,
    compact: bool,
    list: Option<List>,
    /// Number of requests.
    pub records: u64,
    /// End of the highest request, in sectors.
    pub end: u64,
    /// Highest device number.
    pub last_dev: u32,
    /// Notes of the reader.
    pub notes: Notes,
    /// Whether it did not fit into memory and is read again for each row.
    pub again: bool,
    /// Whether reading was cancelled.
    pub cancelled: bool,
    /// Digest of all requests without their times.
    digest: u64,
    /// Digest of the times of all requests.
    clock: u64,
    /// Minimum and maximum time of a request.
    times: Option<(u64, u64)>,
    /// Granularity of the first writes.
    pub grain: Grain,
    /// Whether compression saves a part of any write.
    pub compresses: bool,
}

impl Loaded {
    /// Reads `load` and keeps it in memory if it needs at most `limit` bytes. Synthetic workloads
    /// are generated anew each time.
    pub(crate) fn new(
        load: &Load,
        seed: u64,
        compact: bool,
        limit: u64,
        cancelled: impl Fn() -> bool,
    ) -> Result<Self, TraceError> {
        let source = load.source.clone();
        let mut stream = source.open(seed, compact)?;
        let is_file = matches!(source.plain(), Source::File(_));
        let is_kept = is_file && !stream.is_flat();
        let mut loaded = Loaded {
            source,
            seed,
            compact,
            list: is_kept.then(|| List::new(stream.extras())),
            records: 0,
            end: 0,
            last_dev: 0,
            notes: Notes::default(),
            again: false,
            cancelled: false,
            digest: 0,
            clock: 0,
            times: None,
            grain: Grain::default(),
            compresses: false,
        };
        for record in &mut stream {
            loaded.count(&record?, limit);
            if loaded.records.is_multiple_of(GLANCE) && cancelled() {
                loaded.cancelled = true;
                return Ok(loaded);
            }
        }
        loaded.notes = stream.notes();
        match loaded.source.plain() {
            Source::File(file) if loaded.records == 0 => {
                Err(TraceError::Empty { path: file.path.clone(), why: loaded.notes.emptiness() })
            }
            _ => Ok(loaded),
        }
    }

    fn count(&mut self, record: &Record, limit: u64) {
        self.records += 1;
        self.end = self.end.max(record.end());
        self.last_dev = self.last_dev.max(record.dev);
        self.grain.see(record);
        self.compresses |= record.saved.is_some_and(|percent| percent > 0);
        let (first, last) = self.times.unwrap_or((record.t_ns, record.t_ns));
        self.times = Some((first.min(record.t_ns), last.max(record.t_ns)));
        self.clock = (self.clock ^ record.t_ns).wrapping_mul(DIGEST).rotate_left(29);
        let saved = record.saved.map_or(0, |percent| u64::from(percent) + 1);
        let placement = u64::from(record.placement);
        for word in [record.op as u64 | saved << 8 | placement << 16, record.lba, record.sectors] {
            self.digest = (self.digest ^ word).wrapping_mul(DIGEST).rotate_left(29);
        }
        if let Some(list) = &mut self.list {
            list.push(record);
            if list.bytes() > limit {
                // Reading continues without the list, because the digest covers all requests.
                (self.list, self.again) = (None, true);
            }
        }
    }

    /// Returns a digest of the requests in order, without their times.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns a digest of the requests and their times.
    pub(crate) fn digest_with_times(&self) -> u64 {
        (self.digest ^ self.clock.rotate_left(32)).wrapping_mul(DIGEST)
    }

    /// Returns the time from the first to the last request by the workload's own clock, in ns; 0
    /// without a clock.
    pub(crate) fn duration(&self) -> u64 {
        self.times.map_or(0, |(first, last)| last - first)
    }

    /// Returns the compressibility of the written data, if the user set it.
    pub(crate) fn compressibility(&self) -> Option<Compressibility> {
        self.source.compressibility()
    }

    /// Returns its memory in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.list.as_ref().map_or(0, List::bytes)
    }

    /// Returns remarks for a reader of the results, one sentence each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut texts = self.notes.warnings();
        if self.again {
            texts.push("too long for the memory; read again for each row".to_owned());
        }
        texts
    }

    /// Returns an iterator over the requests from the start.
    pub(crate) fn open(
        &self,
    ) -> Result<impl Iterator<Item = Result<Record, TraceError>>, TraceError> {
        Ok(match &self.list {
            Some(list) => Requests::Kept(list, 0),
            None => Requests::Read(Box::new(self.source.open(self.seed, self.compact)?)),
        })
    }
}

/// Iterator over the requests of a workload.
enum Requests<'a> {
    /// Requests in memory, and the index of the next.
    Kept(&'a List, usize),
    Read(Box<Stream>),
}

impl Iterator for Requests<'_> {
    type Item = Result<Record, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Requests::Kept(list, next) => {
                let record = list.get(*next)?;
                *next += 1;
                Some(Ok(record))
            }
            Requests::Read(stream) => stream.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_trace::Writer;
    use std::path::PathBuf;

    fn load(text: &str, limit: u64) -> Loaded {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../traces").join(text);
        let load = Load::parse(path.to_str().expect("a plain path")).expect("a trace");
        Loaded::new(&load, 1, true, limit, || false).expect("it can be read")
    }

    #[test]
    fn kept_and_read_again_are_the_same() {
        let kept = load("mariadb-oltp-head.csv.zst", u64::MAX);
        let again = load("mariadb-oltp-head.csv.zst", 1 << 20);
        assert!(!kept.again && again.again && again.bytes() == 0);
        assert!(kept.bytes() <= 32 * kept.records, "a vector is at most half empty");
        let records = |loaded: &Loaded| -> Vec<Record> {
            loaded.open().expect("it opens").map(|record| record.expect("it is good")).collect()
        };
        assert_eq!(records(&kept).len() as u64, kept.records);
        assert_eq!(records(&kept), records(&again));
    }

    #[test]
    fn a_flat_trace_takes_no_memory_and_gives_the_same() {
        let kept = load("mariadb-oltp-head.csv.zst", u64::MAX);
        let path = std::env::temp_dir().join(format!("hostftl-load-{}.flat", std::process::id()));
        let mut writer = Writer::create(&path, Extras::default()).expect("a new file");
        let records = |loaded: &Loaded| -> Vec<Record> {
            loaded.open().expect("it opens").map(|record| record.expect("it is good")).collect()
        };
        records(&kept).iter().for_each(|record| writer.write(record).expect("room"));
        writer.finish().expect("it is whole");
        let load = Load::parse(path.to_str().expect("a plain path")).expect("a trace");
        let shared = Loaded::new(&load, 1, false, 0, || false).expect("it can be read");
        assert_eq!((shared.bytes(), shared.again, shared.remarks().len()), (0, false, 0));
        assert_eq!(records(&shared), records(&kept));
        assert_eq!(shared.digest_with_times(), kept.digest_with_times());
        let packed = Loaded::new(&load, 1, true, u64::MAX, || false).expect("it can be read");
        assert!(packed.bytes() > 0 && records(&packed) == records(&kept), "it is packed once");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn long_and_distant_requests_round_trip() {
        let far = Record::new(7, Op::Read, 0, 1 << 40, 8);
        let long = Record::new(8, Op::Discard, 0, 9, 1 << 30);
        let near = Record { saved: Some(67), placement: 3, ..Record::new(9, Op::Write, 0, 3, 1) };
        let all = [far, long, near, Record::flush(9, 0)];
        for (saved, placement) in [(true, true), (true, false), (false, true), (false, false)] {
            let extras = Extras { saved, placement };
            let mut list = List::new(extras);
            all.iter().for_each(|record| list.push(record));
            let found: Vec<Record> = (0..).map_while(|index| list.get(index)).collect();
            let known = |it: Record| {
                let (placement, saved) =
                    (if placement { it.placement } else { 0 }, it.saved.filter(|_| saved));
                Record { saved, placement, ..it }
            };
            assert_eq!(found, all.map(known));
        }
    }
}

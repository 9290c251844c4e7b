//! Statistics of a trace: mix, sizes, working set, writes per page, and times.

mod curves;
mod pages;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hostftl_core::SECTOR;
use serde::Serialize;

use crate::record::{Op, Record};
pub use curves::Curves;
use curves::Traffic;
use pages::{PAGE, Pages};

/// Bytes of a page.
const PAGE_BYTES: u64 = PAGE * SECTOR as u64;

/// Counters of requests.
#[derive(Debug)]
pub struct Stats {
    reads: Kind,
    writes: Kind,
    discards: Kind,
    flushes: u64,
    pages: Pages,
    end: u64,
    devices: BTreeMap<u32, u64>,
    first_ns: u64,
    last_ns: u64,
    previous_ns: Option<u64>,
    gaps: Histogram<u64>,
    /// Sectors written, by the percentage that compression saves.
    saved: BTreeMap<u64, u64>,
    traffic: Traffic,
}

/// Counters of one kind of requests.
#[derive(Debug, Default)]
struct Kind {
    requests: u64,
    sectors: u64,
    sequential: u64,
    misaligned: u64,
    /// Requests of each length in sectors.
    sizes: BTreeMap<u64, u64>,
    /// End of the last request to each device.
    ends: BTreeMap<u32, u64>,
}

/// Statistics of a trace. Sizes are in bytes, times in ns, shares from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: KindInfo,
    /// Writes.
    pub writes: KindInfo,
    /// Discards.
    pub discards: KindInfo,
    /// Flushes.
    pub flushes: u64,
    /// Share of writes among reads and writes.
    pub write_share: f64,
    /// Writes per flush, or `None` without flushes.
    pub writes_per_flush: Option<f64>,
    /// Requests to each device.
    pub devices: BTreeMap<u32, u64>,
    /// First byte after all requests.
    pub end_bytes: u64,
    /// Bytes that are read or written, in whole pages of 4 KiB.
    pub working_set_bytes: WorkingSet,
    /// Number of writes of a written 4 KiB page, or `None` without writes.
    pub writes_per_page: Option<PerPage>,
    /// Percentage that compression of the written data saves, or `None` if the trace does not have
    /// it.
    pub saved_percent: Option<Saved>,
    /// Time from the first request to the last.
    pub duration_ns: u64,
    /// Time between consecutive requests, or `None` for a single request.
    pub interarrival_ns: Option<Gaps>,
}

/// Statistics of one kind of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindInfo {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Share of requests that begin where the previous one of this kind on the same device ended.
    pub sequential: f64,
    /// Share of requests that do not begin and end at boundaries of 4 KiB pages.
    pub misaligned: f64,
    /// Sizes, or `None` without requests.
    pub size_bytes: Option<Sizes>,
    /// Number of requests for each power of two of bytes: up to this size and above the previous
    /// one.
    pub size_histogram: Vec<(u64, u64)>,
}

/// Sizes of requests in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// The largest.
    pub max: u64,
}

/// Bytes of the touched pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// Read or written.
    pub all: u64,
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// Writes per page, over the written pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerPage {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// Maximum.
    pub max: u64,
}

/// Percentage that compression saves, over the written bytes with known compressibility.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saved {
    /// The mean.
    pub mean: f64,
    /// 10th percentile.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// Share of the written bytes with known compressibility.
    pub known: f64,
}

/// Times between requests in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gaps {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
}

impl Default for Stats {
    fn default() -> Self {
        Stats {
            reads: Kind::default(),
            writes: Kind::default(),
            discards: Kind::default(),
            flushes: 0,
            pages: Pages::default(),
            end: 0,
            devices: BTreeMap::new(),
            first_ns: 0,
            last_ns: 0,
            previous_ns: None,
            gaps: Histogram::new_with_max(u64::MAX >> 1, 3).expect("three digits are allowed"),
            saved: BTreeMap::new(),
            traffic: Traffic::default(),
        }
    }
}

impl Stats {
    /// Counts `record`.
    pub fn count(&mut self, record: &Record) {
        match self.previous_ns {
            None => (self.first_ns, self.last_ns) = (record.t_ns, record.t_ns),
            Some(previous) => self.gaps.saturating_record(record.t_ns.saturating_sub(previous)),
        }
        self.previous_ns = Some(record.t_ns);
        self.first_ns = self.first_ns.min(record.t_ns);
        self.last_ns = self.last_ns.max(record.t_ns);
        self.end = self.end.max(record.end());
        *self.devices.entry(record.dev).or_default() += 1;
        self.pages.count(record);
        if let Some(percent) = record.saved {
            let sectors = self.saved.entry(percent.into()).or_default();
            *sectors = sectors.saturating_add(record.sectors);
        }
        let moved = |op| if record.op == op { record.sectors } else { 0 };
        self.traffic.count(record.t_ns, moved(Op::Read), moved(Op::Write));
        match record.op {
            Op::Read => self.reads.count(record),
            Op::Write => self.writes.count(record),
            Op::Discard => self.discards.count(record),
            Op::Flush => self.flushes += 1,
        }
    }

    /// Returns the statistics so far.
    pub fn info(&self) -> Info {
        let touched = self.pages.touched();
        let (reads, writes) = (self.reads.requests, self.writes.requests);
        let per_page = |q| quantile(&touched.writes, q);
        let total: u64 = touched.writes.iter().map(|(writes, pages)| writes * pages).sum();
        Info {
            requests: self.devices.values().sum(),
            reads: self.reads.info(),
            writes: self.writes.info(),
            discards: self.discards.info(),
            flushes: self.flushes,
            write_share: share(writes, reads + writes),
            writes_per_flush: (self.flushes > 0).then(|| share(writes, self.flushes)),
            devices: self.devices.clone(),
            end_bytes: self.end.saturating_mul(SECTOR as u64),
            working_set_bytes: WorkingSet {
                all: touched.all * PAGE_BYTES,
                read: touched.read * PAGE_BYTES,
                written: touched.written * PAGE_BYTES,
            },
            writes_per_page: (touched.written > 0).then(|| PerPage {
                mean: share(total, touched.written),
                p50: per_page(0.5),
                p90: per_page(0.9),
                p95: per_page(0.95),
                max: per_page(1.0),
            }),
            saved_percent: self.saved(),
            duration_ns: self.last_ns - self.first_ns,
            interarrival_ns: (!self.gaps.is_empty()).then(|| Gaps {
                mean: self.gaps.mean(),
                p50: self.gaps.value_at_quantile(0.5),
                p90: self.gaps.value_at_quantile(0.9),
                p99: self.gaps.value_at_quantile(0.99),
                max: self.gaps.max(),
            }),
        }
    }
}

impl Stats {
    /// Returns the curves so far.
    pub fn curves(&self) -> Curves {
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR as u64);
        let intervals = self.traffic.intervals.iter();
        Curves {
            writes_per_page: curves::per_page(&self.pages.touched().writes),
            interarrival: curves::interarrival(&self.gaps),
            traffic: intervals.map(|(read, written)| (bytes(*read), bytes(*written))).collect(),
            interval_ns: self.traffic.length_ns,
        }
    }

    fn saved(&self) -> Option<Saved> {
        let known: u64 = self.saved.values().fold(0, |sum, it| sum.saturating_add(*it));
        let weighted = self.saved.iter().map(|(percent, it)| *percent as f64 * *it as f64);
        let percent = |q| quantile(&self.saved, q);
        (known > 0).then(|| Saved {
            mean: weighted.sum::<f64>() / known as f64,
            p10: percent(0.1),
            p50: percent(0.5),
            p90: percent(0.9),
            known: share(known, self.writes.sectors),
        })
    }
}

impl Kind {
    fn count(&mut self, record: &Record) {
        self.requests += 1;
        self.sectors = self.sectors.saturating_add(record.sectors);
        *self.sizes.entry(record.sectors).or_default() += 1;
        let is_aligned = record.lba.is_multiple_of(PAGE) && record.end().is_multiple_of(PAGE);
        self.misaligned += u64::from(!is_aligned);
        let before = self.ends.insert(record.dev, record.end());
        self.sequential += u64::from(before == Some(record.lba));
    }

    fn info(&self) -> KindInfo {
        let sector = SECTOR as u64;
        let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
        for (sectors, requests) in &self.sizes {
            *histogram.entry(sectors.next_power_of_two() * sector).or_default() += requests;
        }
        KindInfo {
            requests: self.requests,
            bytes: self.sectors.saturating_mul(sector),
            sequential: share(self.sequential, self.requests),
            misaligned: share(self.misaligned, self.requests),
            size_bytes: (self.requests > 0).then(|| Sizes {
                mean: share(self.sectors.saturating_mul(sector), self.requests),
                p50: quantile(&self.sizes, 0.5) * sector,
                p90: quantile(&self.sizes, 0.9) * sector,
                max: quantile(&self.sizes, 1.0) * sector,
            }),
            size_histogram: histogram.into_iter().collect(),
        }
    }
}

/// Returns `part` divided by `whole`, or 0 if `whole` is 0.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the smallest value that is not exceeded by at least the share `q` of the counted values.
/// Returns 0 if none were counted.
fn quantile(counts: &BTreeMap<u64, u64>, q: f64) -> u64 {
    let total = counts.values().fold(0u64, |sum, count| sum.saturating_add(*count));
    let wanted = (q * total as f64).ceil() as u64;
    let mut seen = 0;
    let found = counts.iter().find(|(_, count)| {
        seen = u64::saturating_add(seen, **count);
        seen >= wanted
    });
    found.map_or(0, |(value, _)| *value)
}

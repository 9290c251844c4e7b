//! Traces: properties, requests as columns, and columns as a trace.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use hostftl_frontend::Wrong;
use hostftl_trace::{Extras, Op, Record, Stats, Stream, Writer};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::{errors, outside};

/// Number of requests between two checks for cancellation.
const GLANCE: u64 = 1 << 14;
/// Percentage for requests with unknown compressibility.
const UNKNOWN: u8 = u8::MAX;
/// Operations by code.
const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// Selection of requests.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    text: String,
    skip_bad: bool,
    seed: u64,
    compact: bool,
    /// Maximum number of requests.
    limit: Option<u64>,
}

impl Asked {
    /// Calls `take` for each request until `stop` is set. Returns the stream.
    fn each(&self, stop: &AtomicBool, mut take: impl FnMut(&Record)) -> Result<Stream, Wrong> {
        let source = hostftl_frontend::source(&self.text, self.skip_bad)?;
        let mut stream = source.open(self.seed, self.compact).map_err(Wrong::failed)?;
        let limit = usize::try_from(self.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        for (record, count) in stream.by_ref().take(limit).zip(1u64..) {
            take(&record.map_err(Wrong::failed)?);
            if count.is_multiple_of(GLANCE) && stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(stream)
    }
}

/// Runs `job` without the lock, and converts errors to exceptions.
fn outside<T: Send>(
    py: Python<'_>,
    job: impl FnOnce(&AtomicBool) -> Result<T, Wrong> + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    let done = outside::run(py, &stop, |_| Ok(()), || job(&stop))?;
    done.map_err(|why| errors::wrong(py, why))
}

/// Returns the properties of a trace, like `hostftl trace info --json`.
#[pyfunction]
pub(crate) fn trace_info(py: Python<'_>, asked: Asked) -> PyResult<String> {
    outside(py, |stop| {
        let mut stats = Stats::default();
        let stream = asked.each(stop, |record| stats.count(record))?;
        let info = stats.info();
        if info.requests == 0 {
            let why = stream.notes().emptiness();
            return Err(Wrong::failed(format!("{}: the trace has no requests{why}", asked.text)));
        }
        let format = hostftl_frontend::traces::format(&stream);
        let value = hostftl_frontend::traces::info(format, &info, &stream.notes(), false);
        value.map(|value| value.to_string()).map_err(Wrong::failed)
    })
}

/// Requests as columns of numbers in native byte order.
#[derive(Default)]
struct Columns {
    t_ns: Vec<u8>,
    op: Vec<u8>,
    dev: Vec<u8>,
    lba: Vec<u8>,
    sectors: Vec<u8>,
    saved: Vec<u8>,
}

impl Columns {
    fn push(&mut self, record: &Record) {
        self.t_ns.extend(record.t_ns.to_ne_bytes());
        self.op.push(record.op as u8);
        self.dev.extend(record.dev.to_ne_bytes());
        self.lba.extend(record.lba.to_ne_bytes());
        self.sectors.extend(record.sectors.to_ne_bytes());
        self.saved.push(record.saved.unwrap_or(UNKNOWN));
    }
}

/// A column's name, the NumPy type of its numbers, and the numbers.
type Column<'py> = (&'static str, &'static str, Bound<'py, PyBytes>);

/// Returns the requests of a trace as columns.
#[pyfunction]
pub(crate) fn trace_columns<'py>(py: Python<'py>, asked: Asked) -> PyResult<Vec<Column<'py>>> {
    let columns = outside(py, |stop| {
        let mut columns = Columns::default();
        asked.each(stop, |record| columns.push(record))?;
        Ok(columns)
    })?;
    let Columns { t_ns, op, dev, lba, sectors, saved } = columns;
    let all = [
        ("t_ns", "u8", t_ns),
        ("op", "u1", op),
        ("dev", "u4", dev),
        ("lba", "u8", lba),
        ("sectors", "u8", sectors),
        ("saved", "u1", saved),
    ];
    Ok(all.into_iter().map(|(name, kind, bytes)| (name, kind, PyBytes::new(py, &bytes))).collect())
}

/// Requests to write, as columns.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Given {
    t_ns: Vec<u64>,
    op: Vec<u8>,
    dev: Vec<u32>,
    lba: Vec<u64>,
    sectors: Vec<u64>,
    saved: Option<Vec<u8>>,
}

impl Given {
    fn record(&self, index: usize) -> Result<Record, String> {
        let op = OPS.get(usize::from(self.op[index])).copied();
        let op = op.ok_or("op must be 0 (read), 1 (write), 2 (flush) or 3 (discard)")?;
        let (t_ns, dev) = (self.t_ns[index], self.dev[index]);
        let (lba, sectors) = (self.lba[index], self.sectors[index]);
        let known = self.saved.as_ref().map(|all| all[index]).filter(|it| *it != UNKNOWN);
        let saved = known.filter(|_| op == Op::Write);
        let record = Record { saved, ..Record::new(t_ns, op, dev, lba, sectors) };
        if sectors == 0 && op != Op::Flush {
            return Err("expected at least one sector".to_owned());
        }
        match record.fault() {
            Some(expected) => Err(format!("expected {expected}")),
            None if saved.is_some_and(|percent| percent > 100) => {
                Err("expected the percentage saved by compression, up to 100".to_owned())
            }
            None => Ok(record),
        }
    }
}

/// Writes a trace to `path`, which must not exist and whose name determines the format. Returns the
/// number of requests.
#[pyfunction]
pub(crate) fn trace_write(py: Python<'_>, path: PathBuf, given: Given) -> PyResult<u64> {
    outside(py, |stop| {
        let extras = Extras { saved: given.saved.is_some(), ..Extras::default() };
        let mut writer = Writer::create(&path, extras).map_err(Wrong::failed)?;
        for index in 0..given.t_ns.len() {
            let wrong = |why| Wrong::usage(format!("{}: request {index}: {why}", path.display()));
            let record = given.record(index).map_err(wrong)?;
            writer.write(&record).map_err(Wrong::failed)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(0);
            }
        }
        writer.finish().map_err(Wrong::failed)
    })
}

//! Helpers to read traces made for a test.

use std::path::PathBuf;

use hostftl_trace::{Format, Notes, Op, Reader, Record, TraceFile};

/// The content of a trace.
pub(crate) struct Seen {
    pub format: Format,
    pub records: Vec<Record>,
    pub notes: Notes,
}

impl Seen {
    /// Returns the numbers of reads, writes, flushes and discards.
    pub(crate) fn mix(&self) -> [usize; 4] {
        [Op::Read, Op::Write, Op::Flush, Op::Discard]
            .map(|op| self.records.iter().filter(|record| record.op == op).count())
    }

    /// Returns the time from the first request to the last, in µs.
    pub(crate) fn span_us(&self) -> u64 {
        let times = self.records.iter().map(|record| record.t_ns);
        (times.clone().max().unwrap_or(0) - times.min().unwrap_or(0)) / 1_000
    }

    /// Returns all warnings as one text.
    pub(crate) fn warnings(&self) -> String {
        self.notes.warnings().join("\n")
    }
}

/// Writes a file in the test's own folder.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("field-{name}"));
    std::fs::write(&path, bytes).expect("the test's folder is writable");
    path
}

/// Reads the trace with `options` after its name. The error names it FILE.
pub(crate) fn seen(name: &str, bytes: impl AsRef<[u8]>, options: &str) -> Result<Seen, String> {
    let path = file(name, bytes.as_ref());
    open(&format!("{}{options}", path.display()))
        .map_err(|error| error.replace(&path.display().to_string(), "FILE"))
}

/// Reads the trace named by `text`.
pub(crate) fn open(text: &str) -> Result<Seen, String> {
    let file: TraceFile = text.parse().map_err(|error| format!("{error}"))?;
    let mut reader = Reader::open(&file).map_err(|error| error.to_string())?;
    let records = reader.by_ref().collect::<Result<Vec<_>, _>>().map_err(|it| it.to_string())?;
    Ok(Seen { format: reader.format(), records, notes: reader.notes() })
}

/// Returns the error of a trace that cannot be read.
pub(crate) fn error(name: &str, bytes: impl AsRef<[u8]>, options: &str) -> String {
    match seen(name, bytes, options) {
        Ok(seen) => panic!("{name}{options} has {} requests", seen.records.len()),
        Err(error) => error,
    }
}

/// Returns `count` lines made by `line`.
pub(crate) fn lines(count: u64, line: impl Fn(u64) -> String) -> String {
    (0..count).map(|number| line(number) + "\n").collect()
}

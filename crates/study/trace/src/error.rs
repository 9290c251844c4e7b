//! Errors of traces, with messages for the user.

use std::path::PathBuf;

use thiserror::Error;

use crate::format::Format;

/// Reason why a trace cannot be used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open the trace {}: {source}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file cannot be read to its end.
    #[error("cannot read the trace {} after line {line}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Last line that was read completely.
        line: u64,
        /// Error of the system or the decompressor.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{}:{line}:{column}: expected {expected}, found {found}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: usize,
        /// Expected content.
        expected: &'static str,
        /// Content that was found.
        found: String,
    },
    /// A record of a binary format is invalid.
    #[error("{}: record {record}: expected {expected}, found {found}", path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// Record, from 1.
        record: u64,
        /// Expected content.
        expected: &'static str,
        /// Content that was found.
        found: String,
    },
    /// The content has no known format.
    #[error(
        "{}: unknown trace format, the file begins with '{begins}'; state the format, as in \
         FILE:format=csv (one of {}), or describe a table, as in \
         FILE:columns=time:us,op,offset:bytes,length:bytes",
        path.display(),
        Format::names()
    )]
    Unknown {
        /// Path of the file.
        path: PathBuf,
        /// Start of its first line, with escapes for bytes that are not text.
        begins: String,
    },
    /// The content has a known format that cannot be read.
    #[error("cannot read {}: it is {what}; {next}", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Kind of file.
        what: &'static str,
        /// Next step for the user.
        next: String,
    },
    /// The content does not have the format that the user named.
    #[error("cannot read {}: not a {format} file", path.display())]
    NotThat {
        /// Path of the file.
        path: PathBuf,
        /// Format that the user named.
        format: Format,
    },
    /// The options after a file's name are invalid.
    #[error("{text}: {why}")]
    Options {
        /// Name of the file with its options.
        text: String,
        /// Reason, and valid options.
        why: String,
    },
    /// The name of a file does not determine the format to write.
    #[error(
        "cannot write {}: the name must end with the format .csv, .hft or .flat, optionally \
         followed by .zst",
        path.display()
    )]
    Name {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write the trace {}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The trace has no requests.
    #[error("{}: the trace has no requests{why}", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
        /// Reason after a colon; empty if the file does not explain it.
        why: String,
    },
    /// A device cannot be recorded.
    #[error("{}: {why}", path.display())]
    Live {
        /// Path of the device.
        path: PathBuf,
        /// Reason, and the next step.
        why: String,
    },
    /// A file that defines workloads for another program is invalid.
    #[error("{}:{line}: {why}", path.display())]
    Definition {
        /// Path of the file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Reason.
        why: String,
    },
    /// The text of a synthetic workload is invalid.
    #[error("synth:{text}: {why}")]
    Workload {
        /// Text after `synth:`.
        text: String,
        /// Reason, and valid text.
        why: String,
    },
}

//! What can be wrong with a trace, in words for the user.

use std::path::PathBuf;

use thiserror::Error;

use crate::format::Format;

/// Why a trace can't be used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file can't be opened.
    #[error("{}: can't open the trace: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file can't be read on.
    #[error("{}: can't read the trace after line {line}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The last line that was read whole.
        line: u64,
        /// What the system, or the decompressor, said.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{}:{line}:{column}: expected {expected}, found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column in bytes, from 1.
        column: usize,
        /// What should stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A record of a binary format is not what it should be.
    #[error("{}: record {record}: expected {expected}, found {found}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The record, from 1.
        record: u64,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The content is none of the known formats.
    #[error(
        "{}: no known trace format, it begins with '{begins}'; name it as in FILE:format=csv, one \
         of {}, or describe a table as in FILE:columns=time:us,op,offset:bytes,length:bytes",
        path.display(),
        Format::names()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The beginning of its first line, with escapes for what is no text.
        begins: String,
    },
    /// The content is of a kind that is known and not read.
    #[error("{}: can't read {what}; {next}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The kind of file.
        what: &'static str,
        /// The next step for the user.
        next: String,
    },
    /// The content is not in the format that the user named.
    #[error("{}: this is no {format} file", path.display())]
    NotThat {
        /// The file.
        path: PathBuf,
        /// What the user named.
        format: Format,
    },
    /// The options behind a file's name make no sense.
    #[error("{text}: {why}")]
    Options {
        /// The file's name with its options.
        text: String,
        /// What is wrong and what is right.
        why: String,
    },
    /// A file's name does not tell the format to write.
    #[error(
        "{}: name it .csv, .hft or .flat, perhaps with .zst behind it, which tells the format",
        path.display()
    )]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// A file can't be written.
    #[error("{}: can't write the trace: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no request in it.
    #[error("{}: the trace has no requests{why}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// Why, after a colon; empty when the file explains nothing.
        why: String,
    },
    /// A device can't be recorded.
    #[error("{}: {why}", path.display())]
    Live {
        /// The device.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A file that defines workloads for another program is not what it should be.
    #[error("{}:{line}: {why}", path.display())]
    Definition {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A synthetic workload's text makes no sense.
    #[error("synth:{text}: {why}")]
    Workload {
        /// The text after `synth:`.
        text: String,
        /// What is wrong and what is right.
        why: String,
    },
}

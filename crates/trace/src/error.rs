//! What can be wrong with a trace, in words for the user.

use std::path::PathBuf;

use thiserror::Error;

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
    /// There is no request in it.
    #[error("{}: the trace has no requests", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
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

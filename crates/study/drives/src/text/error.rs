//! Errors of a drive's description.

use std::path::PathBuf;

use thiserror::Error;

use crate::pool::PoolError;

/// Reason why a drive cannot be made.
#[derive(Debug, Error)]
pub enum DriveError {
    /// The name is neither a built-in drive nor a file.
    #[error("no drive '{name}'; use {known}, or the path of a TOML file or an MQSim XML file")]
    Unknown {
        /// Requested name.
        name: String,
        /// Names of the built-in drives.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the drive {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file has an error.
    #[error("{origin}:{line}: {why}")]
    Line {
        /// Path of the file, or built-in name.
        origin: String,
        /// Line number, from 1.
        line: usize,
        /// Reason.
        why: String,
    },
    /// An option after the drive's name has an error.
    #[error("{name}:{option}: {why}")]
    Option {
        /// Name of the drive.
        name: String,
        /// Option as it was given.
        option: String,
        /// Reason.
        why: String,
    },
    /// Garbage collection would be impossible with these parameters.
    #[error("{name}: {source}")]
    Pool {
        /// Name of the drive.
        name: String,
        /// Reason.
        source: PoolError,
    },
    /// The model of the drive does not fit into memory.
    #[error(
        "{name}: the model needs {} MiB of memory, but the limit is {} MiB; use a smaller \
         capacity, such as {name}:capacity=1g",
        needed >> 20, limit >> 20
    )]
    Memory {
        /// Name of the drive.
        name: String,
        /// Bytes that the model needs.
        needed: u64,
        /// Bytes that the model may use.
        limit: u64,
    },
}

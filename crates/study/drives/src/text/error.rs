//! Why there is no such drive, in words for the user.

use std::path::PathBuf;

use thiserror::Error;

use crate::pool::PoolError;

/// Why there is no such drive.
#[derive(Debug, Error)]
pub enum DriveError {
    /// Neither a built-in drive nor a file.
    #[error("no drive '{name}': use {known}, or the path of a TOML file or of MQSim's XML")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The built-in names.
        known: String,
    },
    /// The file can't be read.
    #[error("{}: can't read the drive: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{origin}:{line}: {why}")]
    Line {
        /// The file, or the built-in name.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// An option behind the drive's name is not what it should be.
    #[error("{name}:{option}: {why}")]
    Option {
        /// The drive.
        name: String,
        /// The option as it was given.
        option: String,
        /// What is wrong.
        why: String,
    },
    /// Its collection could not work.
    #[error("{name}: {source}")]
    Pool {
        /// The drive.
        name: String,
        /// Why not.
        source: PoolError,
    },
    /// The model of the drive would not fit into memory.
    #[error(
        "{name}: the model takes {} MiB of memory, and {} MiB may be used: give it less capacity, \
         as in {name}:capacity=1g",
        needed >> 20, limit >> 20
    )]
    Memory {
        /// The drive.
        name: String,
        /// Bytes that the model takes.
        needed: u64,
        /// Bytes that it may take.
        limit: u64,
    },
}

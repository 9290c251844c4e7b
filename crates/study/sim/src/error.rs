//! Why a study has no result, in words for the user.

use std::path::PathBuf;

use hostftl_core::HostError;
use hostftl_trace::TraceError;
use thiserror::Error;

/// Why [`crate::compare`] failed.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The workload can't be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The workload touches more than every row of the drive exports.
    #[error(
        "{workload} reaches sector {end}, but every row on {drive} exports {exported} sectors \
         ({mib} MiB): use a larger drive, or --compact to pack what it touches"
    )]
    Beyond {
        /// The workload.
        workload: String,
        /// The first sector behind it.
        end: u64,
        /// The drive.
        drive: String,
        /// What all rows export.
        exported: u64,
        /// The same in MiB.
        mib: u64,
    },
    /// Even packed, the workload touches more than the drive exports.
    #[error(
        "{workload} touches {needed} MiB when packed, but every row on {drive} exports \
         {mib} MiB: use a larger drive, or a larger --export"
    )]
    TooLarge {
        /// The workload.
        workload: String,
        /// What it needs, in MiB.
        needed: u64,
        /// The drive.
        drive: String,
        /// What all rows export, in MiB.
        mib: u64,
    },
    /// A trace of several devices was not packed.
    #[error("{workload} has requests for several devices: use --compact to lay them side by side")]
    Devices {
        /// The workload.
        workload: String,
    },
    /// A closed loop keeps from 1 to 256 requests under way.
    #[error("a closed loop of {0} is not possible: use a queue depth from 1 to 256")]
    QueueDepth(u32),
    /// A layer can't export what every row does.
    #[error(
        "{layer} on {drive} can export {most} MiB, and every row exports {wanted} MiB: use a \
         smaller --export, or less spare"
    )]
    Exports {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
        /// What it can export, in MiB.
        most: u64,
        /// What every row exports, in MiB.
        wanted: u64,
    },
    /// A layer can't work on this drive.
    #[error("{layer} on {drive}: {why}")]
    Plan {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
        /// What it needs.
        why: String,
    },
    /// One row takes more memory than there is for all.
    #[error(
        "{layer} on {drive} takes {needed} MiB of memory, and there are {limit} MiB: use a smaller \
         capacity, or a larger --memory"
    )]
    Memory {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
        /// What the row takes, in MiB.
        needed: u64,
        /// What there is, in MiB.
        limit: u64,
    },
    /// A panic while a row was made.
    #[error(
        "{layer} on {drive}: a fault of HostFTL itself, told on standard error; please report this"
    )]
    Fault {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
    },
    /// A snapshot of a warm stack can't be written or used.
    #[error("{}: {why}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A law was broken: the numbers of this run mean nothing.
    #[error("{layer} on {drive}: {violation}; this is a bug, and the row is not shown")]
    Violation {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
        /// Which law.
        violation: Violation,
    },
}

impl StudyError {
    /// A panic while a row of `layer` on `drive` was made.
    pub fn fault(layer: &str, drive: &str) -> Self {
        StudyError::Fault { layer: layer.to_owned(), drive: drive.to_owned() }
    }

    /// Whether another machine, or this one at another time, might well have made the row.
    pub fn is_of_machine(&self) -> bool {
        use StudyError::{Fault, Memory, Snapshot, Trace};
        matches!(self, Trace(_) | Memory { .. } | Snapshot { .. } | Fault { .. })
    }
}

/// A law that a run must keep, broken.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Violation {
    /// Requests wait and nothing will ever happen.
    #[error("stalled at {now} ns with {outstanding} requests unanswered")]
    Stall {
        /// When.
        now: u64,
        /// How many wait.
        outstanding: u64,
    },
    /// The layer works on and answers nobody.
    #[error("no answer from {since} ns to {now} ns while {outstanding} requests waited")]
    Silence {
        /// When the last answer came, or the first request that waited.
        since: u64,
        /// When the run was given up.
        now: u64,
        /// How many wait.
        outstanding: u64,
    },
    /// Timer after timer with nothing done.
    #[error("{0} asked for its timer a million times at the same moment")]
    Livelock(&'static str),
    /// A request failed.
    #[error("a request at sector {lba} failed: {error:?}")]
    Request {
        /// Where.
        lba: u64,
        /// Why.
        error: HostError,
    },
    /// There can be no such drive.
    #[error("{0}")]
    Drive(String),
    /// A volume that was just made can't be opened.
    #[error("the volume can't be opened: {0}")]
    Unrecoverable(&'static str),
    /// A layer reads metadata back in a world that keeps none.
    #[error("the layer reads metadata, which this world does not keep")]
    Metadata,
    /// A sum that must be equal to another is not.
    #[error("{what}: {one} is not {other}")]
    Sum {
        /// What should be equal.
        what: String,
        /// One side.
        one: u64,
        /// The other.
        other: u64,
    },
    /// A layer's or a drive's own check.
    #[error("the check of {0} failed: {1}")]
    Check(&'static str, &'static str),
    /// Little's law, which holds for any queue.
    #[error("Little's law: {l:.4} requests under way on average, but λW is {lw:.4}")]
    Little {
        /// The average number under way.
        l: f64,
        /// Rate times mean time.
        lw: f64,
    },
    /// A figure that is not a number.
    #[error("{0} is not a number")]
    NotANumber(&'static str),
}

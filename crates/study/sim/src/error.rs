//! Errors of a study, as text for the user.

use std::path::PathBuf;

use hostftl_core::HostError;
use hostftl_trace::TraceError;
use thiserror::Error;

/// Error of a study or of one of its rows.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The workload can't be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The workload reaches beyond the exported capacity of the drive.
    #[error(
        "cannot run {workload} on {drive}: it reaches sector {end}, but every row exports \
         {exported} sectors ({mib} MiB); use a larger drive, or --compact to pack its addresses"
    )]
    Beyond {
        /// The workload.
        workload: String,
        /// End of its last request, in sectors.
        end: u64,
        /// The drive.
        drive: String,
        /// Sectors that every row on the drive exports.
        exported: u64,
        /// The same in MiB.
        mib: u64,
    },
    /// The workload touches more than the drive exports, even when its addresses are packed.
    #[error(
        "cannot run {workload} on {drive}: it touches {needed} MiB when packed, but every row \
         exports {mib} MiB; use a larger drive or a larger --export"
    )]
    TooLarge {
        /// The workload.
        workload: String,
        /// Size of the packed addresses in MiB.
        needed: u64,
        /// The drive.
        drive: String,
        /// Capacity that every row on the drive exports, in MiB.
        mib: u64,
    },
    /// A trace has requests for several devices and was not packed.
    #[error(
        "cannot run {workload}: it has requests for several devices; use --compact to pack \
         them into one address space"
    )]
    Devices {
        /// The workload.
        workload: String,
    },
    /// The queue depth of the closed loop is not from 1 to 256.
    #[error("cannot run a closed loop of {0}; use a queue depth from 1 to 256")]
    QueueDepth(u32),
    /// A layer can't export as much as every row must.
    #[error(
        "{layer} on {drive} can export {most} MiB, but every row exports {wanted} MiB; use a \
         smaller --export or less spare"
    )]
    Exports {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
        /// Largest capacity that the layer can export, in MiB.
        most: u64,
        /// Capacity that every row on the drive exports, in MiB.
        wanted: u64,
    },
    /// A layer can't run on this drive.
    #[error("{layer} on {drive}: {why}")]
    Plan {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
        /// The unmet requirement.
        why: String,
    },
    /// One row needs more memory than the limit for all rows.
    #[error(
        "{layer} on {drive} needs {needed} MiB of memory, but the limit is {limit} MiB; use a \
         smaller capacity or a larger --memory"
    )]
    Memory {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
        /// Memory of the row in MiB.
        needed: u64,
        /// Memory limit in MiB.
        limit: u64,
    },
    /// A row panicked.
    #[error("{layer} on {drive}: internal error, printed on standard error; please report it")]
    Fault {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
    },
    /// A file with a preconditioned stack can't be written or used.
    #[error("{}: {why}", path.display())]
    Snapshot {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A law was violated, so the figures of this run are invalid.
    #[error(
        "{layer} on {drive}: {violation}; this is a bug, and the row is omitted; please \
         report it"
    )]
    Violation {
        /// The layer.
        layer: String,
        /// The drive.
        drive: String,
        /// The violated law.
        violation: Violation,
    },
}

impl StudyError {
    /// Returns the error for a panic in the row of `layer` on `drive`.
    pub fn fault(layer: &str, drive: &str) -> Self {
        StudyError::Fault { layer: layer.to_owned(), drive: drive.to_owned() }
    }

    /// Returns whether the cause is this machine at this moment: the same row may succeed on
    /// another machine, or later.
    pub fn is_of_machine(&self) -> bool {
        use StudyError::{Fault, Memory, Snapshot, Trace};
        matches!(self, Trace(_) | Memory { .. } | Snapshot { .. } | Fault { .. })
    }
}

/// A violated law of a run.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Violation {
    /// Requests are pending, but no event is scheduled.
    #[error("stalled at {now} ns with {outstanding} requests unanswered")]
    Stall {
        /// Time in ns.
        now: u64,
        /// Number of pending requests.
        outstanding: u64,
    },
    /// The layer keeps working but completes no request.
    #[error("no completion from {since} ns to {now} ns with {outstanding} requests outstanding")]
    Silence {
        /// Time of the last completion, or of the first pending request, in ns.
        since: u64,
        /// Time at which the run was aborted, in ns.
        now: u64,
        /// Number of pending requests.
        outstanding: u64,
    },
    /// Timers fire repeatedly without progress.
    #[error("{0} set its timer a million times at the same time")]
    Livelock(&'static str),
    /// A request failed.
    #[error("a request at sector {lba} failed: {error:?}")]
    Request {
        /// First sector of the request.
        lba: u64,
        /// Error of the request.
        error: HostError,
    },
    /// The drive is invalid.
    #[error("{0}")]
    Drive(String),
    /// A volume that was just created can't be opened.
    #[error("cannot open the volume: {0}")]
    Unrecoverable(&'static str),
    /// A layer reads back metadata in a world that does not keep it.
    #[error("the layer reads metadata, but the simulation stores none")]
    Metadata,
    /// Two sums that must be equal differ.
    #[error("{quantity}: {one} is not {other}")]
    Sum {
        /// Names of both sums.
        quantity: String,
        /// First sum.
        one: u64,
        /// Second sum.
        other: u64,
    },
    /// A consistency check of a layer or a drive failed.
    #[error("the check of {0} failed: {1}")]
    Check(&'static str, &'static str),
    /// Little's law does not hold, although it holds for any queue.
    #[error("Little's law: {l:.4} requests in progress on average, but λW is {lw:.4}")]
    Little {
        /// Average number of requests in progress.
        l: f64,
        /// Arrival rate times mean latency.
        lw: f64,
    },
    /// A figure is not a number.
    #[error("{0} is not a number")]
    NotANumber(&'static str),
}

//! Observation of client requests, for recordings.

use std::fmt;

/// Observer of requests, called from several threads at the same time. It must not block.
pub trait RequestObserver: Send + Sync {
    /// Records a request that starts at byte `offset`; a flush has no range.
    fn observe(&self, what: RequestKind, offset: u64, bytes: u64);
}

impl fmt::Debug for dyn RequestObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Read of the range.
    Read,
    /// Write to the range.
    Write,
    /// Flush of completed writes.
    Flush,
    /// Trim of the range.
    Trim,
    /// Write of zeros to the range.
    Zeroes,
}

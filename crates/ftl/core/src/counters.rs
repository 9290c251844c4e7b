//! What a layer counts about itself. All lengths are in sectors.

/// Totals since the layer started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sectors that the host read.
    pub host_read: u64,
    /// Sectors that the host wrote.
    pub host_written: u64,
    /// Sectors that the host trimmed or zeroed.
    pub host_trimmed: u64,
    /// Flushes that the host sent.
    pub flushes: u64,
    /// Flushes that found something to make durable.
    pub flushes_pending: u64,
    /// Victims that garbage collection took.
    pub gc_runs: u64,
    /// Sectors that garbage collection copied.
    pub gc_copied: u64,
    /// Sectors of padding.
    pub padded: u64,
    /// Sectors of map log.
    pub map_written: u64,
    /// Sectors of checkpoint.
    pub checkpoint_written: u64,
    /// Sectors of lists of what full lines hold.
    pub lists_written: u64,
    /// Sectors of journal.
    pub journal_written: u64,
    /// Commands that failed.
    pub device_errors: u64,
}

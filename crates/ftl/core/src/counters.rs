//! Counters of a layer. All lengths are in sectors.

/// Totals since the layer started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sectors read by the host.
    pub host_read: u64,
    /// Sectors written by the host.
    pub host_written: u64,
    /// Sectors trimmed or zeroed by the host.
    pub host_trimmed: u64,
    /// Flushes of the host.
    pub flushes: u64,
    /// Flushes that had data to make durable.
    pub flushes_pending: u64,
    /// Victims of garbage collection.
    pub gc_runs: u64,
    /// Sectors copied by garbage collection.
    pub gc_copied: u64,
    /// Sectors of padding.
    pub padded: u64,
    /// Sectors of the map log.
    pub map_written: u64,
    /// Sectors of checkpoints.
    pub checkpoint_written: u64,
    /// Sectors of listings of full lines.
    pub lists_written: u64,
    /// Sectors of the journal.
    pub journal_written: u64,
    /// Commands that failed.
    pub device_errors: u64,
}

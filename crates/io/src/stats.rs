//! What a driver counts, beside what its layer counts.

use hostftl_core::{CAUSES, Cause, Counters, Tally};

/// Totals since the driver started. Lengths are in sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Inputs that the layer took.
    pub steps: u64,
    /// Requests that the layer was given.
    pub requests_in: u64,
    /// Requests that it answered.
    pub requests_out: u64,
    /// Of these, with an error.
    pub requests_failed: u64,
    /// Sectors written to the devices, by cause.
    pub sent: [u64; CAUSES],
    /// Sectors read from the devices.
    pub read: u64,
    /// Sectors reset.
    pub reset: u64,
    /// Flushes of devices.
    pub flushes: u64,
    /// Failed commands, by device.
    pub errors: Vec<u64>,
}

impl Stats {
    /// Counts a program.
    pub(crate) fn count_sent(&mut self, tally: &Tally) {
        for cause in Cause::ALL {
            self.sent[cause as usize] += u64::from(tally.get(cause));
        }
    }

    /// Sectors written to the devices, all causes.
    pub fn sent_sectors(&self) -> u64 {
        self.sent.iter().sum()
    }
}

/// A picture of a running driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The driver's totals.
    pub stats: Stats,
    /// The layer's totals.
    pub counters: Counters,
    /// Bytes of map in host memory.
    pub map_bytes: u64,
}

//! Counters of a driver, in addition to those of its layer.

use std::sync::Arc;

use hostftl_core::{CAUSES, Cause, Command, Counters, Gauges, Members, Tally, Task};

/// Totals since the driver started. Lengths are in sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Inputs that the layer processed.
    pub steps: u64,
    /// Requests passed to the layer.
    pub requests_in: u64,
    /// Requests that the layer answered.
    pub requests_out: u64,
    /// Requests that the layer answered with an error.
    pub requests_failed: u64,
    /// Sectors written to the devices, by cause.
    pub sent: [u64; CAUSES],
    /// Sectors read from the devices.
    pub read: u64,
    /// Sectors that were reset.
    pub reset: u64,
    /// Flush commands to devices.
    pub flushes: u64,
    /// Totals of each device.
    pub devices: Vec<DeviceStats>,
}

/// Totals of one device. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Sectors written to the device.
    pub sent: u64,
    /// Sectors read from the device.
    pub read: u64,
    /// Commands that failed.
    pub errors: u64,
}

impl Stats {
    /// Counts a command.
    pub(crate) fn count(&mut self, command: &Command) {
        match command {
            Command::Read { device, into, .. } => {
                self.read += u64::from(into.sectors());
                self.devices[usize::from(*device)].read += u64::from(into.sectors());
            }
            Command::Program { device, tally, .. } => {
                self.count_sent(tally);
                self.devices[usize::from(*device)].sent += u64::from(tally.total());
            }
            Command::Reset { sectors, .. } => self.reset += sectors,
            Command::Flush { .. } => self.flushes += 1,
            _ => {}
        }
    }

    /// Adds the sectors of a program by cause.
    fn count_sent(&mut self, tally: &Tally) {
        for cause in Cause::ALL {
            self.sent[cause as usize] += u64::from(tally.get(cause));
        }
    }

    /// Returns the sectors written to the devices, of all causes.
    pub fn sent_sectors(&self) -> u64 {
        self.sent.iter().sum()
    }
}

/// State of a running driver at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Counters of the driver.
    pub stats: Stats,
    /// Counters of the layer.
    pub counters: Counters,
    /// Host memory used by the map, in bytes.
    pub map_bytes: u64,
    /// Space usage of the layer, if it keeps this account.
    pub gauges: Option<Gauges>,
    /// Further values that the layer reports: see `Layer::facts`.
    pub facts: Vec<(&'static str, u64)>,
    /// Background work: see `Layer::tasks`.
    pub tasks: Vec<Task>,
    /// States of the devices.
    pub members: Members,
    /// Whether the layer accepts no more writes: see `Layer::has_failed`.
    pub failed: bool,
    /// Ranges (first sector, length) that cannot be read because of lost devices.
    pub lost_ranges: Arc<[(u64, u64)]>,
}

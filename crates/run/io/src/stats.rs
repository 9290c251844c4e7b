//! What a driver counts, beside what its layer counts.

use std::sync::Arc;

use hostftl_core::{CAUSES, Cause, Command, Counters, Gauges, Members, Tally, Task};

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
    /// By device.
    pub devices: Vec<DeviceStats>,
}

/// Totals of one device. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Sectors written to it.
    pub sent: u64,
    /// Sectors read from it.
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

    /// Counts a program.
    fn count_sent(&mut self, tally: &Tally) {
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
    /// What the layer holds, if it keeps an account of that.
    pub gauges: Option<Gauges>,
    /// What else the layer shows of its state: see `Layer::facts`.
    pub facts: Vec<(&'static str, u64)>,
    /// What goes on in the background: see `Layer::tasks`.
    pub tasks: Vec<Task>,
    /// How the devices stand.
    pub members: Members,
    /// Whether the layer writes nothing any more: see `Layer::has_failed`.
    pub failed: bool,
    /// The ranges, first sector and length, that can't be read because of lost devices.
    pub lost_ranges: Arc<[(u64, u64)]>,
}

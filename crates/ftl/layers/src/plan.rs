//! Resources and limits of a configuration.

use core::fmt;

use hostftl_core::{Limits, SECTOR};

/// The mode of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Write the metadata of an empty volume first.
    Format,
    /// Recover the volume on the devices.
    Open,
}

/// Resources and limits of a configuration, known before anything is allocated or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Limits of the exported volume.
    pub limits: Limits,
    /// Number of payload buffers of the layer.
    pub buffers: u32,
    /// Length of each buffer in sectors.
    pub buffer_sectors: u32,
    /// Bytes of map in host memory, counted as in the literature.
    pub map_bytes: u64,
    /// Bytes of other memory that grows with the devices or the parameters: counts, lists, queues,
    /// and metadata in flight.
    pub meta_bytes: u64,
}

impl Plan {
    /// Returns the bytes of the layer's payload buffers.
    pub fn buffer_bytes(&self) -> u64 {
        u64::from(self.buffers) * u64::from(self.buffer_sectors) * SECTOR as u64
    }
}

/// The reason why a configuration is impossible, for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanError(pub &'static str);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

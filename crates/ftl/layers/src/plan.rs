//! What a layer needs and gives, and why it can't.

use core::fmt;

use hostftl_core::{Limits, SECTOR};

/// How a layer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Write an empty volume's metadata first.
    Format,
    /// Recover what the devices hold.
    Open,
}

/// What a configuration needs and gives, known before anything is allocated or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the host will see.
    pub limits: Limits,
    /// How many payload buffers the layer holds for itself.
    pub buffers: u32,
    /// The length of each, in sectors.
    pub buffer_sectors: u32,
    /// Bytes of map in host memory: where everything is, as the literature counts it.
    pub map_bytes: u64,
    /// Bytes of what else grows with the devices or the parameters: counts, lists and queues, and
    /// the metadata that is on its way.
    pub meta_bytes: u64,
}

impl Plan {
    /// Bytes of the layer's own payload buffers.
    pub fn buffer_bytes(&self) -> u64 {
        u64::from(self.buffers) * u64::from(self.buffer_sectors) * SECTOR as u64
    }
}

/// Why a configuration is impossible, in words for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanError(pub &'static str);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

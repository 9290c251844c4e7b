//! Promises of layers to volumes.

use crate::config::LayerConfig;
use crate::roots::Roots;

/// Promises of a layer beyond its column of the matrix in docs/SEMANTICS.md.
#[derive(Debug)]
pub struct Promises {
    /// Returns the number of devices that a volume can lose.
    pub does_without: fn(&LayerConfig) -> u32,
    /// Whether the layer can report the ranges lost with a device and read all others. A volume is
    /// then examined without the device, to report those ranges.
    pub knows_lost: bool,
    /// Whether reads of sectors that no host wrote reach the devices. When a volume is created,
    /// such sectors are zeroed.
    pub reads_unwritten: bool,
    /// Whether an event explains a failed read of the host before the read is answered.
    pub tells_corrupt: bool,
    /// Access to the layer's roots for tools; `None` if the members of a volume cannot change.
    pub roots: Option<Roots>,
}

impl Promises {
    /// Returns whether the members of a volume can change.
    pub fn changes(&self) -> bool {
        self.roots.is_some()
    }

    /// The promises of most layers over one device.
    pub const USUAL: Promises = Promises {
        does_without: |_| 0,
        knows_lost: false,
        reads_unwritten: false,
        tells_corrupt: false,
        roots: None,
    };
}

//! Lowest level of the array: the devices, their segments, and the data buffers.
//!
//! It also contains the parts that need nothing above the devices, so that garbage collection and
//! scrub take one `&mut Media` instead of four parts. [`MetadataRepair`] rebuilds metadata from
//! parity for the map, replay, garbage collection and scrub. [`BackgroundRate`] limits the rate of
//! background work. The gauges count compressed, repaired and lost data.

use hostftl_core::Gauges;

use crate::log::background_rate::BackgroundRate;
use crate::log::buffers::Buffers;
use crate::log::devices::Devices;
use crate::log::layout::Layout;
use crate::log::redundancy::metadata::MetadataRepair;
use crate::log::segments::Segments;

#[derive(Debug)]
pub(super) struct Media {
    /// The members, and the commands to them.
    pub devices: Devices,
    /// The use of each segment.
    pub segments: Segments,
    /// The payload buffers.
    pub buffers: Buffers,
    /// Rebuilds of metadata.
    pub metadata_repair: MetadataRepair,
    /// The rate of background work.
    pub background_rate: BackgroundRate,
    /// Counters of compressed, repaired and lost data.
    pub gauges: Gauges,
}

impl Media {
    /// Returns the geometry of the volume.
    #[inline]
    pub(super) fn layout(&self) -> &Layout {
        self.devices.layout()
    }
}

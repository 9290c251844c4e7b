//! Current contents of a layer. Lengths are in bytes; `zeros`, `repaired` and `beyond_repair` are
//! counts of blocks, reads and blocks.

use crate::DeviceSet;

/// Fill level of a layer, with its damage and compression; see `Layer::gauges`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Size of all host data that is not zeros, uncompressed.
    pub mapped: u64,
    /// Valid data on the devices: compressed, without parity and metadata.
    pub valid: u64,
    /// Space for data, without parity, that is free without garbage collection.
    pub free: u64,
    /// Invalid data on the devices, which garbage collection can reclaim.
    pub stale: u64,
    /// Input of compression since the start, without all-zero blocks.
    pub packed_from: u64,
    /// Output of compression since the start.
    pub packed_into: u64,
    /// Number of all-zero blocks written since the start; they take no space.
    pub zeros: u64,
    /// Number of reads since the start that failed their check and were repaired from parity.
    pub repaired: u64,
    /// Number of blocks of the host that cannot be rebuilt, until they are written again.
    pub beyond_repair: u64,
    /// Part of [`Gauges::valid`] in segments with a missing chunk: another loss would destroy it.
    pub exposed: u64,
    /// Part of [`Gauges::valid`] in segments that miss more chunks than parity can replace. The
    /// data in the missing chunks is unreadable until a device returns.
    pub unreadable: u64,
    /// Amount of [`Gauges::valid`] that must be freed before all exposed data fits on the remaining
    /// devices with parity; 0 when space is not the obstacle.
    pub excess: u64,
    /// Limit of [`Gauges::valid`] at which writes are refused; 0 when the host sees no more than
    /// fits.
    pub valid_limit: u64,
    /// Number of further devices that the volume can lose now.
    pub may_lose: u32,
    /// Devices with missing chunks because they were added later; the chunks are rebuilt from the
    /// other devices.
    pub lacking: DeviceSet,
    /// Devices whose reads repeatedly fail or mismatch their checksums.
    pub failing: DeviceSet,
    /// Devices with known damage that is not durably repaired, and failing ones;
    /// [`Gauges::may_lose`] counts them as missing.
    pub damaged: DeviceSet,
}

//! What a layer holds at the moment. Lengths are in bytes; `zeros`,
//! `repaired` and `beyond_repair` are counts.

/// How full a layer is and what that cost; see `Layer::gauges`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// What the host would have to read to see everything that is not zeros.
    pub mapped: u64,
    /// What of it lies on the devices: compressed, without parity and without metadata.
    pub live: u64,
    /// What can be written, parity apart, before anything must be collected.
    pub free: u64,
    /// What lies on the devices and is of no use: collection could gain it. Its debt.
    pub stale: u64,
    /// What was given to compression since the start, all-zero blocks apart.
    pub packed_from: u64,
    /// What that became.
    pub packed_into: u64,
    /// How many all-zero blocks came since the start; they take no room.
    pub zeros: u64,
    /// How many reads failed their check since the start and were mended from parity.
    pub repaired: u64,
    /// How many blocks of the host nothing can bring back, until they are written again.
    pub beyond_repair: u64,
    /// What of [`Gauges::live`] lies where a chunk is missing: the next loss would take it along.
    pub exposed: u64,
    /// What of it lies in segments that miss more chunks than parity makes up for: what of that was
    /// in these chunks can't be read until a device comes back.
    pub unreadable: u64,
    /// How much of [`Gauges::live`] has to go before what is exposed fits on the devices that are
    /// left, with parity; 0 where room is not what it waits for.
    pub excess: u64,
    /// How much of [`Gauges::live`] there may be before writes are refused; 0 where the host sees
    /// no more than fits.
    pub most_live: u64,
    /// How many more devices the volume can do without now.
    pub may_lose: u32,
    /// Devices that lack chunks because they came later, as a set of bits: what they lack is made
    /// from the others.
    pub lacking: u16,
    /// Devices whose reads fail, or do not match their checksums, repeatedly, as a set of bits.
    pub failing: u16,
    /// Devices with known damage that is not repaired durably, and failing ones: they count as
    /// missing in [`Gauges::may_lose`].
    pub damaged: u16,
}

//! What a layer knows of a device before it uses it.

/// One device of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its length in sectors.
    pub sectors: u64,
    /// The grain in which the drive maps, in sectors; 1 when unknown.
    pub map_unit: u32,
    /// Whether completed writes can be lost until a flush.
    pub volatile_cache: bool,
    /// Whether the device gains when it is told which ranges hold nothing (a drive that collects).
    pub discard: bool,
    /// How many placement ids the device tells apart (FDP reclaim unit handles, write streams);
    /// 1 when it takes no hint.
    pub placements: u8,
    /// Whether the device tells what it collects next (`About::Collectible`).
    pub collection_hint: bool,
    /// How it may be written.
    pub kind: DeviceKind,
}

/// The two kinds of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Any sector, any time.
    Block,
    /// Segments with write pointers: a ZNS zone, an open-channel chunk, or a flash superblock.
    Zoned(Segments),
}

/// The geometry of a zoned device, in sectors. Segment `i` starts at `i * size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Sectors from the start of one segment to the next.
    pub size: u32,
    /// Every write is a multiple of this and starts at the write pointer.
    pub write_unit: u32,
    /// The multiple in which the device likes writes best.
    pub write_best: u32,
    /// So many sectors before the write pointer can't be read until more is written, or the segment
    /// is full.
    pub unreadable: u32,
    /// How many segments may be open at once; 0 = all.
    pub max_open: u32,
    /// How many segments there are, a multiple of `units`.
    pub count: u32,
    /// Parallel units: each has `count / units` segments that follow each other.
    pub units: u32,
}

impl DeviceInfo {
    /// A block device of `sectors` with map unit `map_unit`, a volatile cache and no use for
    /// discards.
    pub fn block(sectors: u64, map_unit: u32) -> Self {
        DeviceInfo {
            sectors,
            map_unit,
            volatile_cache: true,
            discard: false,
            placements: 1,
            collection_hint: false,
            kind: DeviceKind::Block,
        }
    }
}

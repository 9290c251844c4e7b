//! What a layer knows of a device before it uses it.

/// One device of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its length in sectors.
    pub sectors: u64,
    /// The grain in which the drive maps, in sectors; 1 when unknown.
    pub map_unit: u32,
    /// What the drive erases at once, in sectors (a superblock, an FDP reclaim unit): data that is
    /// written and discarded together in ranges of this length costs the drive no copies. 0 when
    /// unknown.
    pub reclaim_unit: u64,
    /// Whether parts of a map unit, written one after the other, become whole in a buffer that
    /// outlives a power cut before they are programmed: then a write that ends within a map unit
    /// needs no padding.
    pub merges: bool,
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
///
/// What every zoned device does, in every world:
/// - **Order.** A layer may have several programs to one segment in flight; they take place in the
///   order in which they were submitted, each at the pointer that the one before it leaves. A
///   reset is sent when no command to its segment is in flight, and what it frees is programmed
///   only when the reset is over. Segments have no order among each other.
/// - **Programs** begin at the write pointer, are multiples of `write_unit` and end within the
///   segment; the first opens the segment, and the one that reaches its end closes it. Anything
///   else, and one open segment too many, is `DeviceError::Unsupported`: a bug of the layer.
/// - **Reads** of what is not written, or not yet readable (see `unreadable`), are
///   `DeviceError::Media`. There is no out-of-band area: what a layer wants to know of a sector
///   lies in sectors.
/// - **Resets** take one whole segment and cost an erase, but nothing when it is free. They are
///   volatile as programs are: durable after a later flush.
/// - **A power cut** leaves each segment as it was after some of its resets and programs, in their
///   order: all that a flush covers, none that was not submitted, and of the last program any
///   number of write units. The pointer says where that ends, and all before it is intact.
/// - **Failures.** A program or a reset that fails with `DeviceError::Media` takes its segment
///   offline for ever, and the programs behind it fail too. Offline segments take no program and
///   no reset. After a failed program all that earlier programs wrote can still be read, and is as
///   durable as before; after a failed reset nothing can. The report's pointer of an offline
///   segment says how far it can be read. A segment may be offline from the beginning.
/// - **Marks** (`Command::Mark`) are sent when no command to their segment is in flight, and are
///   durable at once. A segment that the host marks bad goes offline, as after a failed program. An
///   offline one that it marks good is erased and free, or stays offline with `Media`. Nothing
///   happens where it is so already. A device that keeps its bad segments to itself says
///   `Unsupported`.
/// - **The report** (`About::Segments`) is the truth after a start: states, pointers, wear, and the
///   length of each segment, which may be less than `size`.
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
            reclaim_unit: 0,
            merges: false,
            volatile_cache: true,
            discard: false,
            placements: 1,
            collection_hint: false,
            kind: DeviceKind::Block,
        }
    }
}

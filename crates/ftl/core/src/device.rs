//! Properties of a device that a layer knows before it uses it.

/// Device of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Length in sectors.
    pub sectors: u64,
    /// Indirection unit of the drive in sectors; 1 when unknown.
    pub iu_sectors: u32,
    /// Unit in which the drive erases, in sectors (superblock, FDP reclaim unit); 0 when unknown.
    /// Data that is written and discarded together in ranges of this length causes no copies in the
    /// drive.
    pub reclaim_unit: u64,
    /// Whether consecutive writes to one indirection unit are merged in a power-safe buffer before
    /// they are programmed. If so, a write that ends within an indirection unit needs no padding.
    pub merges: bool,
    /// Whether completed writes can be lost until a flush.
    pub volatile_cache: bool,
    /// Whether the device benefits from discards (a drive with garbage collection).
    pub discard: bool,
    /// Number of placement ids of the device (FDP reclaim unit handles, write streams); 1 when it
    /// supports none.
    pub placements: u8,
    /// Whether the device reports the units that its garbage collection takes next
    /// (`About::Collectible`).
    pub collection_hint: bool,
    /// Restrictions on writes.
    pub kind: DeviceKind,
}

/// Kind of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// Any sector can be written at any time.
    Block,
    /// Segments with write pointers: ZNS zones, open-channel chunks, or flash superblocks.
    Zoned(Segments),
}

/// Geometry of a zoned device, in sectors. Segment `i` starts at `i * size`.
///
/// Contract of every zoned device, real or modelled:
/// - **Order.** A layer may have several programs to one segment in flight. They take effect in the
///   order of submission, each at the write pointer that the previous one leaves. A reset is sent
///   when no command to its segment is in flight, and the segment is programmed again only after
///   the reset has completed. There is no order between segments.
/// - **Programs** start at the write pointer, are multiples of `write_unit` and end within the
///   segment. The first program opens the segment; the one that reaches its end closes it. Anything
///   else, or too many open segments, is `DeviceError::Unsupported`: a bug of the layer.
/// - **Reads** of sectors that are not written, or not readable yet (see `unreadable`), are
///   `DeviceError::Media`. There is no out-of-band area: a layer stores metadata in sectors.
/// - **Resets** apply to one whole segment and cost an erase, or nothing if the segment is free.
///   Like programs they are volatile until a later flush.
/// - **A power cut** leaves each segment in the state after some prefix of its resets and programs.
///   The prefix contains everything that a flush covers, and of its last program any number of
///   write units. The write pointer is at the end of the prefix, and all sectors before it are
///   intact.
/// - **Failures.** A program or reset that fails with `DeviceError::Media` takes its segment
///   offline permanently, and the programs queued behind it fail too. Offline segments accept no
///   program and no reset. After a failed program, all data of earlier programs is still readable,
///   and as durable as before; after a failed reset nothing is readable. The reported write pointer
///   of an offline segment is the end of its readable part. A segment may be offline from the
///   beginning.
/// - **Marks** (`Command::Mark`) are sent when no command to their segment is in flight, and are
///   durable immediately. A segment that is marked bad goes offline, as after a failed program. An
///   offline segment that is marked good is erased and becomes free, or stays offline with `Media`.
///   Marking has no effect if the segment is already in that state. A device that manages its bad
///   segments itself returns `Unsupported`.
/// - **The report** (`About::Segments`) is authoritative after a start: it contains states, write
///   pointers, wear, and the length of each segment, which may be less than `size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Sectors from the start of one segment to the start of the next.
    pub size: u32,
    /// Granularity of writes; every write is a multiple of it and starts at the write pointer.
    pub write_unit: u32,
    /// Preferred granularity of writes.
    pub write_best: u32,
    /// Number of sectors before the write pointer that cannot be read until more is written or the
    /// segment is full.
    pub unreadable: u32,
    /// Maximum number of open segments; 0 is no limit.
    pub max_open: u32,
    /// Number of segments; a multiple of `units`.
    pub count: u32,
    /// Parallel units; each consists of `count / units` consecutive segments.
    pub units: u32,
}

impl DeviceInfo {
    /// Returns a block device of `sectors` sectors with indirection unit `iu_sectors`, a volatile
    /// cache and no use for discards.
    pub fn block(sectors: u64, iu_sectors: u32) -> Self {
        DeviceInfo {
            sectors,
            iu_sectors,
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

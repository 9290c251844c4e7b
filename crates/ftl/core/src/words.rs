//! Units. Addresses and lengths are in sectors unless a name says bytes, blocks or pages.

/// Bytes in a sector, the smallest unit a device writes atomically.
pub const SECTOR: usize = 512;
/// Bytes in a block, the usual unit of a volume's map and the size of a metadata page.
pub const BLOCK: usize = 4096;
/// Sectors in a block.
pub const SECTORS_PER_BLOCK: u32 = (BLOCK / SECTOR) as u32;

/// A point in time or a duration in nanoseconds. Only drivers know what clock it comes from.
pub type Nanos = u64;

//! Units. Addresses and lengths are in sectors unless a name contains bytes, blocks or pages.

/// Bytes in a sector, the smallest unit that a device writes atomically.
pub const SECTOR: usize = 512;
/// Bytes in a block, the usual unit of a volume's map and the size of a metadata page.
pub const BLOCK: usize = 4096;
/// Sectors in a block.
pub const SECTORS_PER_BLOCK: u32 = (BLOCK / SECTOR) as u32;

/// Time or duration in nanoseconds. The clock depends on the driver.
pub type Nanos = u64;

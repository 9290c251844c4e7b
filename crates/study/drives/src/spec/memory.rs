//! Memory needed by the model of a drive, compared with the memory of the machine.

use super::DriveSpec;
use crate::text::DriveError;

/// Bytes besides the tables of the pools: commands, operations, and the code itself.
const FIXED: u64 = 1 << 20;

impl DriveSpec {
    /// Returns the bytes of memory that the model of the drive takes.
    pub fn memory(&self) -> u64 {
        let pools = match self.zoned {
            Some(zoned) => 12 * u64::from(zoned.count()),
            None => u64::from(self.pool_count()) * self.pool(0).memory(),
        };
        let units = self.write_buffer / u64::from(self.map_unit);
        let pending = match self.suspend {
            Some(_) => 2 * u64::from(self.shape.lanes()) * u64::from(self.shape.blocks),
            None => 0,
        };
        pools + pending + 128 * units + FIXED
    }

    /// Checks that the model of the drive fits into `limit` bytes, or without a limit into three
    /// quarters of the machine's available memory.
    ///
    /// # Errors
    /// The memory needed and the limit.
    pub fn fits(&self, limit: Option<u64>) -> Result<(), DriveError> {
        let (needed, limit) = (self.memory(), limit.or_else(free).unwrap_or(u64::MAX));
        if needed <= limit {
            return Ok(());
        }
        Err(DriveError::Memory { name: self.name.clone(), needed, limit })
    }
}

/// Returns three quarters of the available memory in bytes, or `None` if the system does not report
/// it.
fn free() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024 / 4 * 3)
}

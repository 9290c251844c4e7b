//! How much memory the model of a drive takes, and how much there is.

use crate::spec::DriveSpec;

/// Bytes besides the tables of the pools: commands, operations, and the code's own.
const FIXED: u64 = 1 << 20;

/// Bytes that the model of `spec` takes.
pub fn of(spec: &DriveSpec) -> u64 {
    let pools = match spec.zoned {
        Some(zoned) => 12 * u64::from(zoned.count()),
        None => u64::from(spec.pool_count()) * spec.pool(0).memory(),
    };
    let units = spec.write_buffer / u64::from(spec.map_unit);
    let pending = match spec.suspend {
        Some(_) => 2 * u64::from(spec.shape.lanes()) * u64::from(spec.shape.blocks),
        None => 0,
    };
    pools + pending + 128 * units + FIXED
}

/// Three quarters of the bytes that the system says are free, if it says so.
pub fn free() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024 / 4 * 3)
}

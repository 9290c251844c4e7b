//! The available memory of this machine.

use std::fs;

/// Assumed memory if the system does not report it.
const UNKNOWN: u64 = 4 << 30;

/// Returns the default memory limit of studies in bytes: three quarters of the available memory
/// that the system reports.
pub fn default_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    available(&text).map_or(UNKNOWN, |bytes| bytes / 4 * 3)
}

/// Returns the bytes that `/proc/meminfo` reports as available.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found() {
        let text = "MemTotal:       24645632 kB\nMemAvailable:   23456789 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(23_456_789 * 1024));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }
}

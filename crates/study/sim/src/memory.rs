//! How much memory this machine has to give.

use std::fs;

/// What is assumed where the system does not tell.
const UNKNOWN: u64 = 4 << 30;

/// Bytes that studies take at most unless the user says otherwise: three quarters of what the
/// system says is available.
pub fn default_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    available(&text).map_or(UNKNOWN, |bytes| bytes / 4 * 3)
}

/// The bytes that `/proc/meminfo` calls available.
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

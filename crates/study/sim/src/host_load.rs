//! The load on a drive, in the units of its owner.

use std::fmt;
use std::str::FromStr;

use hostftl_core::Size;

/// Seconds per day.
pub(crate) const DAY: f64 = 86_400.0;

/// The amount of data that a host writes to a drive. It does not depend on the capacity of the
/// model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostLoad {
    /// Bytes per day: `12TB/day`, or `200MB/s`.
    PerDay(f64),
    /// Full writes of the drive's capacity per day: `0.3dwpd`.
    DriveWrites(f64),
    /// Multiples of the workload at its own rate: `40x`.
    Times(f64),
}

impl Default for HostLoad {
    fn default() -> Self {
        HostLoad::Times(1.0)
    }
}

impl HostLoad {
    /// Returns the bytes per day for a drive of `capacity` bytes and a workload that writes
    /// `own_rate` bytes per second by its own clock. `None` if the load is relative to a workload
    /// without a clock.
    pub fn bytes_per_day(self, capacity: f64, own_rate: Option<f64>) -> Option<f64> {
        match self {
            HostLoad::PerDay(bytes) => Some(bytes),
            HostLoad::DriveWrites(writes) => Some(writes * capacity),
            HostLoad::Times(times) => own_rate.map(|rate| rate * times * DAY),
        }
    }

    /// Returns whether the load is relative to the rate of the workload, which then needs a clock.
    pub fn needs_clock(self) -> bool {
        matches!(self, HostLoad::Times(_))
    }
}

impl FromStr for HostLoad {
    type Err = String;

    /// Parses `12TB/day`, `200MB/s`, `0.3dwpd` or `40x`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a load; write 12TB/day, 200MB/s, 0.3dwpd or 40x");
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            number.filter(|it| it.is_finite() && *it > 0.0).ok_or_else(wrong)
        };
        let size = |text: &str| {
            let size = Size::parse_sold(text.trim()).filter(|size| size.bytes() > 0);
            size.map(|size| size.bytes() as f64).ok_or_else(wrong)
        };
        let lower = text.to_ascii_lowercase();
        if let Some(times) = lower.strip_suffix('x') {
            return number(times).map(HostLoad::Times);
        }
        if let Some(writes) = lower.strip_suffix("dwpd") {
            return number(writes).map(HostLoad::DriveWrites);
        }
        let (bytes, seconds) = match text.split_once('/') {
            Some((bytes, "day" | "d")) => (bytes, DAY),
            Some((bytes, "s")) => (bytes, 1.0),
            _ => return Err(wrong()),
        };
        Ok(HostLoad::PerDay(size(bytes)? * DAY / seconds))
    }
}

impl fmt::Display for HostLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostLoad::PerDay(bytes) => write!(f, "{:.3} GB/day", bytes / 1e9),
            HostLoad::DriveWrites(writes) => write!(f, "{writes} dwpd"),
            HostLoad::Times(times) => write!(f, "{times}x"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_in_the_units_of_owners() {
        let good = [
            ("12TB/day", HostLoad::PerDay(12e12)),
            ("500GB/d", HostLoad::PerDay(500e9)),
            ("200MB/s", HostLoad::PerDay(200e6 * DAY)),
            ("0.3dwpd", HostLoad::DriveWrites(0.3)),
            ("0.3DWPD", HostLoad::DriveWrites(0.3)),
            ("40x", HostLoad::Times(40.0)),
        ];
        good.iter().for_each(|(text, load)| assert_eq!(text.parse(), Ok(*load), "{text}"));
        for bad in
            ["", "x", "0x", "-1x", "NaNx", "infx", "12", "12TB", "12TB/week", "0TB/day", "/s"]
        {
            assert!(bad.parse::<HostLoad>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_a_load_in_drive_writes_depends_on_the_capacity() {
        let per_day = |load: HostLoad, capacity| load.bytes_per_day(capacity, Some(100.0));
        for load in [HostLoad::PerDay(7.0), HostLoad::Times(2.0)] {
            assert_eq!(per_day(load, 1e12), per_day(load, 1e15));
        }
        assert_eq!(per_day(HostLoad::DriveWrites(0.5), 1e12), Some(0.5e12));
        assert_eq!(HostLoad::default().bytes_per_day(1e12, None), None);
    }
}

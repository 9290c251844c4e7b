//! Units of time in traces.

use std::fmt;
use std::str::FromStr;

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Windows file time: 100 ns.
    Ticks,
    /// Nanoseconds.
    Nanos,
}

impl Unit {
    /// All units, from the longest to the shortest.
    pub const ALL: [Unit; 5] =
        [Unit::Seconds, Unit::Millis, Unit::Micros, Unit::Ticks, Unit::Nanos];

    /// Returns its length in nanoseconds.
    #[inline]
    pub const fn ns(self) -> u64 {
        match self {
            Unit::Seconds => 1_000_000_000,
            Unit::Millis => 1_000_000,
            Unit::Micros => 1_000,
            Unit::Ticks => 100,
            Unit::Nanos => 1,
        }
    }

    /// Returns its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Millis => "ms",
            Unit::Micros => "us",
            Unit::Ticks => "100ns",
            Unit::Nanos => "ns",
        }
    }

    /// Returns the expected content for error messages.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Unit::Seconds => "a time in seconds",
            Unit::Millis => "a time in milliseconds",
            Unit::Micros => "a time in microseconds",
            Unit::Ticks => "a time in units of 100 ns",
            Unit::Nanos => "a time in nanoseconds",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Unit::ALL.into_iter().find(|unit| unit.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a unit of time; use s, ms, us, 100ns or ns"))
    }
}

//! Options for the limits that a recommended layer must meet, of `advise` and `compare`.

use hostftl_sim::Limits;

use crate::units;

/// Limits that a recommended layer must meet.
#[derive(clap::Args)]
pub(super) struct LimitArgs {
    /// Memory limit of the layer
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    ram: Option<u64>,
    /// Minimum life of the drive at this load, such as 5y
    #[arg(long, value_name = "YEARS", value_parser = units::parse_years)]
    life: Option<f64>,
    /// Limit of the 99th percentile of reads and writes, such as 5ms
    #[arg(long, value_name = "TIME", value_parser = units::parse_nanos)]
    p99: Option<u64>,
    /// Minimum of the requests/s, relative to no layer
    #[arg(long, value_name = "FACTOR", default_value = "90%", value_parser = units::parse_factor)]
    min_speed: f64,
    /// Maximum 99th percentile, relative to no layer
    #[arg(long, value_name = "FACTOR", default_value = "1.5x", value_parser = units::parse_factor)]
    max_latency: f64,
}

impl LimitArgs {
    /// Returns whether there is a minimum life.
    pub(super) fn has_life(&self) -> bool {
        self.life.is_some()
    }

    /// Returns the limits.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.ram,
            p99_ns: self.p99,
            years: self.life,
            speed: self.min_speed,
            latency: self.max_latency,
        }
    }
}

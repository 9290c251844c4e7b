//! Figures of a data sheet.

/// A figure of a data sheet that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A sustained rate.
    Rate(Rate),
    /// Size of the random writes that are rated, in KiB.
    RandomWriteKib,
    /// Latency of a random read of 4 KiB at queue depth 1, in µs.
    ReadLatency,
    /// Latency of a write of 4 KiB at queue depth 1, in µs.
    WriteLatency,
    /// Drive writes per day for five years.
    Dwpd,
    /// 10^12 bytes that the host may write.
    Tbw,
}

/// A sustained rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Sequential reads of 128 KiB, in MB/s.
    SequentialRead,
    /// Sequential writes of 128 KiB, in MB/s.
    SequentialWrite,
    /// Random reads of 4 KiB per second.
    RandomRead,
    /// Random writes per second on a full drive in steady state.
    RandomWrite,
}

impl Rate {
    /// All rates, in the order in which users see them.
    pub const ALL: [Rate; 4] =
        [Rate::SequentialRead, Rate::SequentialWrite, Rate::RandomRead, Rate::RandomWrite];

    /// Returns its key in the data sheet.
    pub fn key(self) -> &'static str {
        match self {
            Rate::SequentialRead => "sequential_read_mbs",
            Rate::SequentialWrite => "sequential_write_mbs",
            Rate::RandomRead => "random_read_iops",
            Rate::RandomWrite => "random_write_iops",
        }
    }
}

impl Figure {
    /// All figures, in the order in which users see them.
    pub const ALL: [Figure; 9] = [
        Figure::Rate(Rate::SequentialRead),
        Figure::Rate(Rate::SequentialWrite),
        Figure::Rate(Rate::RandomRead),
        Figure::Rate(Rate::RandomWrite),
        Figure::RandomWriteKib,
        Figure::ReadLatency,
        Figure::WriteLatency,
        Figure::Dwpd,
        Figure::Tbw,
    ];

    /// Returns its key in the data sheet.
    pub fn key(self) -> &'static str {
        match self {
            Figure::Rate(rate) => rate.key(),
            Figure::RandomWriteKib => "random_write_kib",
            Figure::ReadLatency => "read_latency_us",
            Figure::WriteLatency => "write_latency_us",
            Figure::Dwpd => "dwpd",
            Figure::Tbw => "tbw",
        }
    }
}

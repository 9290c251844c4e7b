//! One request of a trace.

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads the range.
    Read,
    /// Writes the range.
    Write,
    /// Makes completed writes durable; has no range.
    Flush,
    /// Says that the range is not needed.
    Discard,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it arrived, in ns from the trace's own zero.
    pub t_ns: u64,
    /// What it does.
    pub op: Op,
    /// The device of the trace that it was sent to; 0 when the trace has one.
    pub dev: u32,
    /// The first sector; 0 for a flush.
    pub lba: u64,
    /// How many sectors; 0 for a flush, at least 1 for every other.
    pub sectors: u64,
}

impl Record {
    /// The first sector behind it.
    pub fn end(&self) -> u64 {
        self.lba + self.sectors
    }
}

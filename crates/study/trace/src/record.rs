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
    /// Per cent of a write's bytes that compressing them saves, up to 100; nothing when the trace
    /// does not say, and for everything that does not write.
    pub saved: Option<u8>,
}

/// Sectors that a device has at most: 8 EiB.
const MOST_SECTORS: u64 = 1 << 54;
/// Sectors that are read or written at once at most: 4 GiB.
const MOST_AT_ONCE: u64 = 1 << 23;
/// Sectors that are discarded at once at most: 16 TiB.
const MOST_DISCARDED: u64 = 1 << 35;

impl Record {
    /// A request of whose data nothing is known.
    #[inline]
    pub const fn new(t_ns: u64, op: Op, dev: u32, lba: u64, sectors: u64) -> Self {
        Record { t_ns, op, dev, lba, sectors, saved: None }
    }

    /// A flush.
    #[inline]
    pub const fn flush(t_ns: u64, dev: u32) -> Self {
        Record::new(t_ns, Op::Flush, dev, 0, 0)
    }

    /// What a record should be that no device could be asked for; nothing for one that could.
    #[inline]
    pub fn fault(&self) -> Option<&'static str> {
        if self.sectors > MOST_SECTORS || self.lba > MOST_SECTORS - self.sectors {
            return Some("a range below 8 EiB");
        }
        match self.op {
            Op::Discard => (self.sectors > MOST_DISCARDED).then_some("a length of at most 16 TiB"),
            _ => (self.sectors > MOST_AT_ONCE).then_some("a length of at most 4 GiB"),
        }
    }

    /// The first sector behind it.
    pub fn end(&self) -> u64 {
        self.lba + self.sectors
    }
}

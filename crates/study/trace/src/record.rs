//! A request of a trace.

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read of the range.
    Read,
    /// Write of the range.
    Write,
    /// Flush of completed writes; it has no range.
    Flush,
    /// Discard of the range, whose data is no longer needed.
    Discard,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Arrival time in ns, relative to the trace's own zero.
    pub t_ns: u64,
    /// Operation.
    pub op: Op,
    /// Device of the trace; 0 if the trace has only one.
    pub dev: u32,
    /// First sector; 0 for a flush.
    pub lba: u64,
    /// Number of sectors; 0 for a flush, at least 1 otherwise.
    pub sectors: u64,
    /// Percentage of a write's bytes that compression saves, up to 100. `None` if the trace does
    /// not have it, and for other operations.
    pub saved: Option<u8>,
    /// Placement id of a write: writes with the same id should share the drive's erase blocks. 0 if
    /// the trace does not have it, and for other operations.
    pub placement: u8,
}

/// Fields of writes that not every trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Whether writes can have a compressibility.
    pub saved: bool,
    /// Whether writes can have a placement id.
    pub placement: bool,
}

impl Extras {
    /// Returns the version of a binary format whose version without these fields is `plain`.
    pub(crate) fn version(self, plain: u8) -> u8 {
        plain + u8::from(self.saved) + 4 * u8::from(self.placement)
    }

    /// Returns the fields of a binary file with this version, or `None` if its format, which has
    /// version `plain` without these fields, has no such version.
    pub(crate) fn of_version(version: u8, plain: u8) -> Option<Self> {
        let all = [false, true].into_iter();
        let mut all =
            all.flat_map(|saved| [false, true].map(|placement| Extras { saved, placement }));
        all.find(|extras| extras.version(plain) == version)
    }

    /// Returns a record without the fields that a trace cannot have.
    pub(crate) fn strip(self, record: &Record) -> Record {
        let saved = record.saved.filter(|_| self.saved);
        let placement = if self.placement { record.placement } else { 0 };
        Record { saved, placement, ..*record }
    }
}

/// Maximum sectors of a device: 8 EiB.
const MOST_SECTORS: u64 = 1 << 54;
/// Maximum sectors of a read or write: 4 GiB.
const MOST_AT_ONCE: u64 = 1 << 23;
/// Maximum sectors of a discard: 16 TiB.
const MOST_DISCARDED: u64 = 1 << 35;

impl Record {
    /// Makes a request with unknown compressibility and placement id 0.
    #[inline]
    pub const fn new(t_ns: u64, op: Op, dev: u32, lba: u64, sectors: u64) -> Self {
        Record { t_ns, op, dev, lba, sectors, saved: None, placement: 0 }
    }

    /// Makes a flush.
    #[inline]
    pub const fn flush(t_ns: u64, dev: u32) -> Self {
        Record::new(t_ns, Op::Flush, dev, 0, 0)
    }

    /// Returns the limit that the record violates, or `None` for a possible request.
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

    /// Returns the first sector after the range.
    pub fn end(&self) -> u64 {
        self.lba + self.sectors
    }
}

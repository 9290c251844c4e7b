//! What one block operation is, and what it is doing.

use hostftl_core::SECTORS_PER_BLOCK;
use hostftl_format::log::Place;

use crate::log::redundancy::rebuild::Rebuild;

/// Of an operation: no request waits for it.
pub const NOBODY: u16 = u16::MAX;

/// How far a rescue has come, and what comes into the sum next, or is on its way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescue {
    /// It is read.
    Reading(Rebuild),
    /// It is folded into the sum.
    Folding(Rebuild),
    /// The checksum of the sum is made.
    Checking(Rebuild),
}

/// What an operation is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The page that says where its record is comes into memory.
    Mapping,
    /// Its record is read from a device.
    Reading,
    /// The record is expanded into the host's buffer.
    Expanding,
    /// The record is expanded into the scratch, or that is filled with zeros.
    Plain,
    /// The record is made from other chunks; see [`crate::log::redundancy::record`].
    Rescuing(Rescue),
    /// Part of the plain block goes to the host, or zeros do.
    Giving,
    /// The host's part goes into the plain block.
    Merging,
    /// The block is compressed.
    Packing,
    /// The record is ready for a row.
    Waiting { len: u32, crc: u32 },
    /// The block is zeros: a row has to list that.
    Unmapping,
    /// The record goes into row `row` as item `item`.
    Placing { row: u8, item: u32 },
}

/// See the module text.
#[derive(Clone, Copy, Debug)]
pub struct BlockOp {
    pub req: u16,
    pub block: u64,
    /// The host's part: the first sector within the block, and how many.
    pub from: u32,
    pub sectors: u32,
    /// Where in the host's buffer that is, in sectors.
    pub at: u32,
    /// Whether it writes; without `data` it writes zeros.
    pub writes: bool,
    pub data: bool,
    /// Whether its page is kept in memory for it.
    pub pinned: bool,
    pub generation: u8,
    pub place: Place,
    pub crc: u32,
    /// The row from which it reads.
    pub row: Option<u8>,
    /// Whether the segment of `place` is kept for it: what is read may turn out wrong, and then the
    /// other chunks of the row are read.
    pub holds: bool,
    /// Where the record lies that had to be made from other chunks.
    pub rescued: Option<Place>,
    /// Whether the medium could not give it, or not as it was written.
    pub flawed: bool,
    pub step: Step,
}

impl BlockOp {
    pub fn is_whole(&self) -> bool {
        self.sectors == SECTORS_PER_BLOCK
    }
}

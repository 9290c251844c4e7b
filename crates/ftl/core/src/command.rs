//! Commands of a layer and their completions.
//!
//! A command owns the buffers it uses and returns inside its [`Done`], so no buffer is copied, lost
//! or used twice. A driver may complete commands in any order.

use alloc::vec::Vec;

use crate::cause::{Cause, Tally};
use crate::field::Factors;
use crate::meta::MetaBuf;
use crate::payload::{View, ViewMut};
use crate::words::{BLOCK, SECTOR, SECTORS_PER_BLOCK};
use arrayvec::ArrayVec;

/// Id of a command in flight, chosen by the layer; unique among those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// Maximum number of pieces in a gather list or a fold.
pub const MAX_PIECES: usize = 4;

/// Source of bytes to write.
#[derive(Debug)]
pub enum Piece {
    /// Part of a payload.
    Data(View),
    /// First `pages` pages of a metadata buffer.
    Meta {
        /// Buffer, moved along with the command.
        buf: MetaBuf,
        /// Number of pages in use.
        pages: u32,
    },
    /// Number of zero bytes.
    Zeros(u32),
}

impl Piece {
    /// Returns zeros, counted in sectors.
    #[inline]
    pub fn zero_sectors(sectors: u32) -> Self {
        Piece::Zeros(sectors * SECTOR as u32)
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn bytes(&self) -> u32 {
        match self {
            Piece::Data(view) => view.bytes(),
            Piece::Meta { pages, .. } => pages * BLOCK as u32,
            Piece::Zeros(bytes) => *bytes,
        }
    }

    /// Discards the buffers, after a power cut.
    pub fn void(self) {
        if let Piece::Data(view) = self {
            view.void();
        }
    }
}

/// Data of a program, in order. Its length is a whole number of sectors.
pub type Gather = ArrayVec<Piece, MAX_PIECES>;

/// Destination of a read.
#[derive(Debug)]
pub enum Target {
    /// Part of a payload.
    Data(ViewMut),
    /// First `pages` pages of a metadata buffer.
    Meta {
        /// Buffer, moved along with the command.
        buf: MetaBuf,
        /// Number of pages in use.
        pages: u32,
    },
}

impl Target {
    /// Returns the length in sectors.
    #[inline]
    pub fn sectors(&self) -> u32 {
        match self {
            Target::Data(view) => view.sectors(),
            Target::Meta { pages, .. } => pages * SECTORS_PER_BLOCK,
        }
    }
}

/// Compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// LZ4 block format.
    Lz4,
    /// Zstandard with a level.
    Zstd(i8),
    /// Uncompressed.
    Raw,
}

/// Range of a `Move`; offsets are in bytes from the starts of the two views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset in the source.
    pub from: u32,
    /// Offset in the target.
    pub into: u32,
    /// Length in bytes.
    pub len: u32,
    /// Expected CRC-32C, initialised with `seed`.
    pub crc: u32,
    /// Seed of `crc`.
    pub seed: u64,
}

/// Information that a device can report; a device without it refuses the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// LBAs in the blocks that the drive collects next, if `DeviceInfo::collection_hint`: a list of
    /// the first sectors of indirection units.
    Collectible,
    /// States of the segments of a zoned device, starting with this one.
    Segments(u32),
}

/// Operation that a layer submits to a driver. `device` is an index into the stack; `lba` is in
/// sectors.
#[derive(Debug)]
#[allow(missing_docs, reason = "the text of each command names its fields")]
pub enum Command {
    /// Fills `into` from a device.
    Read { device: u8, lba: u64, into: Target, cause: Cause },
    /// Writes `gather` to a device; durable only after a later `Flush`. `tally` sums to its length.
    /// Data with the same `placement` should share the drive's erase blocks; devices without
    /// placement ids (see `DeviceInfo::placements`) ignore it.
    Program { device: u8, lba: u64, gather: Gather, tally: Tally, placement: u8 },
    /// Erases a segment, resets a zone, or trims a range of a block device, which then reads zeros.
    Reset { device: u8, lba: u64, sectors: u64 },
    /// Marks the segment of a zoned device that starts at `lba` as bad, or as good again.
    Mark { device: u8, lba: u64, bad: bool },
    /// Makes durable every command that `device` completed before the submission of this one.
    Flush { device: u8 },
    /// Fills `into` with a report of the device, in the encoding of `format`; the verdict has the
    /// number of bytes.
    Report { device: u8, about: About, into: MetaBuf },
    /// Copies `from` to `into`, which has the same length.
    Place { from: Piece, into: ViewMut },
    /// Copies `from` to the first `pages` pages of `into`, so that the layer can read the content.
    /// Drivers without payload bytes return zeros.
    Peek { from: View, into: MetaBuf, pages: u32 },
    /// Compresses `from` into `into`. The verdict has the length and CRC-32C of the result; a
    /// length of 0 and the CRC-32C of `from` if the result did not fit; or [`ALL_ZEROS`] if `from`
    /// is all zeros.
    Pack { from: View, into: ViewMut, codec: Codec, seed: u64 },
    /// Checks the CRC-32C of `from` and expands it into `into`; a mismatch is `DeviceError::Media`.
    Unpack { from: View, into: ViewMut, codec: Codec, seed: u64, crc: u32 },
    /// Returns the CRC-32C of `from`, initialised with `seed`, in the verdict.
    Digest { from: View, seed: u64 },
    /// Checks and copies `parts` of `from` to `into`, in order, up to the first one with a wrong
    /// CRC-32C. The verdict has the number of parts copied.
    Move { from: View, into: ViewMut, parts: Vec<Part> },
    /// Replaces `into` by the sum of all of `from` and of its previous content, each multiplied by
    /// its factor.
    Fold { from: ArrayVec<View, MAX_PIECES>, into: ViewMut, factors: Factors },
}

impl Command {
    /// Returns the target device, if the command has one.
    #[inline]
    pub fn device(&self) -> Option<u8> {
        match self {
            Command::Read { device, .. }
            | Command::Program { device, .. }
            | Command::Reset { device, .. }
            | Command::Mark { device, .. }
            | Command::Flush { device }
            | Command::Report { device, .. } => Some(*device),
            _ => None,
        }
    }

    /// Discards every buffer in the command, after a power cut.
    pub fn void(self) {
        match self {
            Command::Read { into: Target::Data(view), .. } => forget(view.void()),
            Command::Read { .. }
            | Command::Reset { .. }
            | Command::Mark { .. }
            | Command::Flush { .. }
            | Command::Report { .. } => {}
            Command::Program { gather, .. } => gather.into_iter().for_each(Piece::void),
            Command::Place { from, into } => {
                from.void();
                into.void();
            }
            Command::Pack { from, into, .. } | Command::Unpack { from, into, .. } => {
                from.void();
                into.void();
            }
            Command::Digest { from, .. } | Command::Peek { from, .. } => forget(from.void()),
            Command::Move { from, into, .. } => {
                from.void();
                into.void();
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view| forget(view.void()));
                into.void();
            }
        }
    }
}

/// Gives match arms that only return a buffer's id the type `()`.
fn forget(_name: u32) {}

/// Length that `Pack` reports for zeros; it writes nothing for them.
pub const ALL_ZEROS: u32 = u32::MAX;

/// Result of a command on bytes; zero where the command has no such result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Bytes that `Pack` or `Unpack` produced or a `Report` filled; number of parts that a `Move`
    /// copied.
    pub bytes: u32,
    /// CRC-32C that `Pack` or `Digest` computed. Zero under drivers without payload bytes.
    pub crc: u32,
}

/// Reason why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceError {
    /// The medium cannot return the data, or the data failed its check.
    Media,
    /// The device has no space, like a file on a full file system.
    NoSpace,
    /// The device disappeared; all further commands will fail.
    Removed,
    /// The device refuses the command.
    Unsupported,
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            DeviceError::Media => "media error",
            DeviceError::NoSpace => "no space on the device",
            DeviceError::Removed => "device gone",
            DeviceError::Unsupported => "not supported by the device",
        })
    }
}

/// Completed command, successful or not.
#[derive(Debug)]
pub struct Done {
    /// Token of its submission.
    pub token: Token,
    /// The command with its buffers.
    pub command: Command,
    /// Outcome of the command.
    pub result: Result<Verdict, DeviceError>,
}

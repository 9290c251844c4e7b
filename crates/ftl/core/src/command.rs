//! Commands: everything a layer asks for, and what comes back.
//!
//! A command owns the buffers it uses, and the same command comes back inside its [`Done`], so that
//! nothing is copied, lost or used twice. A driver may complete commands in any order.

use alloc::vec::Vec;

use crate::cause::{Cause, Tally};
use crate::field::Factors;
use crate::meta::MetaBuf;
use crate::payload::{View, ViewMut};
use crate::words::{BLOCK, SECTOR, SECTORS_PER_BLOCK};
use arrayvec::ArrayVec;

/// The layer's name for a command in flight; unique among those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// The most pieces that a gather list or a fold has.
pub const MAX_PIECES: usize = 4;

/// Where bytes to write come from.
#[derive(Debug)]
pub enum Piece {
    /// Part of a payload.
    Data(View),
    /// The first `pages` pages of a metadata buffer.
    Meta {
        /// The buffer, moved along.
        buf: MetaBuf,
        /// How many of its pages are meant.
        pages: u32,
    },
    /// So many zero bytes.
    Zeros(u32),
}

impl Piece {
    /// Zeros, counted in sectors.
    #[inline]
    pub fn zero_sectors(sectors: u32) -> Self {
        Piece::Zeros(sectors * SECTOR as u32)
    }

    /// Its length in bytes.
    #[inline]
    pub fn bytes(&self) -> u32 {
        match self {
            Piece::Data(view) => view.bytes(),
            Piece::Meta { pages, .. } => pages * BLOCK as u32,
            Piece::Zeros(bytes) => *bytes,
        }
    }

    /// Forgets the buffers in it: the power is off.
    pub fn void(self) {
        if let Piece::Data(view) = self {
            view.void();
        }
    }
}

/// What a program writes, in order. Its length is a whole number of sectors.
pub type Gather = ArrayVec<Piece, MAX_PIECES>;

/// Where a read puts what it finds.
#[derive(Debug)]
pub enum Target {
    /// Part of a payload.
    Data(ViewMut),
    /// The first `pages` pages of a metadata buffer.
    Meta {
        /// The buffer, moved along.
        buf: MetaBuf,
        /// How many of its pages are meant.
        pages: u32,
    },
}

impl Target {
    /// Its length in sectors.
    #[inline]
    pub fn sectors(&self) -> u32 {
        match self {
            Target::Data(view) => view.sectors(),
            Target::Meta { pages, .. } => pages * SECTORS_PER_BLOCK,
        }
    }
}

/// A compression method, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// LZ4 block format.
    Lz4,
    /// Zstandard at a level.
    Zstd(i8),
    /// The bytes as they are.
    Raw,
}

/// One of the ranges of a `Move`; offsets are in bytes from the beginnings of the two views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it is.
    pub from: u32,
    /// Where it goes.
    pub into: u32,
    /// Its bytes.
    pub len: u32,
    /// The CRC-32C that it must have, begun with `seed`.
    pub crc: u32,
    /// See `crc`.
    pub seed: u64,
}

/// What a device can tell of itself; a device that can't refuses the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// Which LBAs live in what the drive collects next, if `DeviceInfo::collection_hint`: a list of
    /// the first sectors of map units.
    Collectible,
    /// The states of segments, of a zoned device, beginning with this one.
    Segments(u32),
}

/// What a layer asks a driver to do. `device` is an index into the stack; `lba` is in sectors.
#[derive(Debug)]
#[allow(missing_docs, reason = "the text of each command names its fields")]
pub enum Command {
    /// Fills `into` from a device.
    Read { device: u8, lba: u64, into: Target, cause: Cause },
    /// Writes `gather` to a device; durable only after a later `Flush`. `tally` sums to its length.
    /// What shares a `placement` should share the drive's erase blocks; a device that takes no such
    /// hint (see `DeviceInfo::placements`) ignores it.
    Program { device: u8, lba: u64, gather: Gather, tally: Tally, placement: u8 },
    /// Erases a segment, resets a zone, or trims a range of a block device, which then reads zeros.
    Reset { device: u8, lba: u64, sectors: u64 },
    /// Says of the segment of a zoned device that begins at `lba` that it is bad, or good again.
    Mark { device: u8, lba: u64, bad: bool },
    /// Makes everything that `device` completed before this was submitted durable.
    Flush { device: u8 },
    /// Fills `into` with what the device knows of itself, as `format` writes it; the verdict has
    /// the bytes that were filled.
    Report { device: u8, about: About, into: MetaBuf },
    /// Copies `from` to `into`, which has the same length.
    Place { from: Piece, into: ViewMut },
    /// Copies `from` to the first `pages` pages of `into`, so that the layer sees what it is. In a
    /// world without bytes these become zeros.
    Peek { from: View, into: MetaBuf, pages: u32 },
    /// Compresses `from` into `into`; the verdict has the length and the CRC-32C of the result, or
    /// a length of 0 and the CRC-32C of `from` when it did not fit, or [`ALL_ZEROS`] when `from` is
    /// nothing but zeros.
    Pack { from: View, into: ViewMut, codec: Codec, seed: u64 },
    /// Checks the CRC-32C of `from` and expands it into `into`; a mismatch is `DeviceError::Media`.
    Unpack { from: View, into: ViewMut, codec: Codec, seed: u64, crc: u32 },
    /// The CRC-32C of `from`, begun with `seed`, in the verdict.
    Digest { from: View, seed: u64 },
    /// Checks and copies `parts` of `from` to `into`, in order, up to the first that has not its
    /// CRC-32C; the verdict has the number of those that were right.
    Move { from: View, into: ViewMut, parts: Vec<Part> },
    /// `into` becomes the sum of all of `from` and of what it held, each by its factor.
    Fold { from: ArrayVec<View, MAX_PIECES>, into: ViewMut, factors: Factors },
}

impl Command {
    /// The device that the command goes to, if it goes to one.
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

    /// Forgets every buffer in the command: the power is off.
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

/// Ends a match arm whose value is only a buffer's name.
fn forget(_name: u32) {}

/// The length that `Pack` tells of zeros, for which it writes nothing.
pub const ALL_ZEROS: u32 = u32::MAX;

/// What a driver learned from the bytes; zero where the command has nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Bytes that `Pack` or `Unpack` produced, or a `Report` filled; the parts that a `Move` moved.
    pub bytes: u32,
    /// CRC-32C that `Pack` or `Digest` computed. Zero in a world without bytes.
    pub crc: u32,
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceError {
    /// The medium can't give these bytes, or they failed their check.
    Media,
    /// The device has no room, as a file on a full file system.
    NoSpace,
    /// The device is gone; nothing more will work on it.
    Gone,
    /// The device refuses the command.
    Unsupported,
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            DeviceError::Media => "media error",
            DeviceError::NoSpace => "no space on the device",
            DeviceError::Gone => "device gone",
            DeviceError::Unsupported => "not supported by the device",
        })
    }
}

/// A command that is over, successful or not.
#[derive(Debug)]
pub struct Done {
    /// The token it was submitted with.
    pub token: Token,
    /// The command itself, with its buffers.
    pub command: Command,
    /// What came of it.
    pub result: Result<Verdict, DeviceError>,
}

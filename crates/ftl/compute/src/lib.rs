//! Implementation of the compute commands over plain bytes.
//!
//! Every driver with real bytes calls [`Job::run`]: the engines of real volumes, the chaos driver,
//! and the worlds of the tests. A layer therefore produces the same bytes in all of them.
//!
//! Invariants
//! - A job reads its sources and writes its target, and nothing else. The target does not overlap
//!   the sources, which the borrow checker enforces.
//! - The result depends only on the sources and, for a fold, on the target's old bytes. The tools
//!   only save time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod codec;
mod fold;
mod parts;
mod tools;

use hostftl_core::{
    ArrayVec, Codec, Command, DeviceError, Factors, MAX_PIECES, Part, Piece, Verdict,
};
use hostftl_format::page::crc32c;

pub use tools::Tools;

/// Ranges that a job reads, in the order of its command.
pub type Sources<'a> = ArrayVec<&'a [u8], MAX_PIECES>;

/// Command that does not go to a device, without its ranges.
#[derive(Clone, Copy, Debug)]
pub enum Job<'a> {
    /// Copies the source to the target of the same length.
    Copy,
    /// Zeroes the target.
    Zero,
    /// Compresses with a checksum: see [`Command::Pack`].
    Pack {
        /// Codec.
        codec: Codec,
        /// Seed of the checksum.
        seed: u64,
    },
    /// Checks and decompresses: see [`Command::Unpack`].
    Unpack {
        /// Codec.
        codec: Codec,
        /// Seed of the checksum.
        seed: u64,
        /// Expected checksum of the source.
        crc: u32,
    },
    /// Computes a checksum: see [`Command::Digest`].
    Digest {
        /// Seed of the checksum.
        seed: u64,
    },
    /// Checks and copies records: see [`Command::Move`].
    Move(&'a [Part]),
    /// Computes a sum: see [`Command::Fold`].
    Fold {
        /// Factors of the target's old bytes and of each source.
        factors: Factors,
    },
}

impl<'a> Job<'a> {
    /// Returns the job of a command; `None` if the command goes to a device.
    #[inline]
    pub fn new(command: &'a Command) -> Option<Self> {
        Some(match command {
            Command::Place { from: Piece::Zeros(_), .. } => Job::Zero,
            Command::Place { .. } | Command::Peek { .. } => Job::Copy,
            Command::Pack { codec, seed, .. } => Job::Pack { codec: *codec, seed: *seed },
            Command::Unpack { codec, seed, crc, .. } => {
                Job::Unpack { codec: *codec, seed: *seed, crc: *crc }
            }
            Command::Digest { seed, .. } => Job::Digest { seed: *seed },
            Command::Move { parts, .. } => Job::Move(parts),
            Command::Fold { factors, .. } => Job::Fold { factors: *factors },
            Command::Read { .. }
            | Command::Program { .. }
            | Command::Reset { .. }
            | Command::Mark { .. }
            | Command::Flush { .. }
            | Command::Report { .. } => return None,
        })
    }

    /// Executes the job. All jobs except folds read the first source; `Zero` needs none.
    ///
    /// # Errors
    /// [`DeviceError::Media`] when compressed data has another checksum or cannot be decompressed.
    ///
    /// # Panics
    /// When the ranges have lengths that the command does not permit.
    pub fn run(
        self,
        from: &Sources<'_>,
        into: &mut [u8],
        tools: &mut Tools,
    ) -> Result<Verdict, DeviceError> {
        let first = from.iter().next().copied().unwrap_or_default();
        match self {
            Job::Copy => {
                assert_eq!(
                    first.len(),
                    into.len(),
                    "source and destination of a copy have the same length"
                );
                into.copy_from_slice(first);
            }
            Job::Zero => into.fill(0),
            Job::Pack { codec, seed } => return Ok(codec::pack(codec, seed, first, into, tools)),
            Job::Unpack { codec, seed, crc } => {
                return codec::unpack(codec, seed, crc, first, into);
            }
            Job::Digest { seed } => return Ok(Verdict { bytes: 0, crc: crc32c(seed, first) }),
            Job::Move(parts) => return Ok(parts::copy(parts, first, into)),
            Job::Fold { factors } => fold::fold(from, into, factors),
        }
        Ok(Verdict::default())
    }
}

//! What the commands that compute mean, over plain bytes.
//!
//! Every driver that has bytes calls [`Job::run`]: the engines of real volumes, the chaos driver,
//! the worlds of the tests. So a layer's bytes are the same in all of them.
//!
//! Invariants
//! - A job reads its sources and writes its target, and nothing else; the target is apart from the
//!   sources, which the borrow checker demands.
//! - The result depends on the sources, on the target's old bytes where a fold keeps them, and on
//!   nothing else. The tools only save time.
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

/// The ranges that a job reads, in the order in which its command names them.
pub type Sources<'a> = ArrayVec<&'a [u8], MAX_PIECES>;

/// A command that goes to no device, without its ranges.
#[derive(Clone, Copy, Debug)]
pub enum Job<'a> {
    /// The target becomes the source, which is as long.
    Copy,
    /// The target becomes zeros.
    Zero,
    /// See [`Command::Pack`].
    Pack {
        /// How.
        codec: Codec,
        /// What the checksum begins with.
        seed: u64,
    },
    /// See [`Command::Unpack`].
    Unpack {
        /// How it was packed.
        codec: Codec,
        /// What the checksum begins with.
        seed: u64,
        /// The checksum that the source must have.
        crc: u32,
    },
    /// See [`Command::Digest`].
    Digest {
        /// What the checksum begins with.
        seed: u64,
    },
    /// See [`Command::Move`].
    Move(&'a [Part]),
    /// See [`Command::Fold`].
    Fold {
        /// How much the target's old bytes and each source take part.
        factors: Factors,
    },
}

impl<'a> Job<'a> {
    /// The job of a command; `None` when it goes to a device.
    #[inline]
    pub fn of(command: &'a Command) -> Option<Self> {
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

    /// Does it. All jobs but folds read the first source; zeros need none.
    ///
    /// # Errors
    /// [`DeviceError::Media`] when what should be expanded has another checksum, or is not what its
    /// codec makes.
    ///
    /// # Panics
    /// When the ranges have other lengths than the command may have.
    pub fn run(
        self,
        from: &Sources<'_>,
        into: &mut [u8],
        tools: &mut Tools,
    ) -> Result<Verdict, DeviceError> {
        let first = from.iter().next().copied().unwrap_or_default();
        match self {
            Job::Copy => {
                assert_eq!(first.len(), into.len(), "a copy is as long as what is copied");
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

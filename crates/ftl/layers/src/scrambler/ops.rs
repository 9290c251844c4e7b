//! Purposes of commands, and the context of the engine's parts.

use crate::kit;

/// Maximum number of commands in flight.
pub(super) const OPS: u16 = 1024;
/// Commands reserved for everything but the host's reads.
pub(super) const OWN_OPS: usize = 320;

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Request `req` reads from `page`.
    Read { req: u16, page: u32 },
    /// Zeros are placed for request `req`.
    Zero { req: u16 },
    /// A fill reads the used slots of its page.
    Merge { fill: u8 },
    /// A fill reads the old contents of a partly changed slot from `page`.
    Old { fill: u8, page: u32 },
    /// The host's data, or zeros, are copied into the buffer of a fill.
    Data { fill: u8 },
    /// A fill writes to its page.
    Program { fill: u8 },
    /// Data or log pages of a round are flushed.
    RoundFlush,
    /// The log pages of a round are written.
    Log,
    /// The device is queried for its next victim.
    Hint,
    /// A page without data is discarded.
    Discard { page: u32 },
    /// A page of images is written.
    Image { buf: u8 },
    /// A checkpoint flushes.
    RootFlush,
    /// A copy of a root is written.
    Root { copy: u8 },
    /// A command of recovery.
    Recover { index: u8 },
}

impl Op {
    /// Returns whether a failure of the command ends all promises of durability.
    pub(crate) fn changes_media(&self) -> bool {
        matches!(
            self,
            Op::Program { .. }
                | Op::RoundFlush
                | Op::Log
                | Op::Image { .. }
                | Op::RootFlush
                | Op::Root { .. }
        )
    }
}

/// The context of the parts. A mark is a number of changes of the map.
pub(super) type Cx<'a> = kit::Cx<'a, Op, u64>;

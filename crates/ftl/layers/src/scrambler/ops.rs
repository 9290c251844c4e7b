//! What commands are for, and what the parts take.

use crate::kit;

/// Commands in flight at once.
pub(super) const OPS: u16 = 1024;
/// Of these, kept for everything that is not a host's read.
pub(super) const OWN_OPS: usize = 320;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A read for request `req` from `page`.
    Read { req: u16, page: u32 },
    /// Zeros for request `req`.
    Zero { req: u16 },
    /// The used slots of the page that a fill writes.
    Merge { fill: u8 },
    /// The old content of a slot that a fill changes in part, from `page`.
    Old { fill: u8, page: u32 },
    /// Data of the host's, or zeros, into the buffer of a fill.
    Data { fill: u8 },
    /// A write of a fill.
    Program { fill: u8 },
    /// Data, or log, of a round becomes durable.
    RoundFlush,
    /// The log pages of a round.
    Log,
    /// What the device collects next.
    Hint,
    /// A page that holds nothing any more.
    Discard { page: u32 },
    /// A page of images.
    Image { buf: u8 },
    /// A flush of a checkpoint.
    RootFlush,
    /// One copy of a root.
    Root { copy: u8 },
    /// A step of recovery.
    Recover { index: u8 },
}

impl Op {
    /// Whether nothing can be promised any more when it fails.
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

/// What the parts take; a mark counts changes of the map.
pub(super) type Cx<'a> = kit::Cx<'a, Op, u64>;

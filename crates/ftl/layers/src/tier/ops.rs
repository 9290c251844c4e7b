//! What commands are for, and what the parts take.

use crate::kit;

/// Commands in flight at once.
pub(super) const OPS: u16 = 512;
/// Of these, kept for everything that is not a host's read or write.
pub(super) const OWN_OPS: usize = 64;
/// Requests under way at once; a word has a bit for each.
pub(super) const REQUESTS: usize = 64;
/// Outputs that one move of anything may need.
pub(super) const ROOM: usize = 4;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Request `req` reads a slot.
    ReadSlot { req: u16, slot: u32 },
    /// Request `req` writes a slot.
    WriteSlot { req: u16, slot: u32 },
    /// Request `req` writes a whole page into a new slot.
    Take { req: u16, slot: u32 },
    /// Request `req` reads the slow device.
    ReadSlow { req: u16 },
    /// Request `req` changes pages of the slow device, from `first` to `last`.
    WriteSlow { req: u16, first: u32, last: u32 },
    /// Request `req` gets its part of buffer `job`.
    Copy { req: u16, job: u8 },
    /// A page comes from the slow device, into buffer `job`.
    Fetch { job: u8 },
    /// It goes into its slot.
    Fill { job: u8 },
    /// A page comes from its slot, into buffer `job`.
    Collect { job: u8 },
    /// It goes to the slow device.
    WriteBack { job: u8 },
    /// A device makes things durable, for the commit under way.
    Flush { device: u8 },
    /// A page of the directory, from metadata buffer `buf`.
    Directory { buf: u8 },
    /// The ledger.
    Ledger,
    /// A step of the start or the stop.
    Own,
}

impl Op {
    /// The request that waits for it.
    pub(crate) fn request(&self) -> Option<u16> {
        match *self {
            Op::ReadSlot { req, .. }
            | Op::WriteSlot { req, .. }
            | Op::Take { req, .. }
            | Op::ReadSlow { req }
            | Op::Copy { req, .. }
            | Op::WriteSlow { req, .. } => Some(req),
            _ => None,
        }
    }

    /// Whether it is a read: a medium that fails one may still be sound elsewhere.
    pub(crate) fn is_read(&self) -> bool {
        matches!(
            self,
            Op::ReadSlot { .. } | Op::ReadSlow { .. } | Op::Fetch { .. } | Op::Collect { .. }
        )
    }
}

/// What the parts take. Requests go on in any order, and what a request waits for is known to the
/// [`front`](super::front).
pub(super) type Cx<'a> = kit::Cx<'a, Op, ()>;

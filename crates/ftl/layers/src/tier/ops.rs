//! Purposes of commands, and the context of the engine's parts.

use crate::kit;

/// Maximum number of commands in flight.
pub(super) const OPS: u16 = 512;
/// Commands reserved for everything but the host's reads and writes.
pub(super) const OWN_OPS: usize = 64;
/// Maximum number of requests in flight; a word has a bit for each.
pub(super) const REQUESTS: usize = 64;
/// Maximum number of outputs of one move of any part.
pub(super) const ROOM: usize = 4;

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Request `req` reads from a slot.
    ReadSlot { req: u16, slot: u32 },
    /// Request `req` writes to a slot.
    WriteSlot { req: u16, slot: u32 },
    /// Request `req` writes a whole page into a new slot.
    Take { req: u16, slot: u32 },
    /// Request `req` reads from the slow device.
    ReadSlow { req: u16 },
    /// Request `req` writes or trims the pages `first` to `last` of the slow device.
    WriteSlow { req: u16, first: u32, last: u32 },
    /// Request `req` copies its part of buffer `job`.
    Copy { req: u16, job: u8 },
    /// A page is read from the slow device into buffer `job`.
    Fetch { job: u8 },
    /// A fetched page is written to its slot.
    Fill { job: u8 },
    /// A page is read from its slot into buffer `job`.
    Collect { job: u8 },
    /// A page is written back to the slow device.
    WriteBack { job: u8 },
    /// A device is flushed for the commit in progress.
    Flush { device: u8 },
    /// A page of the directory is written from metadata buffer `buf`.
    Directory { buf: u8 },
    /// The ledger is written.
    Ledger,
    /// A command of the start or the stop.
    Own,
}

impl Op {
    /// Returns the request that waits for the command.
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

    /// Returns whether the command is a read. A device that fails one may still be sound elsewhere.
    pub(crate) fn is_read(&self) -> bool {
        matches!(
            self,
            Op::ReadSlot { .. } | Op::ReadSlow { .. } | Op::Fetch { .. } | Op::Collect { .. }
        )
    }
}

/// The context of the parts. Requests complete in any order; [`front`](super::front) tracks the
/// conditions that they wait for.
pub(super) type Cx<'a> = kit::Cx<'a, Op, ()>;

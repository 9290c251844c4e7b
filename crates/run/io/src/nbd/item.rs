//! One command on its way to a server and back.

use std::sync::mpsc::Sender;
use std::time::Instant;

use hostftl_core::DeviceError;

use super::unflushed::CompletedWrite;
use crate::transfer::{Call, Transfer};

/// Origin of a command.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The driver, which identifies it by its slot.
    Driver,
    /// A caller that waits at the other end of the channel.
    Caller(Sender<Result<(), DeviceError>>),
    /// The client's own flush, which makes unflushed writes durable.
    Flush,
    /// Repetition of an unflushed write after a reconnect.
    Again(CompletedWrite),
    /// Read of a range that a late write may have changed, into this memory.
    Check(Box<[u8]>),
    /// Rewrite of a range that a late write did change, from this memory.
    #[expect(dead_code, reason = "the transfer has pointers to it")]
    Repair(CompletedWrite),
    /// Flush that makes rewrites durable.
    Seal,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub transfer: Transfer,
    pub origin: Origin,
    /// Time at which the command fails.
    pub deadline: Instant,
    /// For a flush: writes before this number are covered.
    pub covers: u64,
    /// Length of the current request in bytes.
    pub part: u32,
    /// Line on which the reply is expected.
    pub awaits: Option<usize>,
    /// Whether a connection was lost while the command was in flight.
    pub flew: bool,
}

impl Item {
    pub(crate) fn new(transfer: Transfer, origin: Origin, deadline: Instant) -> Self {
        Item { transfer, origin, deadline, covers: 0, part: 0, awaits: None, flew: false }
    }

    /// Returns whether this repeats an unflushed write.
    pub(crate) fn is_again(&self) -> bool {
        matches!(self.origin, Origin::Again(_))
    }

    /// Returns whether it changes its range.
    pub(crate) fn writes(&self) -> bool {
        matches!(self.transfer.call(), Call::Write | Call::Allocate(_))
    }

    /// Returns whether it belongs to a check.
    pub(crate) fn is_check(&self) -> bool {
        matches!(self.origin, Origin::Check(_) | Origin::Repair(_) | Origin::Seal)
    }

    /// Returns whether the ranges overlap and the items must not be in flight together: two writes,
    /// or a write and a read of a check.
    pub(crate) fn collides(&self, other: &Item) -> bool {
        let ((from, len), (other_from, other_len)) =
            (self.transfer.range(), other.transfer.range());
        let meet = from < other_from + other_len && other_from < from + len;
        let exact = |item: &Item| item.writes() || matches!(item.origin, Origin::Check(_));
        meet && (self.writes() || other.writes()) && exact(self) && exact(other)
    }
}

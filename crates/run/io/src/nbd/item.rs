//! One command on its way to a server and back.

use std::sync::mpsc::Sender;
use std::time::Instant;

use hostftl_core::DeviceError;

use super::kept::Kept;
use crate::transfer::{Call, Transfer};

/// Who waits for a command.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The driver, which knows it by its slot.
    Driver,
    /// Somebody who waits at the other end.
    Caller(Sender<Result<(), DeviceError>>),
    /// The client, which wants what it keeps to be durable.
    Flush,
    /// The client: what it kept is sent again.
    Again(Kept),
    /// The client: it reads what a ghost may have changed, into this memory.
    Check(Box<[u8]>),
    /// The client: it writes what a ghost did change, from this memory.
    #[expect(dead_code, reason = "the transfer has pointers to it")]
    Mend(Kept),
    /// The client: it makes durable what it mended.
    Seal,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub transfer: Transfer,
    pub origin: Origin,
    /// When it fails at the latest.
    pub deadline: Instant,
    /// For a flush: it covers what was kept before this number.
    pub covers: u64,
    /// The bytes of the range that the server was asked for last.
    pub part: u32,
    /// The line on which the answer comes.
    pub awaits: Option<usize>,
    /// Whether a connection ended while it was on its way.
    pub flew: bool,
}

impl Item {
    pub(crate) fn new(transfer: Transfer, origin: Origin, deadline: Instant) -> Self {
        Item { transfer, origin, deadline, covers: 0, part: 0, awaits: None, flew: false }
    }

    /// Whether it sends what was sent before.
    pub(crate) fn is_again(&self) -> bool {
        matches!(self.origin, Origin::Again(_))
    }

    /// Whether it changes the range.
    pub(crate) fn writes(&self) -> bool {
        matches!(self.transfer.call(), Call::Write | Call::Allocate(_))
    }

    /// Whether it compares what the server has, or mends that.
    pub(crate) fn is_of_check(&self) -> bool {
        matches!(self.origin, Origin::Check(_) | Origin::Mend(_) | Origin::Seal)
    }

    /// Whether their ranges meet and one of them writes there, beside a write or a check.
    pub(crate) fn collides(&self, other: &Item) -> bool {
        let ((from, len), (other_from, other_len)) =
            (self.transfer.range(), other.transfer.range());
        let meet = from < other_from + other_len && other_from < from + len;
        let exact = |item: &Item| item.writes() || matches!(item.origin, Origin::Check(_));
        meet && (self.writes() || other.writes()) && exact(self) && exact(other)
    }
}

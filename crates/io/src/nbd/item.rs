//! One command on its way to a server and back.

use std::sync::mpsc::Sender;
use std::time::Instant;

use hostftl_core::DeviceError;

use super::kept::Kept;
use crate::transfer::{Call, Transfer};

/// Who waits for a command.
#[derive(Debug)]
pub enum Origin {
    /// The driver, which knows it by its slot.
    Driver,
    /// Somebody who waits at the other end.
    Caller(Sender<Result<(), DeviceError>>),
    /// The client, which wants what it keeps to be durable.
    Flush,
    /// The client: what it kept is sent again.
    Again(Kept),
}

/// See the module text.
#[derive(Debug)]
pub struct Item {
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
}

impl Item {
    pub fn new(transfer: Transfer, origin: Origin, deadline: Instant) -> Self {
        Item { transfer, origin, deadline, covers: 0, part: 0, awaits: None }
    }

    /// Whether it sends what was sent before.
    pub fn is_again(&self) -> bool {
        matches!(self.origin, Origin::Again(_))
    }

    /// Whether it changes the range.
    pub fn writes(&self) -> bool {
        matches!(self.transfer.call(), Call::Write | Call::Allocate(_))
    }

    /// Whether both write and their ranges meet.
    pub fn collides(&self, other: &Item) -> bool {
        let ((from, len), (other_from, other_len)) =
            (self.transfer.range(), other.transfer.range());
        let meet = from < other_from + other_len && other_from < from + len;
        meet && self.writes() && other.writes()
    }
}

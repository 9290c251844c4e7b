//! Requests from the host and the replies to them.

use crate::bomb::{Bomb, Guarded};
use crate::cause::Tally;
use crate::payload::Payload;

/// The right to answer one request. Dropping it without a reply panics.
#[derive(Debug)]
pub struct Ticket {
    id: u64,
    bomb: Bomb,
}

impl Ticket {
    /// A ticket for the front end's request `id`.
    #[inline]
    pub fn issue(id: u64) -> Self {
        Ticket { id, bomb: Bomb::new(Guarded::Ticket) }
    }

    /// The front end's name for the request.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Ends the request: it was answered, or the power is off. Returns the name.
    #[inline]
    pub fn close(mut self) -> u64 {
        self.close_in_place()
    }

    /// As [`Ticket::close`], of a ticket that is to be dropped where it lies.
    #[inline]
    pub fn close_in_place(&mut self) -> u64 {
        self.bomb.defuse();
        self.id
    }
}

/// What the host wants.
#[derive(Debug)]
pub enum HostOp {
    /// Fill the payload, which is as long as the request.
    Read(Payload),
    /// Write the payload; with `fua` it is durable when answered.
    Write {
        /// The bytes, as long as the request.
        data: Payload,
        /// Durable before the reply.
        fua: bool,
    },
    /// Make every request that completed before this one arrived durable.
    Flush,
    /// The range is not needed; it reads zeros afterwards.
    Trim {
        /// Durable before the reply.
        fua: bool,
    },
    /// The range reads zeros afterwards.
    Zeroes {
        /// Durable before the reply.
        fua: bool,
    },
}

/// One request. A front end splits what is longer than the layer's `max_transfer`; trim and zeroes
/// may be of any length.
#[derive(Debug)]
pub struct Request {
    /// Answers it.
    pub ticket: Ticket,
    /// What to do.
    pub op: HostOp,
    /// The first sector.
    pub lba: u64,
    /// How many sectors; 0 for a flush.
    pub sectors: u64,
    /// For a write: why each sector is written. A host's own write is all `Cause::Host`.
    pub tally: Tally,
}

/// Why the host gets an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostError {
    /// A device failed and nothing could stand in for it.
    Io,
    /// No room for new data; reads and trims still work.
    NoSpace,
    /// The range is not within the volume.
    Range,
    /// The volume is only read.
    ReadOnly,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// The request's ticket.
    pub ticket: Ticket,
    /// The payload of a read or write; `None` when a device that hangs still has it (it follows as
    /// `Output::Reclaim`) or there never was one.
    pub data: Option<Payload>,
    /// What came of it.
    pub result: Result<(), HostError>,
}

//! Requests from the host and their replies.

use crate::bomb::{Bomb, Guarded};
use crate::cause::Tally;
use crate::payload::Payload;

/// Right to answer one request. Dropping it without a reply panics.
#[derive(Debug)]
pub struct Ticket {
    id: u64,
    bomb: Bomb,
}

impl Ticket {
    /// Creates a ticket for the front end's request `id`.
    #[inline]
    pub fn issue(id: u64) -> Self {
        Ticket { id, bomb: Bomb::new(Guarded::Ticket) }
    }

    /// Returns the front end's id of the request.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Ends the request after its reply or a power cut. Returns the id.
    #[inline]
    pub fn close(mut self) -> u64 {
        self.close_in_place()
    }

    /// Ends the request like [`Ticket::close`], for a ticket that is dropped in place.
    #[inline]
    pub fn close_in_place(&mut self) -> u64 {
        self.bomb.defuse();
        self.id
    }
}

/// Operation of a request.
#[derive(Debug)]
pub enum HostOp {
    /// Reads into the payload, which has the length of the request.
    Read(Payload),
    /// Writes the payload.
    Write {
        /// Data, with the length of the request.
        data: Payload,
        /// Whether the data is durable before the reply.
        fua: bool,
    },
    /// Makes durable every request that completed before this one was submitted.
    Flush,
    /// Discards the range, which reads zeros afterwards.
    Trim {
        /// Whether the trim is durable before the reply.
        fua: bool,
    },
    /// Writes zeros to the range.
    Zeroes {
        /// Whether the zeros are durable before the reply.
        fua: bool,
    },
}

/// Request of the host. A front end splits reads and writes longer than the layer's `max_transfer`;
/// trims and zeroes may have any length.
#[derive(Debug)]
pub struct Request {
    /// Ticket for the reply.
    pub ticket: Ticket,
    /// Operation.
    pub op: HostOp,
    /// First sector.
    pub lba: u64,
    /// Length in sectors; 0 for a flush.
    pub sectors: u64,
    /// Sectors by cause, for a write. Writes of a host have only `Cause::Host`.
    pub tally: Tally,
    /// Placement id of a write; 0 for hosts without placement ids. Layers that translate may ignore
    /// it, because they place data themselves.
    pub placement: u8,
}

/// Error that the host receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostError {
    /// A device failed and its data could not be rebuilt.
    Io,
    /// No space for new data; reads and trims still work.
    NoSpace,
    /// The range exceeds the volume.
    Range,
    /// The volume is read-only.
    ReadOnly,
}

/// Reply to a request.
#[derive(Debug)]
pub struct Reply {
    /// Ticket of the request.
    pub ticket: Ticket,
    /// Payload of a read or write. `None` if there is none, or if a timed-out device still holds
    /// it; it then follows as `Output::Reclaim`.
    pub data: Option<Payload>,
    /// Outcome of the request.
    pub result: Result<(), HostError>,
}

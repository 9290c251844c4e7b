//! Simple replies of the transmission phase.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | `0x67446698` |
//! | 4..8 | error, 0 for success |
//! | 8..16 | cookie of the request |
//!
//! The reply to a successful read is followed by its payload.

use crate::error::ProtoError;
use crate::request::field;

/// Length of a simple reply without its payload, in bytes.
pub const SIMPLE_REPLY_BYTES: usize = 16;

const MAGIC: u32 = 0x6744_6698;

/// Errors of the protocol, with the numbers of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// EPERM: not permitted.
    Permission,
    /// EIO: the device failed.
    Io,
    /// ENOMEM: out of memory.
    Memory,
    /// EINVAL: invalid request.
    Invalid,
    /// ENOSPC: no space.
    NoSpace,
    /// EOVERFLOW: value too large.
    Overflow,
    /// ENOTSUP: not supported.
    Unsupported,
    /// ESHUTDOWN: the server is stopping.
    Shutdown,
    /// Another number, which the protocol treats as EINVAL.
    Other(u32),
}

impl Errno {
    const KNOWN: [(Errno, u32); 8] = [
        (Errno::Permission, 1),
        (Errno::Io, 5),
        (Errno::Memory, 12),
        (Errno::Invalid, 22),
        (Errno::NoSpace, 28),
        (Errno::Overflow, 75),
        (Errno::Unsupported, 95),
        (Errno::Shutdown, 108),
    ];

    /// Returns the number on the wire, which is never 0.
    pub fn code(self) -> u32 {
        match self {
            Errno::Other(code) => code,
            known => Self::KNOWN.iter().find(|(errno, _)| *errno == known).map_or(22, |row| row.1),
        }
    }

    /// Returns the error with this number.
    pub(crate) fn from_code(code: u32) -> Self {
        let row = Self::KNOWN.iter().find(|(_, number)| *number == code);
        row.map_or(Errno::Other(code), |(errno, _)| *errno)
    }
}

/// Simple reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReply {
    /// Cookie of the request.
    pub cookie: u64,
    /// Result of the request.
    pub result: Result<(), Errno>,
}

impl SimpleReply {
    /// Parses a reply.
    ///
    /// # Errors
    /// [`ProtoError::Magic`].
    pub fn parse(bytes: &[u8; SIMPLE_REPLY_BYTES]) -> Result<Self, ProtoError> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != MAGIC {
            return Err(ProtoError::Magic { part: "a reply", found: magic.into() });
        }
        let result = match u32::from_be_bytes(field(bytes, 4)) {
            0 => Ok(()),
            code => Err(Errno::from_code(code)),
        };
        Ok(SimpleReply { cookie: u64::from_be_bytes(field(bytes, 8)), result })
    }

    /// Returns the encoded reply.
    pub fn emit(&self) -> [u8; SIMPLE_REPLY_BYTES] {
        let code = self.result.map_or_else(Errno::code, |()| 0);
        let mut bytes = [0; SIMPLE_REPLY_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&code.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }
}

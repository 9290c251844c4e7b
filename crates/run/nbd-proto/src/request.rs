//! Requests of the transmission phase.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | `0x25609513` |
//! | 4..6 | flags |
//! | 6..8 | command |
//! | 8..16 | cookie |
//! | 16..24 | offset in bytes |
//! | 24..28 | length in bytes |
//!
//! A write is followed by its payload.

use crate::error::ProtoError;

/// The length of a request without its payload, in bytes.
pub const REQUEST_BYTES: usize = 28;
/// The longest payload, in bytes: what clients may use that do not ask for block sizes.
pub const MAX_PAYLOAD: u32 = 32 << 20;

const MAGIC: u32 = 0x2560_9513;

/// What a client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send the bytes of the range.
    Read,
    /// Write the payload to the range.
    Write,
    /// Finish what is in flight and close; there is no reply.
    Disconnect,
    /// Make every completed write durable.
    Flush,
    /// The range is not needed.
    Trim,
    /// The range reads zeros afterwards.
    WriteZeroes,
    /// The range will be read soon.
    Cache,
    /// Which parts of the range are what?
    BlockStatus,
    /// A command that this codec does not know; it has no payload.
    Other(u16),
}

impl Command {
    fn code(self) -> u16 {
        match self {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::Cache => 5,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
            Command::Other(code) => code,
        }
    }

    fn from_code(code: u16) -> Self {
        match code {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            5 => Command::Cache,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Other(other),
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// See [`crate::flags`].
    pub flags: u16,
    /// What to do.
    pub command: Command,
    /// The client's name for the request; the reply repeats it.
    pub cookie: u64,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
}

impl Request {
    /// Understands a request.
    ///
    /// # Errors
    /// [`ProtoError::Magic`], and [`ProtoError::WriteTooLong`] when the payload that follows is
    /// more than anyone may send.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, ProtoError> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != MAGIC {
            return Err(ProtoError::Magic { what: "a request", found: magic.into() });
        }
        let request = Request {
            flags: u16::from_be_bytes(field(bytes, 4)),
            command: Command::from_code(u16::from_be_bytes(field(bytes, 6))),
            cookie: u64::from_be_bytes(field(bytes, 8)),
            offset: u64::from_be_bytes(field(bytes, 16)),
            length: u32::from_be_bytes(field(bytes, 24)),
        };
        if request.command == Command::Write && request.length > MAX_PAYLOAD {
            return Err(ProtoError::WriteTooLong(request.length));
        }
        Ok(request)
    }

    /// The request as bytes.
    pub fn emit(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.code().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// The `N` bytes at `from`.
pub(crate) fn field<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[from..from + N]);
    found
}

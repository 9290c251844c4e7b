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

/// Length of a request without its payload, in bytes.
pub const REQUEST_BYTES: usize = 28;
/// Maximum payload, in bytes. Clients that do not request the block sizes may use this length.
pub const MAX_PAYLOAD: u32 = 32 << 20;

const MAGIC: u32 = 0x2560_9513;

/// Command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads the range.
    Read,
    /// Writes the payload to the range.
    Write,
    /// Completes the commands in flight and closes the connection; there is no reply.
    Disconnect,
    /// Makes every completed write durable.
    Flush,
    /// Discards the range.
    Trim,
    /// Zeroes the range.
    WriteZeroes,
    /// Announces that the range will be read soon.
    Cache,
    /// Requests the status of the range.
    BlockStatus,
    /// Unknown command without a payload.
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

/// Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags, see [`crate::flags`].
    pub flags: u16,
    /// Command.
    pub command: Command,
    /// Number chosen by the client, which the reply repeats.
    pub cookie: u64,
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    /// [`ProtoError::Magic`], and [`ProtoError::WriteTooLong`] when the payload that follows
    /// exceeds the maximum.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, ProtoError> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != MAGIC {
            return Err(ProtoError::Magic { part: "a request", found: magic.into() });
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

    /// Returns the encoded request.
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

/// Returns the `N` bytes at `from`.
pub(crate) fn field<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[from..from + N]);
    found
}

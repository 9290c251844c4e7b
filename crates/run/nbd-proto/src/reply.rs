//! Replies to options: messages of a server during the handshake.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | `0x0003e889045565a9` |
//! | 8..12 | option that it answers |
//! | 12..16 | kind; bit 31 marks an error |
//! | 16..20 | length of the data |
//! | 20.. | data |

use crate::error::{Malformed, ProtoError};
use crate::option::MAX_OPTION;
use crate::wire::{Cursor, Emit};

const MAGIC: u64 = 0x0003_e889_0455_65a9;
const HEAD: usize = 20;
const ERROR: u32 = 1 << 31;

const ACK: u32 = 1;
const SERVER: u32 = 2;
const INFO: u32 = 3;
const CONTEXT: u32 = 4;

/// Reply with unparsed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyFrame<'a> {
    /// Option that it answers.
    pub option: u32,
    /// Kind of the reply.
    pub kind: u32,
    /// Data of the reply.
    pub data: &'a [u8],
}

impl<'a> ReplyFrame<'a> {
    /// Parses the reply at the front of `bytes` and returns it with its length; `None` if it is
    /// incomplete.
    ///
    /// # Errors
    /// [`ProtoError::Magic`] and [`ProtoError::OptionTooLong`], as soon as they can be detected.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, ProtoError> {
        let mut cursor = Cursor::new(bytes);
        let Ok(magic) = cursor.u64() else { return Ok(None) };
        if magic != MAGIC {
            return Err(ProtoError::Magic { part: "a reply to an option", found: magic });
        }
        let (Ok(option), Ok(kind), Ok(length)) = (cursor.u32(), cursor.u32(), cursor.u32()) else {
            return Ok(None);
        };
        if length > MAX_OPTION {
            return Err(ProtoError::OptionTooLong { option, length });
        }
        match cursor.bytes(length as usize) {
            Ok(data) => Ok(Some((ReplyFrame { option, kind, data }, HEAD + data.len()))),
            Err(_) => Ok(None),
        }
    }
}

/// Reason for refusing an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server does not support the option.
    Unsupported,
    /// The server does not permit it.
    Policy,
    /// The option is invalid.
    Invalid,
    /// The option requires TLS.
    TlsRequired,
    /// The export does not exist.
    Unknown,
    /// The server is shutting down.
    Shutdown,
    /// Another code of the protocol.
    Other(u32),
}

impl Refusal {
    /// Returns the code on the wire.
    pub fn code(self) -> u32 {
        match self {
            Refusal::Unsupported => ERROR | 1,
            Refusal::Policy => ERROR | 2,
            Refusal::Invalid => ERROR | 3,
            Refusal::TlsRequired => ERROR | 5,
            Refusal::Unknown => ERROR | 6,
            Refusal::Shutdown => ERROR | 7,
            Refusal::Other(code) => code,
        }
    }

    fn from_code(code: u32) -> Self {
        use Refusal::*;
        let known = [Unsupported, Policy, Invalid, TlsRequired, Unknown, Shutdown];
        known.into_iter().find(|refusal| refusal.code() == code).unwrap_or(Other(code))
    }
}

/// Block sizes of an export, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of this size.
    pub min: u32,
    /// Preferred size.
    pub preferred: u32,
    /// Maximum length of a transfer.
    pub max: u32,
}

/// Information about an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Info<'a> {
    /// Size and transmission flags.
    Export {
        /// Size in bytes.
        bytes: u64,
        /// Flags, see [`crate::flags`].
        flags: u16,
    },
    /// Canonical name.
    Name(&'a str),
    /// Description for users.
    Description(&'a str),
    /// Block sizes.
    BlockSize(BlockSizes),
    /// Information of another kind.
    Other {
        /// Number of the kind.
        kind: u16,
        /// Data.
        data: &'a [u8],
    },
}

impl<'a> Info<'a> {
    /// Number of `Export`.
    pub const EXPORT: u16 = 0;
    /// Number of `Name`.
    pub const NAME: u16 = 1;
    /// Number of `Description`.
    pub const DESCRIPTION: u16 = 2;
    /// Number of `BlockSize`.
    pub const BLOCK_SIZE: u16 = 3;

    fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(data);
        let info = match cursor.u16()? {
            Self::EXPORT => Info::Export { bytes: cursor.u64()?, flags: cursor.u16()? },
            Self::NAME => Info::Name(cursor.rest_text()?),
            Self::DESCRIPTION => Info::Description(cursor.rest_text()?),
            Self::BLOCK_SIZE => Info::BlockSize(BlockSizes {
                min: cursor.u32()?,
                preferred: cursor.u32()?,
                max: cursor.u32()?,
            }),
            kind => Info::Other { kind, data: cursor.rest() },
        };
        cursor.end()?;
        Ok(info)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Info::Export { bytes, flags } => {
                out.put_u16(Self::EXPORT);
                out.put_u64(*bytes);
                out.put_u16(*flags);
            }
            Info::Name(name) => {
                out.put_u16(Self::NAME);
                out.extend_from_slice(name.as_bytes());
            }
            Info::Description(text) => {
                out.put_u16(Self::DESCRIPTION);
                out.extend_from_slice(text.as_bytes());
            }
            Info::BlockSize(sizes) => {
                out.put_u16(Self::BLOCK_SIZE);
                [sizes.min, sizes.preferred, sizes.max].iter().for_each(|size| out.put_u32(*size));
            }
            Info::Other { kind, data } => {
                out.put_u16(*kind);
                out.extend_from_slice(data);
            }
        }
    }
}

/// Parsed reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionReply<'a> {
    /// Success; the last reply to the option.
    Ack,
    /// Export of a list.
    Server {
        /// Name of the export.
        name: &'a str,
        /// Description for users.
        about: &'a str,
    },
    /// Information about an export.
    Info(Info<'a>),
    /// Context of block status.
    Context {
        /// Number of the context in replies to block status.
        id: u32,
        /// Name of the context.
        name: &'a str,
    },
    /// Refusal.
    Refused {
        /// Reason.
        why: Refusal,
        /// Message.
        message: &'a str,
    },
}

impl<'a> OptionReply<'a> {
    /// Parses the data of a reply.
    ///
    /// # Errors
    /// When the kind is unknown and not an error, or the data does not match it.
    pub fn parse(frame: ReplyFrame<'a>) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(frame.data);
        let reply = match frame.kind {
            ACK => OptionReply::Ack,
            SERVER => OptionReply::Server { name: cursor.counted()?, about: cursor.rest_text()? },
            INFO => OptionReply::Info(Info::parse(cursor.rest())?),
            CONTEXT => OptionReply::Context { id: cursor.u32()?, name: cursor.rest_text()? },
            code if code & ERROR != 0 => {
                OptionReply::Refused { why: Refusal::from_code(code), message: cursor.rest_text()? }
            }
            _ => return Err(Malformed::Code),
        };
        cursor.end()?;
        Ok(reply)
    }

    /// Appends the encoded reply to `option`.
    pub fn emit(&self, option: u32, out: &mut Vec<u8>) {
        out.put_u64(MAGIC);
        out.put_u32(option);
        out.put_u32(match self {
            OptionReply::Ack => ACK,
            OptionReply::Server { .. } => SERVER,
            OptionReply::Info(_) => INFO,
            OptionReply::Context { .. } => CONTEXT,
            OptionReply::Refused { why, .. } => why.code(),
        });
        let length_at = out.len();
        out.put_u32(0);
        match self {
            OptionReply::Ack => {}
            OptionReply::Server { name, about } => {
                out.put_counted(name);
                out.extend_from_slice(about.as_bytes());
            }
            OptionReply::Info(info) => info.emit(out),
            OptionReply::Context { id, name } => {
                out.put_u32(*id);
                out.extend_from_slice(name.as_bytes());
            }
            OptionReply::Refused { message, .. } => out.extend_from_slice(message.as_bytes()),
        }
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

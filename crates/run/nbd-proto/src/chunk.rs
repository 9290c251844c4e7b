//! Structured replies of the transmission phase: one or more chunks for a request.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | `0x668e33ef` |
//! | 4..6 | flags; bit 0 marks the last chunk of the request |
//! | 6..8 | kind; bit 15 marks an error |
//! | 8..16 | cookie of the request |
//! | 16..20 | length of the content |
//! | 20.. | content |

use crate::error::{Malformed, ProtoError};
use crate::request::MAX_PAYLOAD;
use crate::simple::Errno;
use crate::wire::{Cursor, Emit};

/// Length of a chunk without its content, in bytes.
pub const CHUNK_BYTES: usize = 20;
/// Length of a chunk with data before the data itself, in bytes.
pub const DATA_HEAD_BYTES: usize = CHUNK_BYTES + 8;
/// Maximum length of an error message, in bytes.
pub const MAX_MESSAGE: usize = 4096;
/// Maximum length of the content: that of data and its offset.
const MAX_CONTENT: u32 = MAX_PAYLOAD + 8;

pub(crate) const MAGIC: u32 = 0x668e_33ef;
const DONE: u16 = 1 << 0;

const NONE: u16 = 0;
const DATA: u16 = 1;
const HOLE: u16 = 2;
const STATUS: u16 = 5;
const ERROR: u16 = 1 << 15 | 1;
const ERROR_OFFSET: u16 = 1 << 15 | 2;

/// Header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Whether this is the last chunk of the request.
    pub done: bool,
    /// Kind of the content.
    pub kind: u16,
    /// Cookie of the request.
    pub cookie: u64,
    /// Length of the content in bytes.
    pub length: u32,
}

impl ChunkHead {
    /// Parses the header of a chunk.
    ///
    /// # Errors
    /// [`ProtoError::Magic`], [`ProtoError::ChunkTooLong`], and unknown flags.
    pub fn parse(bytes: &[u8; CHUNK_BYTES]) -> Result<Self, ProtoError> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.u32()?;
        if magic != MAGIC {
            return Err(ProtoError::Magic { part: "a structured reply", found: magic.into() });
        }
        let (flags, kind) = (cursor.u16()?, cursor.u16()?);
        if flags & !DONE != 0 {
            return Err(Malformed::Code.into());
        }
        let (cookie, length) = (cursor.u64()?, cursor.u32()?);
        if length > MAX_CONTENT {
            return Err(ProtoError::ChunkTooLong(length));
        }
        Ok(ChunkHead { done: flags & DONE != 0, kind, cookie, length })
    }

    /// Returns the encoded header.
    pub fn emit(&self) -> [u8; CHUNK_BYTES] {
        let mut bytes = [0; CHUNK_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&(if self.done { DONE } else { 0 }).to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// Content of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// No content: the request is done.
    None,
    /// Data of a part of the range.
    Data {
        /// Offset on the export.
        offset: u64,
        /// Data.
        bytes: &'a [u8],
    },
    /// A part of the range that is zeros.
    Hole {
        /// Offset on the export.
        offset: u64,
        /// Length in bytes.
        length: u32,
    },
    /// Block status of the range, from its start.
    Status {
        /// Number of the context.
        context: u32,
        /// Consecutive extents: length in bytes and flags.
        extents: Vec<(u32, u32)>,
    },
    /// Failure of the request.
    Error {
        /// Error.
        errno: Errno,
        /// Offset of the error, if known.
        offset: Option<u64>,
        /// Message.
        message: &'a str,
    },
}

impl<'a> Chunk<'a> {
    /// Parses the content of a chunk of this kind.
    ///
    /// # Errors
    /// When the content does not match the kind.
    pub fn parse(kind: u16, content: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(content);
        let chunk = match kind {
            NONE => Chunk::None,
            DATA => Chunk::Data { offset: cursor.u64()?, bytes: cursor.rest() },
            HOLE => Chunk::Hole { offset: cursor.u64()?, length: cursor.u32()? },
            STATUS => {
                let context = cursor.u32()?;
                let pairs = cursor.rest().chunks(8);
                let pair = |bytes| {
                    let mut cursor = Cursor::new(bytes);
                    Ok((cursor.u32()?, cursor.u32()?))
                };
                Chunk::Status { context, extents: pairs.map(pair).collect::<Result<_, _>>()? }
            }
            ERROR | ERROR_OFFSET => {
                let errno = Errno::from_code(cursor.u32()?);
                let length = cursor.u16()?;
                let message = cursor.text(length.into())?;
                let offset = if kind == ERROR { None } else { Some(cursor.u64()?) };
                Chunk::Error { errno, offset, message }
            }
            _ => return Err(Malformed::Code),
        };
        match chunk {
            Chunk::Data { bytes: &[], .. } => Err(Malformed::Short),
            Chunk::Status { ref extents, .. } if extents.is_empty() => Err(Malformed::Short),
            _ => cursor.end().map(|()| chunk),
        }
    }

    /// Returns the number of the kind.
    pub fn kind(&self) -> u16 {
        match self {
            Chunk::None => NONE,
            Chunk::Data { .. } => DATA,
            Chunk::Hole { .. } => HOLE,
            Chunk::Status { .. } => STATUS,
            Chunk::Error { offset: None, .. } => ERROR,
            Chunk::Error { offset: Some(_), .. } => ERROR_OFFSET,
        }
    }

    /// Appends the encoded chunk as a reply to the request `cookie`.
    ///
    /// # Panics
    /// When a message is longer than [`MAX_MESSAGE`].
    pub fn emit(&self, cookie: u64, done: bool, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; CHUNK_BYTES]);
        match self {
            Chunk::None => {}
            Chunk::Data { offset, bytes } => {
                out.put_u64(*offset);
                out.extend_from_slice(bytes);
            }
            Chunk::Hole { offset, length } => {
                out.put_u64(*offset);
                out.put_u32(*length);
            }
            Chunk::Status { context, extents } => {
                out.put_u32(*context);
                extents.iter().flat_map(|(len, flags)| [*len, *flags]).for_each(|n| out.put_u32(n));
            }
            Chunk::Error { errno, offset, message } => {
                assert!(message.len() <= MAX_MESSAGE, "a message of {} bytes", message.len());
                out.put_u32(errno.code());
                out.put_u16(message.len() as u16);
                out.extend_from_slice(message.as_bytes());
                offset.iter().for_each(|offset| out.put_u64(*offset));
            }
        }
        let length = (out.len() - begin - CHUNK_BYTES) as u32;
        let head = ChunkHead { done, kind: self.kind(), cookie, length };
        out[begin..begin + CHUNK_BYTES].copy_from_slice(&head.emit());
    }
}

/// Encodes the header of a data chunk with `length` bytes, which the caller sends without copying.
pub fn data_head(cookie: u64, done: bool, offset: u64, length: u32) -> [u8; DATA_HEAD_BYTES] {
    let mut bytes = [0; DATA_HEAD_BYTES];
    let head = ChunkHead { done, kind: DATA, cookie, length: length + 8 };
    bytes[..CHUNK_BYTES].copy_from_slice(&head.emit());
    bytes[CHUNK_BYTES..].copy_from_slice(&offset.to_be_bytes());
    bytes
}

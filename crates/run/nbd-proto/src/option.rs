//! Options: requests of a client during the handshake.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | `IHAVEOPT` |
//! | 8..12 | option |
//! | 12..16 | length of the data |
//! | 16.. | data |

use crate::error::{Malformed, ProtoError};
use crate::wire::{Cursor, Emit};

/// Maximum length of a string in the protocol, in bytes.
pub const MAX_NAME: usize = 4096;
/// Maximum length of option data that this codec accepts, in bytes.
pub const MAX_OPTION: u32 = 8 * 1024;

const MAGIC: u64 = 0x4948_4156_454f_5054;
const HEAD: usize = 16;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const LIST_META_CONTEXT: u32 = 9;
const SET_META_CONTEXT: u32 = 10;

/// Option with unparsed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionFrame<'a> {
    /// Number of the option.
    pub option: u32,
    /// Data of the option.
    pub data: &'a [u8],
}

impl<'a> OptionFrame<'a> {
    /// Parses the option at the front of `bytes` and returns it with its length; `None` if it is
    /// incomplete.
    ///
    /// # Errors
    /// [`ProtoError::Magic`] and [`ProtoError::OptionTooLong`], as soon as they can be detected.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, ProtoError> {
        let mut cursor = Cursor::new(bytes);
        let Ok(magic) = cursor.u64() else { return Ok(None) };
        if magic != MAGIC {
            return Err(ProtoError::Magic { part: "an option", found: magic });
        }
        let (Ok(option), Ok(length)) = (cursor.u32(), cursor.u32()) else { return Ok(None) };
        if length > MAX_OPTION {
            return Err(ProtoError::OptionTooLong { option, length });
        }
        match cursor.bytes(length as usize) {
            Ok(data) => Ok(Some((OptionFrame { option, data }, HEAD + data.len()))),
            Err(_) => Ok(None),
        }
    }
}

/// Content of `INFO` and `GO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportQuery<'a> {
    /// Name of the export; empty for the default.
    pub name: &'a str,
    /// Requested kinds of information, by number.
    pub infos: Vec<u16>,
}

impl<'a> ExportQuery<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(data);
        let name = cursor.counted()?;
        let count = cursor.u16()?;
        let infos = (0..count).map(|_| cursor.u16()).collect::<Result<_, _>>()?;
        cursor.end()?;
        Ok(ExportQuery { name, infos })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.put_counted(self.name);
        out.put_u16(self.infos.len() as u16);
        self.infos.iter().for_each(|info| out.put_u16(*info));
    }
}

/// Content of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextQuery<'a> {
    /// Name of the export; empty for the default.
    pub name: &'a str,
    /// Names of contexts. In a list, a name that ends with a colon matches all that begin with it.
    pub queries: Vec<&'a str>,
}

impl<'a> ContextQuery<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(data);
        let name = cursor.counted()?;
        let count = cursor.u32()?;
        let queries = (0..count).map(|_| cursor.counted()).collect::<Result<_, _>>()?;
        cursor.end()?;
        Ok(ContextQuery { name, queries })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.put_counted(self.name);
        out.put_u32(self.queries.len() as u32);
        self.queries.iter().for_each(|query| out.put_counted(query));
    }
}

/// Parsed option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOption<'a> {
    /// Opens the export. The only reply is its size and flags.
    ExportName(&'a str),
    /// Ends the connection.
    Abort,
    /// Lists the exports.
    List,
    /// Starts TLS.
    StartTls,
    /// Requests information about an export.
    Info(ExportQuery<'a>),
    /// Requests information about an export, and opens it.
    Go(ExportQuery<'a>),
    /// Permits structured replies.
    StructuredReply,
    /// Lists the contexts of block status.
    ListContexts(ContextQuery<'a>),
    /// Selects the contexts of block status, replacing an earlier selection.
    SetContexts(ContextQuery<'a>),
    /// Unknown option, which is answered with [`crate::Refusal::Unsupported`].
    Other(OptionFrame<'a>),
}

impl<'a> ClientOption<'a> {
    /// Parses the data of an option.
    ///
    /// # Errors
    /// When the data does not match the option.
    pub fn parse(frame: OptionFrame<'a>) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(frame.data);
        let option = match frame.option {
            EXPORT_NAME => ClientOption::ExportName(cursor.rest_text()?),
            // The data of an abort is ignored, as the specification permits a client to send any.
            ABORT => {
                cursor.rest();
                ClientOption::Abort
            }
            LIST => ClientOption::List,
            STARTTLS => ClientOption::StartTls,
            INFO => ClientOption::Info(ExportQuery::parse(cursor.rest())?),
            GO => ClientOption::Go(ExportQuery::parse(cursor.rest())?),
            STRUCTURED_REPLY => ClientOption::StructuredReply,
            LIST_META_CONTEXT => ClientOption::ListContexts(ContextQuery::parse(cursor.rest())?),
            SET_META_CONTEXT => ClientOption::SetContexts(ContextQuery::parse(cursor.rest())?),
            _ => return Ok(ClientOption::Other(frame)),
        };
        cursor.end()?;
        Ok(option)
    }

    /// Returns the number of the option.
    pub fn number(&self) -> u32 {
        match self {
            ClientOption::ExportName(_) => EXPORT_NAME,
            ClientOption::Abort => ABORT,
            ClientOption::List => LIST,
            ClientOption::Info(_) => INFO,
            ClientOption::Go(_) => GO,
            ClientOption::StartTls => STARTTLS,
            ClientOption::StructuredReply => STRUCTURED_REPLY,
            ClientOption::ListContexts(_) => LIST_META_CONTEXT,
            ClientOption::SetContexts(_) => SET_META_CONTEXT,
            ClientOption::Other(frame) => frame.option,
        }
    }

    /// Appends the encoded option.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.put_u64(MAGIC);
        out.put_u32(self.number());
        let length_at = out.len();
        out.put_u32(0);
        match self {
            ClientOption::ExportName(name) => out.extend_from_slice(name.as_bytes()),
            ClientOption::Abort
            | ClientOption::List
            | ClientOption::StartTls
            | ClientOption::StructuredReply => {}
            ClientOption::ListContexts(query) | ClientOption::SetContexts(query) => query.emit(out),
            ClientOption::Info(query) | ClientOption::Go(query) => query.emit(out),
            ClientOption::Other(frame) => out.extend_from_slice(frame.data),
        }
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

//! Protocol errors of a peer.

use crate::option::{MAX_NAME, MAX_OPTION};
use crate::request::MAX_PAYLOAD;
use crate::server::MAX_OPTIONS;

/// Protocol violation or refusal of the peer, after which the connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// A message does not begin with its magic number.
    #[error("{part} begins with {found:#x}: the peer does not use the NBD protocol")]
    Magic {
        /// Expected message.
        part: &'static str,
        /// Number that was found.
        found: u64,
    },
    /// The client set unknown handshake flags.
    #[error("the client set unknown handshake flags ({0:#x})")]
    ClientFlags(u32),
    /// The server does not support the fixed newstyle handshake.
    #[error("the server offers handshake flags {0:#x} without fixed newstyle")]
    NotFixedNewstyle(u16),
    /// An option or its reply exceeds the maximum length.
    #[error("option {option} has {length} bytes; at most {MAX_OPTION} are supported")]
    OptionTooLong {
        /// Number of the option.
        option: u32,
        /// Length in bytes.
        length: u32,
    },
    /// The client exceeded the number of options.
    #[error("the client sent more than {MAX_OPTIONS} options")]
    TooManyOptions,
    /// The export is refused. `EXPORT_NAME` has no error reply, so the connection is closed.
    #[error("cannot use export {name:?}: {why}")]
    UnknownExport {
        /// Requested name.
        name: String,
        /// Reason.
        why: String,
    },
    /// A write exceeds the maximum payload.
    #[error("a write of {0} bytes; at most {MAX_PAYLOAD} are supported")]
    WriteTooLong(u32),
    /// A chunk of a reply exceeds the maximum length.
    #[error("an unrequested reply with {0} bytes of content")]
    ChunkTooLong(u32),
    /// The server requires TLS, and the option has no error reply.
    #[error("the client starts without TLS, which is required")]
    Plain,
    /// The peer sent bytes before TLS began; a third party could have injected them.
    #[error("the client sent bytes between its TLS request and the answer")]
    BeforeTls,
    /// A message has inconsistent lengths, and no reply can be sent.
    #[error("a malformed message: {0}")]
    Malformed(#[from] Malformed),
    /// The server refused an option of the client.
    #[error("the server refused option {option} with code {code:#x}: {message}")]
    Refused {
        /// Number of the option.
        option: u32,
        /// Error code of the reply.
        code: u32,
        /// Message of the server.
        message: String,
    },
}

/// Error inside a message of the right length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field extends beyond the end of its message.
    #[error("it is truncated")]
    Short,
    /// The message has excess bytes.
    #[error("it has excess bytes")]
    Trailing,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
    /// A string is too long.
    #[error("a string is longer than {MAX_NAME} bytes")]
    NameTooLong,
    /// An unknown number.
    #[error("an unknown code")]
    Code,
}

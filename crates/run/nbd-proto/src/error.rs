//! What can be wrong with the bytes of a peer.

use crate::option::{MAX_NAME, MAX_OPTION};
use crate::request::MAX_PAYLOAD;
use crate::server::MAX_OPTIONS;

/// The peer broke the protocol or said no: the connection can't go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// The bytes are not what they should begin with.
    #[error("{what} begins with {found:#x}: the peer does not speak NBD")]
    Magic {
        /// Which message it should have been.
        what: &'static str,
        /// What was there instead.
        found: u64,
    },
    /// The client set handshake flags that do not exist.
    #[error("the client set unknown handshake flags ({0:#x})")]
    ClientFlags(u32),
    /// The server does not speak fixed newstyle.
    #[error("the server offers handshake flags {0:#x}, which lack fixed newstyle")]
    NotFixedNewstyle(u16),
    /// An option or its reply is longer than anyone needs.
    #[error("option {option} comes with {length} bytes; at most {MAX_OPTION} are taken")]
    OptionTooLong {
        /// The number of the option.
        option: u32,
        /// Its length in bytes.
        length: u32,
    },
    /// The client negotiates without an end.
    #[error("the client sent more than {MAX_OPTIONS} options")]
    TooManyOptions,
    /// `EXPORT_NAME` has no way to say no, except to hang up.
    #[error("export {name:?} is refused: {why}")]
    UnknownExport {
        /// The name that the client asked for.
        name: String,
        /// Why it gets nothing.
        why: String,
    },
    /// A write is too long to be taken in.
    #[error("a write of {0} bytes; at most {MAX_PAYLOAD} are taken")]
    WriteTooLong(u32),
    /// A chunk of a reply is longer than any that was asked for.
    #[error("a reply with {0} bytes of content, which nobody asked for")]
    ChunkTooLong(u32),
    /// The server requires TLS, and the client can't be told so in another way.
    #[error("the client wants to begin without TLS")]
    Plain,
    /// The client sent more before TLS began, which somebody else may have put there.
    #[error("the client sent bytes between its wish for TLS and the answer")]
    BeforeTls,
    /// A message whose lengths do not add up, where no reply can be sent.
    #[error("a malformed message: {0}")]
    Malformed(#[from] Malformed),
    /// The server refused an option of the client.
    #[error("the server refused option {option} with code {code:#x}: {message}")]
    Refused {
        /// The number of the option.
        option: u32,
        /// The error code of the reply.
        code: u32,
        /// What the server said.
        message: String,
    },
}

/// What is wrong inside a message of the right length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field reaches past the end of its message.
    #[error("it ends too early")]
    Short,
    /// Bytes are left over.
    #[error("it has bytes left over")]
    Trailing,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
    /// A string is too long.
    #[error("a string is longer than {MAX_NAME} bytes")]
    NameTooLong,
    /// A number that has no meaning here.
    #[error("an unknown code")]
    Code,
}

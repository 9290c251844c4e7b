//! The NBD protocol as a pure codec between bytes and values, without sockets and threads.
//!
//! It implements the fixed newstyle handshake ([`ServerHandshake`], [`ClientHandshake`]) and
//! requests with simple and structured replies ([`Request`], [`SimpleReply`], [`Chunk`]). Every
//! message can be parsed and emitted, so a server, a client and a fuzzer share one interpretation
//! of the specification. All integers are big-endian.
#![forbid(unsafe_code)]

mod chunk;
mod client;
mod error;
mod offer;
mod option;
mod reply;
mod request;
mod server;
mod simple;
mod wire;

pub mod flags;

pub use chunk::{CHUNK_BYTES, Chunk, ChunkHead, DATA_HEAD_BYTES, MAX_MESSAGE, data_head};
pub use client::{ClientHandshake, ClientOutcome, Negotiated};
pub use error::{Malformed, ProtoError};
pub use offer::{Agreement, HeldName, Offer, Tls};
pub use option::{ClientOption, ContextQuery, ExportQuery, MAX_NAME, MAX_OPTION, OptionFrame};
pub use reply::{BlockSizes, Info, OptionReply, Refusal, ReplyFrame};
pub use request::{Command, MAX_PAYLOAD, REQUEST_BYTES, Request};
pub use server::{MAX_OPTIONS, Outcome, ServerHandshake};
pub use simple::{Errno, SIMPLE_REPLY_BYTES, SimpleReply};

//! Serves a volume to clients: an NBD server on a unix socket or a TCP port, and ublk block devices
//! of the kernel.
//!
//! A connection has two threads. The reader receives requests from the socket, payload directly
//! into the volume's buffers, and passes them to the volume's
//! [`Port`](hostftl_volume::front::Port). It drives the volume itself when no other thread does.
//! The thread that completes a request sends its reply, several replies in one system call; the
//! writer thread takes over when the socket is full. The table of requests in flight bounds the
//! memory that one client can hold.
//!
//! To stop, [`Stopper::stop`] ends accepting and reading. Requests in flight are still answered,
//! then [`Server::run`] returns and its caller can close the volume cleanly.
#![forbid(unsafe_code)]

mod address;
mod budget;
mod channel;
mod connection;
mod error;
mod fault;
mod http;
mod inlet;
mod limit;
mod listen;
mod log;
mod metrics;
mod outlet;
mod reader;
mod registry;
mod reply_part;
mod server;
mod socket;
mod source;
mod split;
mod table;
mod tls;
mod ublk;
mod witness;
mod writer;

pub use address::Address;
pub use error::ServeError;
pub use http::{HttpOptions, HttpServer};
pub use limit::Limits;
pub use log::Log;
pub use server::{Exported, Options, Served, Server, Stopper};
pub use socket::SocketOwner;
pub use tls::{Certificates, Secure};
pub use ublk::{BlockDevice, Detached, Disk, DiskOptions, delete, list, refuse_beside_waiting};
pub use witness::{RequestKind, RequestObserver};

//! Serves a volume to the outside: the NBD server on a unix socket or a TCP port, and block devices
//! of the kernel by ublk.
//!
//! A connection has two threads. The reader takes requests from the socket, payload straight into
//! the volume's buffers, hands them to the volume's [`Port`](hostftl_volume::front::Port), and does
//! them itself when no other thread does. Answers go out from whichever thread has them, several at
//! once; the writer goes on where the client does not take them at once. The table of requests in
//! flight bounds what one client can hold.
//!
//! Stopping: [`Stopper::stop`] ends the accepting and the reading; what is in flight is answered,
//! and [`Server::run`] returns, so that its caller can close the volume clean.
#![forbid(unsafe_code)]

mod address;
mod budget;
mod channel;
mod connection;
mod disk;
mod error;
mod fault;
mod inlet;
mod limit;
mod listen;
mod log;
mod metrics;
mod outlet;
mod piece;
mod reader;
mod registry;
mod server;
mod socket;
mod source;
mod split;
mod table;
mod tls;
mod witness;
mod writer;

pub use address::Address;
pub use disk::{Disk, DiskOptions, Found, Left, delete, list, refuse_beside_waiting};
pub use error::ServeError;
pub use limit::Limits;
pub use log::Log;
pub use metrics::Metrics;
pub use server::{Exported, Options, Served, Server, Stopper};
pub use socket::Owner;
pub use tls::{Certificates, Secure};
pub use witness::{Seen, Witness};

//! Client side of a device behind an NBD server.
//!
//! A device holds a [`Remote`]. One thread ([`client`]) owns all connections of it: it sends
//! commands, receives replies, reconnects after a connection is lost, and then repeats the writes
//! that the server may have lost.

mod claim;
mod client;
mod dial;
mod flow;
mod item;
mod late_writes;
mod line;
mod link;
mod remote;
mod tls;
mod unflushed;
mod uri;

pub use remote::{Link, LinkWatch};
pub(crate) use remote::{Remote, Shared};
pub(crate) use uri::Uri;

//! A device behind an NBD server: the client's side.
//!
//! [`Remote`] is what a device holds. Behind it one thread ([`client`]) has all connections: it
//! sends commands, receives answers, calls a server that went away again, and sends once more what
//! that server may have lost.

mod claim;
mod client;
mod dial;
mod flow;
mod ghosts;
mod item;
mod kept;
mod line;
mod link;
mod remote;
mod tls;
mod uri;

pub use remote::{Link, LinkWatch};
pub(crate) use remote::{Remote, Shared};
pub(crate) use uri::Uri;

//! What can be wrong with serving, in words for the user.

use std::io;
use std::path::PathBuf;

use crate::address::Address;

/// Why a volume can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not one that can be served on.
    #[error("{0:?} is not an NBD address: write {forms}", forms = Address::FORMS)]
    Address(String),
    /// Two volumes would have the same name.
    #[error(
        "two volumes would be called {0:?} by their clients: give one of them another `label` in \
         its volume file, or serve it at another address"
    )]
    Alike(String),
    /// A unix socket can't be given to that group.
    #[error("there is no group {0:?} in /etc/group; name one of it, or its number")]
    Group(String),
    /// Not exactly one socket was handed over.
    #[error("{0} sockets were handed over (LISTEN_FDS); exactly one is needed")]
    HandedOver(usize),
    /// A certificate or key can't be used.
    #[error("{path}: {why}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The kernel takes no socket path of this length.
    #[error("{path}: a socket path has at most {most} bytes; choose a shorter one")]
    TooLong {
        /// The path.
        path: PathBuf,
        /// The limit in bytes.
        most: usize,
    },
    /// Another server listens there.
    #[error("{0}: another server listens on this socket; stop it or choose another path")]
    InUse(PathBuf),
    /// Something that is no socket is there.
    #[error("{0}: a file that is not a socket is in the way; remove it or choose another path")]
    InTheWay(PathBuf),
    /// The socket can't be made or used.
    #[error("{path}: {doing}: {error}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

//! Errors of serving, with messages for users.

use std::io;
use std::path::PathBuf;

use crate::address::Address;

/// Reason why a volume cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address has none of the accepted forms.
    #[error("{0:?} is not an NBD address: write {forms}", forms = Address::FORMS)]
    Address(String),
    /// Two volumes have the same export name.
    #[error(
        "two volumes have the export name {0:?}; change the `label` in one volume file, or use \
         another address"
    )]
    Alike(String),
    /// The group for a unix socket does not exist.
    #[error("unknown group {0:?}; use a group of /etc/group or a number")]
    Group(String),
    /// The service manager did not pass exactly one socket.
    #[error("LISTEN_FDS has {0} sockets; exactly one is needed")]
    HandedOver(usize),
    /// A certificate or key cannot be used.
    #[error("{path}: {why}")]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// The path is too long for a unix socket.
    #[error("{path}: a socket path has at most {most} bytes; choose a shorter one")]
    TooLong {
        /// Rejected path.
        path: PathBuf,
        /// Limit in bytes.
        most: usize,
    },
    /// Another server listens on this socket.
    #[error("{0}: another server listens on this socket; stop it or choose another path")]
    InUse(PathBuf),
    /// A file that is not a socket exists at the path.
    #[error("{0}: a file that is not a socket is in the way; remove it or choose another path")]
    InTheWay(PathBuf),
    /// The socket cannot be created or used.
    #[error("{path}: {doing}: {error}")]
    Io {
        /// Path or address of the socket.
        path: PathBuf,
        /// Operation that failed.
        doing: &'static str,
        /// Error of the kernel.
        error: io::Error,
    },
}

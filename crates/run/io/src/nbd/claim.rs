//! Exclusive use of an export on this machine, because the protocol has no locks.
//!
//! The claim is an abstract socket with a name derived from the server's address and the export's
//! name. It disappears with the process, however that ends. It does not detect volumes on other
//! machines, in another network namespace, or with a different address for the same server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as Name, UnixListener};
use std::time::Duration;

use super::uri::{ServerAddress, Uri};
use crate::connect::connect_claim;
use crate::deadline::Deadline;
use crate::error::IoError;
use crate::holder::describe;

/// Time limit for finding the process that uses an export.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct ExportClaim {
    _listener: UnixListener,
}

impl ExportClaim {
    /// Claims the export of `uri`. `at` is the address of its host, and `canonical` the server's
    /// name for the export, if it reports one.
    pub(super) fn new(
        name: &str,
        uri: &Uri,
        (at, canonical): (Option<SocketAddr>, Option<&str>),
    ) -> Result<Self, IoError> {
        let system = |source| IoError::System { name: name.into(), action: "claim it", source };
        let export = canonical.unwrap_or(&uri.export);
        let place = match &uri.place {
            ServerAddress::Unix(path) => {
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                format!("{}", path.display())
            }
            ServerAddress::Tcp(host, port) => {
                at.map_or_else(|| format!("{host}:{port}"), |place| place.to_string())
            }
        };
        // An abstract name has at most 107 bytes, so hashes replace the full names.
        let hash = hostftl_format::page::crc32c(0, format!("{place}\0{export}").as_bytes());
        let check = hostftl_format::page::crc32c(1, format!("{export}\0{place}").as_bytes());
        let claim = format!("hostftl-nbd-{hash:08x}{check:08x}");
        let address = Name::from_abstract_name(&claim).map_err(system)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(ExportClaim { _listener: listener }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let holder = holder(&claim).unwrap_or_else(|| "another process".into());
                Err(IoError::Busy { name: name.into(), holder })
            }
            Err(error) => Err(system(error)),
        }
    }
}

/// Returns the process that holds a claim.
fn holder(claim: &str) -> Option<String> {
    // These connections are never accepted, so earlier ones may have filled the queue.
    let stream = connect_claim(claim, &Deadline::after(PATIENCE)).ok()?;
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of_val(&peer) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: an open socket, and memory of the given length.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut peer).cast(), &mut len)
    };
    if result < 0 { None } else { describe(u32::try_from(peer.pid).ok()?) }
}

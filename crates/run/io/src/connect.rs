//! Connections to a peer with a deadline. A plain `connect` blocks for minutes, or for ever, if the
//! listener's queue is full or a machine drops the packets.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::deadline::Deadline;

/// Pause between attempts while the queue of a listener is full.
const PAUSE: Duration = Duration::from_millis(10);
/// Minimum time for each address of a host.
const LEAST: Duration = Duration::from_millis(250);

/// Connects to the unix socket at `path`. The stream is non-blocking.
///
/// # Errors
/// When nothing listens there, or it does not accept the connection before the deadline.
pub fn connect_unix(path: &Path, deadline: &Deadline) -> io::Result<UnixStream> {
    connect_to(&SocketAddrUnix::new(path)?, AddressFamily::UNIX, deadline).map(UnixStream::from)
}

/// Connects to the unix socket with this abstract name.
pub(crate) fn connect_claim(name: &str, deadline: &Deadline) -> io::Result<UnixStream> {
    let place = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    connect_to(&place, AddressFamily::UNIX, deadline).map(UnixStream::from)
}

/// Connects to the first address that answers; each gets its share of the time. The stream is
/// non-blocking.
pub(crate) fn connect_tcp(places: &[SocketAddr], deadline: &Deadline) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the host name has no address");
    for (index, place) in places.iter().enumerate() {
        let family = match place {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        // An address that does not answer must leave time for the others.
        let share = deadline.left()? / (places.len() - index) as u32;
        match connect_to(place, family, &deadline.sooner(share.max(LEAST))) {
            Ok(stream) => return Ok(stream.into()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(
    place: &impl SocketAddrArg,
    family: AddressFamily,
    deadline: &Deadline,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    loop {
        match connect(&socket, place) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(socket),
            Err(Errno::INTR) => {}
            // The queue of a unix socket is full.
            Err(Errno::AGAIN) => deadline.sleep(PAUSE)?,
            Err(Errno::INPROGRESS | Errno::ALREADY) => {
                deadline.wait(socket.as_fd(), true)?;
                socket_error(&socket)??;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such sockets")]
    fn connecting_to_an_idle_listener_ends_at_the_deadline() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let _listener = UnixListener::bind(&path).expect("a socket");
        let deadline = Deadline::after(Duration::from_secs(3600));
        let filled: Vec<_> = std::iter::repeat_with(|| {
            connect_unix(&path, &deadline.sooner(Duration::from_millis(20)))
        })
        .take_while(Result::is_ok)
        .collect();
        assert!(!filled.is_empty());
        let refused = connect_unix(&folder.path().join("none"), &deadline).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
    }
}

//! Where clients come in: a socket of our own, or one that the service manager hands over.

use std::io;
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostftl_volume::front::wait_readable;
use listenfd::ListenFd;

use crate::address::{Address, escaped, unix_uri};
use crate::channel::Socket;
use crate::error::ServeError;
use crate::socket::{Bound, Owner};

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Listening {
    /// Under a name that goes away with it.
    Named(Bound),
    /// On a TCP port.
    Tcp(TcpListener),
    /// Handed over; the service manager goes on listening when we end.
    Inherited(UnixListener),
    /// The same on a TCP port.
    InheritedTcp(TcpListener),
}

/// Wakes the thread that accepts. It needs no name of the socket, which may be gone or another's.
#[derive(Debug)]
pub(crate) enum Alarm {
    /// Shuts the listening socket down, which nobody else has.
    Shut(UnixStream),
    /// The socket is the service manager's too; the thread that accepts looks up now and then.
    Look,
}

/// How often a thread looks up that waits for clients of a socket that was handed over.
const LOOK: Duration = Duration::from_millis(200);

impl Listening {
    /// Listens at `address`; a unix socket that is made is `owner`'s.
    ///
    /// # Errors
    /// When it is in use or can't be used.
    pub(crate) fn new(address: &Address, owner: &Owner) -> Result<Self, ServeError> {
        let failed = |doing| {
            let path = PathBuf::from(address.to_string());
            move |error| ServeError::Io { path, doing, error }
        };
        match address {
            Address::Unix(path) => Bound::new(path, owner).map(Listening::Named),
            Address::Tcp(place) => {
                let listener = TcpListener::bind(place).map_err(failed("can't listen there"))?;
                Ok(Listening::Tcp(listener))
            }
            Address::Systemd => {
                let mut handed = ListenFd::from_env();
                if handed.len() != 1 {
                    return Err(ServeError::HandedOver(handed.len()));
                }
                if let Ok(Some(listener)) = handed.take_unix_listener(0) {
                    return Ok(Listening::Inherited(listener));
                }
                let listener = handed.take_tcp_listener(0);
                let listener = listener.map_err(failed("can't use the socket handed over"))?;
                listener.map(Listening::InheritedTcp).ok_or(ServeError::HandedOver(0))
            }
        }
    }

    /// The next client.
    ///
    /// # Errors
    /// As the kernel says; [`io::ErrorKind::WouldBlock`] when none came for a while.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Listening::Inherited(listener) => wait_readable(listener.as_fd(), LOOK),
            Listening::InheritedTcp(listener) => wait_readable(listener.as_fd(), LOOK),
            Listening::Named(_) | Listening::Tcp(_) => {}
        }
        let unix = |listener: &UnixListener| Ok(Socket::Unix(listener.accept()?.0));
        match self {
            Listening::Named(bound) => unix(&bound.listener),
            Listening::Inherited(listener) => unix(listener),
            Listening::Tcp(listener) | Listening::InheritedTcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are sent whole, so there is nothing to wait for.
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }

    /// What wakes `accept`.
    ///
    /// # Errors
    /// When the system gives no file descriptor.
    pub(crate) fn alarm(&self) -> io::Result<Alarm> {
        let shut = |fd: OwnedFd| Alarm::Shut(UnixStream::from(fd));
        Ok(match self {
            Listening::Named(bound) => shut(bound.listener.try_clone()?.into()),
            Listening::Tcp(listener) => shut(listener.try_clone()?.into()),
            // Another process may accept the client between the look and the accept.
            Listening::Inherited(listener) => {
                listener.set_nonblocking(true)?;
                Alarm::Look
            }
            Listening::InheritedTcp(listener) => {
                listener.set_nonblocking(true)?;
                Alarm::Look
            }
        })
    }

    /// The URI that NBD clients take, for the export of that name.
    pub(crate) fn uri(&self, secure: bool, export: &str) -> String {
        let scheme = if secure { "nbds" } else { "nbd" };
        let unix = |path: Option<&Path>| unix_uri(scheme, path.unwrap_or(Path::new("")), export);
        match self {
            Listening::Named(bound) => unix(Some(bound.path())),
            Listening::Inherited(listener) => {
                let place = listener.local_addr().ok();
                unix(place.as_ref().and_then(SocketAddr::as_pathname))
            }
            Listening::Tcp(listener) | Listening::InheritedTcp(listener) => {
                let place = listener.local_addr().map(|place| place.to_string());
                format!("{scheme}://{}/{}", place.unwrap_or_default(), escaped(export.as_bytes()))
            }
        }
    }
}

impl Alarm {
    /// Wakes the thread; nothing is left to do when that can't be done.
    pub(crate) fn ring(&self) {
        match self {
            Alarm::Shut(listening) => drop(listening.shutdown(Shutdown::Both)),
            Alarm::Look => {}
        }
    }
}

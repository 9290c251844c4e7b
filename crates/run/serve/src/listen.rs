//! Listening sockets: created by the server or inherited from the service manager.

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
use crate::socket::{Bound, SocketOwner};

/// Listening socket.
#[derive(Debug)]
pub(crate) enum Listening {
    /// Unix socket whose name is removed with it.
    Named(Bound),
    /// TCP port.
    Tcp(TcpListener),
    /// Inherited unix socket; the service manager keeps it open after the server ends.
    Inherited(UnixListener),
    /// Inherited TCP port.
    InheritedTcp(TcpListener),
}

/// Wakes the accepting thread. It does not connect by name, because the name may be removed or
/// belong to another server.
#[derive(Debug)]
pub(crate) enum Alarm {
    /// Shuts down the listening socket, which no other process shares.
    Shut(UnixStream),
    /// Does nothing: the socket is shared with the service manager, and the accepting thread checks
    /// the stop flag periodically.
    Check,
}

/// Interval at which a thread that accepts from an inherited socket checks the stop flag.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

impl Listening {
    /// Listens at `address`. A unix socket that is created gets the mode and group of `owner`.
    pub(crate) fn new(address: &Address, owner: &SocketOwner) -> Result<Self, ServeError> {
        let failed = |doing| {
            let path = PathBuf::from(address.to_string());
            move |error| ServeError::Io { path, doing, error }
        };
        match address {
            Address::Unix(path) => Bound::new(path, owner).map(Listening::Named),
            Address::Tcp(place) => {
                let listener = TcpListener::bind(place).map_err(failed("cannot listen there"))?;
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
                let listener = listener.map_err(failed("cannot use the socket handed over"))?;
                listener.map(Listening::InheritedTcp).ok_or(ServeError::HandedOver(0))
            }
        }
    }

    /// Accepts the next client.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Listening::Inherited(listener) => wait_readable(listener.as_fd(), CHECK_INTERVAL),
            Listening::InheritedTcp(listener) => wait_readable(listener.as_fd(), CHECK_INTERVAL),
            Listening::Named(_) | Listening::Tcp(_) => {}
        }
        let unix = |listener: &UnixListener| Ok(Socket::Unix(listener.accept()?.0));
        match self {
            Listening::Named(bound) => unix(&bound.listener),
            Listening::Inherited(listener) => unix(listener),
            Listening::Tcp(listener) | Listening::InheritedTcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are sent whole, so Nagle's algorithm would only add latency.
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }

    /// Returns the handle that wakes `accept`.
    pub(crate) fn alarm(&self) -> io::Result<Alarm> {
        let shut = |fd: OwnedFd| Alarm::Shut(UnixStream::from(fd));
        Ok(match self {
            Listening::Named(bound) => shut(bound.listener.try_clone()?.into()),
            Listening::Tcp(listener) => shut(listener.try_clone()?.into()),
            // Another process may accept the client between the readiness check and the accept.
            Listening::Inherited(listener) => {
                listener.set_nonblocking(true)?;
                Alarm::Check
            }
            Listening::InheritedTcp(listener) => {
                listener.set_nonblocking(true)?;
                Alarm::Check
            }
        })
    }

    /// Returns the URI of an export for NBD clients.
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
    /// Wakes the accepting thread. Errors are ignored: there is no alternative.
    pub(crate) fn ring(&self) {
        match self {
            Alarm::Shut(listening) => drop(listening.shutdown(Shutdown::Both)),
            Alarm::Check => {}
        }
    }
}

//! HTTP server: metrics for scrapers, and the page of the volumes. Clients can read, but cannot
//! change anything.
//!
//! One thread runs all connections. The statuses are read on a few other threads, because a drive
//! can take long to report its wear.

mod connections;
mod page;
mod routes;
mod updates;

use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hostftl_volume::StatusHandle;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::address::Address;
use crate::error::ServeError;
use crate::listen::Listening;
use crate::socket::SocketOwner;
use crate::tls::{Certificates, Secure};

use self::connections::Connections;

/// Maximum number of threads that read statuses.
const MAX_READERS: usize = 4;
/// Time to wait at the end for a status that is still read.
const GRACE: Duration = Duration::from_secs(1);

/// Location and contents of an HTTP server.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Unix socket or TCP port.
    pub address: Address,
    /// Whether the page is served; otherwise only the metrics are.
    pub page: bool,
    /// Certificates, if clients must use TLS.
    pub tls: Option<Certificates>,
}

/// HTTP server; it runs until it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: Option<SocketAddr>,
    secure: Option<Secure>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Keeps the name of a unix socket.
    _listening: Listening,
}

/// Listening socket of the runtime.
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl HttpServer {
    /// Listens and serves the volumes.
    ///
    /// # Errors
    /// When the address cannot be used, or no thread can be started.
    pub fn serve(options: &HttpOptions, volumes: Vec<StatusHandle>) -> Result<Self, ServeError> {
        let failed = |doing| {
            let path = options.address.to_string().into();
            move |error: io::Error| ServeError::Io { path, doing, error }
        };
        let secure = options.tls.clone().map(Secure::new).transpose()?;
        let listening = Listening::new(&options.address, &SocketOwner::default())?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAX_READERS)
            .build()
            .map_err(failed("cannot start its runtime"))?;
        let listener = adopt(&runtime, &listening).map_err(failed("cannot use the socket"))?;
        let address = match &listener {
            Listener::Tcp(it) => Some(it.local_addr().map_err(failed("cannot use the socket"))?),
            Listener::Unix(_) => None,
        };
        let connections = Connections::default();
        // A browser can be made to resolve a stranger's name to this address. With TLS, it would
        // refuse the certificate then.
        let checks_host = options.page && address.is_some() && secure.is_none();
        let volumes = volumes.into();
        let routes = routes::router(volumes, connections.clone(), (options.page, checks_host));
        let (stop, stopped) = oneshot::channel();
        let tls = secure.clone();
        let run = move || {
            runtime.spawn(connections.accept(listener, tls, routes));
            // Dropping the sender stops the server too.
            runtime.block_on(stopped).ok();
            runtime.shutdown_timeout(GRACE);
        };
        let thread = thread::Builder::new().name("http".into()).spawn(run);
        let thread = Some(thread.map_err(failed("cannot start its thread"))?);
        Ok(HttpServer { address, secure, stop: Some(stop), thread, _listening: listening })
    }

    /// Returns the TCP address, with the actual port if 0 was requested; `None` for a unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the certificates, if clients must use TLS, to reload them.
    pub fn secure(&self) -> Option<Secure> {
        self.secure.clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic in the thread was reported; the volumes must still be stopped.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Registers a duplicate of the listening socket with the runtime.
fn adopt(runtime: &Runtime, listening: &Listening) -> io::Result<Listener> {
    let _context = runtime.enter();
    Ok(match listening {
        Listening::Named(bound) => {
            let listener = bound.listener.try_clone()?;
            listener.set_nonblocking(true)?;
            Listener::Unix(UnixListener::from_std(listener)?)
        }
        Listening::Tcp(listener) => {
            let listener = listener.try_clone()?;
            listener.set_nonblocking(true)?;
            Listener::Tcp(TcpListener::from_std(listener)?)
        }
        Listening::Inherited(_) | Listening::InheritedTcp(_) => {
            return Err(io::ErrorKind::Unsupported.into());
        }
    })
}

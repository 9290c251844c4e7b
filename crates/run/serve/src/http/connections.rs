//! Connections of HTTP clients.
//!
//! Invariants
//! - A connection serves one request.
//! - A connection is closed after [`PATIENCE`] without progress: a complete response, or a message
//!   of a stream. A slow client makes no progress.
//! - At most [`MAX_REQUESTS`] connections have a request to send or a response to receive, and at
//!   most [`MAX_STREAMS`] a stream. The newest displaces the oldest, so idle connections cannot
//!   keep others out.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::tls::{Secure, check_names};

use super::Listener;

/// Time limit for progress.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a failed accept, usually for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of a request's head in bytes.
const LONGEST: usize = 8192;
/// Maximum number of connections without a stream.
const MAX_REQUESTS: usize = 64;
/// Maximum number of connections with a stream.
const MAX_STREAMS: usize = 16;

/// Connections of one server. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<Vec<Entry>>>);

/// One connection and the task that serves it.
#[derive(Debug)]
struct Entry {
    connection: Arc<Connection>,
    task: AbortHandle,
}

/// State of one connection, shared with the handler of its request.
#[derive(Debug, Default)]
pub(super) struct Connection {
    is_stream: AtomicBool,
    has_progressed: AtomicBool,
}

impl Connection {
    /// Records that a message of the stream is about to be sent.
    pub(super) fn progress(&self) {
        self.has_progressed.store(true, Relaxed);
    }

    fn is_stream(&self) -> bool {
        self.is_stream.load(Relaxed)
    }
}

impl Connections {
    /// Accepts clients and serves them.
    pub(super) async fn accept(self, listener: Listener, tls: Option<Secure>, routes: Router) {
        loop {
            if self.accept_one(&listener, tls.as_ref(), &routes).await.is_err() {
                sleep(PAUSE).await;
            }
        }
    }

    async fn accept_one(
        &self,
        listener: &Listener,
        tls: Option<&Secure>,
        routes: &Router,
    ) -> io::Result<()> {
        let connection = Arc::<Connection>::default();
        let (routes, own) =
            (routes.clone().layer(Extension(connection.clone())), connection.clone());
        let task = match (listener, tls) {
            (Listener::Unix(it), _) => tokio::spawn(serve(it.accept().await?.0, routes, own)),
            (Listener::Tcp(it), None) => tokio::spawn(serve(it.accept().await?.0, routes, own)),
            (Listener::Tcp(it), Some(tls)) => {
                tokio::spawn(serve_secure(it.accept().await?.0, tls.clone(), routes, own))
            }
        };
        self.make_room(false, MAX_REQUESTS);
        self.with(|all| all.push(Entry { connection, task: task.abort_handle() }));
        Ok(())
    }

    /// Turns a connection into a stream.
    pub(super) fn begin_stream(&self, connection: &Connection) {
        self.make_room(true, MAX_STREAMS);
        connection.is_stream.store(true, Relaxed);
    }

    /// Closes the oldest connection of the kind if there are `most` of them.
    fn make_room(&self, is_stream: bool, most: usize) {
        self.with(|all| {
            all.retain(|it| !it.task.is_finished());
            let is_same = |it: &Entry| it.connection.is_stream() == is_stream;
            if all.iter().filter(|it| is_same(it)).count() >= most {
                let oldest = all.iter().position(is_same);
                oldest.into_iter().for_each(|oldest| all.remove(oldest).task.abort());
            }
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Entry>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves one request over TLS.
async fn serve_secure(stream: TcpStream, tls: Secure, routes: Router, connection: Arc<Connection>) {
    let handshake = TlsAcceptor::from(tls.now()).accept(stream);
    let Ok(Ok(stream)) = timeout(PATIENCE, handshake).await else { return };
    if check_names(stream.get_ref().1, tls.allow()).is_ok() {
        serve(stream, routes, connection).await;
    }
}

/// Serves one request.
async fn serve<S>(stream: S, routes: Router, connection: Arc<Connection>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut http = http1::Builder::new();
    // The limit of the whole connection replaces the one of the head.
    http.keep_alive(false).max_buf_size(LONGEST).header_read_timeout(None);
    let service = TowerToHyperService::new(routes);
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    // Errors are ignored: a client that disconnected will try again.
    while timeout(PATIENCE, served.as_mut()).await.is_err() {
        if !connection.has_progressed.swap(false, Relaxed) {
            return;
        }
    }
}

//! `GET /metrics`: metrics of volumes for Prometheus, over plain HTTP.
//!
//! Each connection serves one request and is closed, which every scraper supports. Clients can read
//! metrics, but cannot change anything.
//!
//! Each connection has a thread and one deadline, and at most [`MAX_GUESTS`] wait for a request, so
//! idle connections cannot keep a scraper out. Available HTTP server crates have no deadline for a
//! client that is idle or slow; therefore only the parser, `httparse`, is used.

mod text;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use hostftl_io::{Deadline, Timed};
use hostftl_volume::{Guests, Status, StatusHandle};

use crate::error::ServeError;

/// Time limit for a scraper to send its request and receive the response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time to wait at the end for threads that still respond to a slow scraper.
const GRACE: Duration = Duration::from_secs(1);
/// Pause after a failed accept, usually for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of a request's head in bytes, and maximum number of its headers.
const LONGEST: usize = 8192;
const MAX_HEADERS: usize = 64;
/// Maximum number of connections without a complete request.
const MAX_GUESTS: usize = 64;
/// Media type of the response for scrapers that accept it.
const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type for all others, such as `promtool check metrics` behind `curl`.
const CLASSIC_CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics server; it runs until it is closed or dropped.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    /// Duplicate of the listening socket, to shut it down.
    listening: TcpStream,
    guests: Arc<Guests>,
    /// Disconnected when all threads have ended.
    threads: Receiver<()>,
}

impl Metrics {
    /// Listens on `address` and serves the metrics of volumes.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn serve(address: SocketAddr, figures: Vec<StatusHandle>) -> Result<Self, ServeError> {
        let failed = |doing| {
            move |error: io::Error| ServeError::Io {
                path: address.to_string().into(),
                doing,
                error,
            }
        };
        let listener = TcpListener::bind(address).map_err(failed("cannot listen for scrapers"))?;
        let address = listener.local_addr().map_err(failed("cannot listen for scrapers"))?;
        let again = listener.try_clone().map_err(failed("cannot share the socket"))?;
        let listening = TcpStream::from(OwnedFd::from(again));
        let over = Arc::new(AtomicBool::new(false));
        let guests = Arc::new(Guests::new(MAX_GUESTS));
        let (ends, enters, (alive, threads)) = (over.clone(), guests.clone(), channel());
        let figures: Arc<[StatusHandle]> = figures.into();
        let accept = move || accept(&listener, &figures, (&enters, &ends), &alive);
        let builder = thread::Builder::new().name("metrics".into());
        builder.spawn(accept).map_err(failed("cannot start its thread"))?;
        Ok(Metrics { address, over, listening, guests, threads })
    }

    /// Returns the listening address, with the actual port if 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // The shutdown ends the accept without a connection to the own address, which might be
        // unreachable.
        self.listening.shutdown(Shutdown::Both).ok();
        self.guests.turn_out();
        // No message is sent; the wait ends when the threads have ended, or after the time limit.
        self.threads.recv_timeout(GRACE).ok();
    }
}

/// Accepts scrapers until `over` is set; each thread holds a clone of `alive`.
fn accept(
    listener: &TcpListener,
    figures: &Arc<[StatusHandle]>,
    (guests, over): (&Arc<Guests>, &AtomicBool),
    alive: &Sender<()>,
) {
    for stream in listener.incoming() {
        if over.load(SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            thread::sleep(PAUSE);
            continue;
        };
        let (figures, guests, alive) = (figures.clone(), guests.clone(), alive.clone());
        let serve = move || {
            let _alive = alive;
            // Errors are ignored: a scraper that disconnected will try again.
            answer(&stream, &figures, &guests).ok();
        };
        // If no thread can be started, the connection is closed.
        drop(thread::Builder::new().name("scraper".into()).spawn(serve));
    }
}

fn answer(stream: &TcpStream, figures: &[StatusHandle], guests: &Guests) -> io::Result<()> {
    let guest = guests.enter(OwnedFd::from(stream.try_clone()?));
    stream.set_nonblocking(true)?;
    let deadline = Deadline::after(PATIENCE);
    let mut stream = Timed::new(stream, &deadline);
    let (status, kind, body) = match read_request(&mut stream)? {
        Asked::Metrics { open_metrics } => {
            let text = text::emit(&statuses(figures));
            if open_metrics {
                ("200 OK", OPEN_METRICS_CONTENT, text)
            } else {
                ("200 OK", CLASSIC_CONTENT, text::classic(&text))
            }
        }
        Asked::Other => ("404 Not Found", "text/plain", "try /metrics\n".into()),
        Asked::Method => ("405 Method Not Allowed", "text/plain", "use GET\n".into()),
        Asked::Nonsense => ("400 Bad Request", "text/plain", "this is HTTP/1.1\n".into()),
    };
    drop(guest);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

fn statuses(figures: &[StatusHandle]) -> Vec<Status> {
    figures.iter().map(StatusHandle::status).collect()
}

/// Resource of a request.
enum Asked {
    Metrics {
        /// Whether the scraper accepts OpenMetrics.
        open_metrics: bool,
    },
    Other,
    Method,
    Nonsense,
}

/// Reads the head of a request.
fn read_request(stream: &mut impl Read) -> io::Result<Asked> {
    let mut head = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) => {
                let open_metrics = request.headers.iter().any(|it| {
                    let value = String::from_utf8_lossy(it.value);
                    it.name.eq_ignore_ascii_case("accept") && value.contains(OPEN_METRICS)
                });
                // The path without its query.
                let path = request.path.and_then(|path| path.split('?').next());
                return Ok(match (request.method, path) {
                    (Some("GET"), Some("/metrics")) => Asked::Metrics { open_metrics },
                    (Some("GET"), _) => Asked::Other,
                    _ => Asked::Method,
                });
            }
            Ok(httparse::Status::Partial) if head.len() <= LONGEST => {}
            _ => return Ok(Asked::Nonsense),
        }
        let mut some = [0; 1024];
        match stream.read(&mut some)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&some[..count]),
        }
    }
}

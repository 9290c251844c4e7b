//! `GET /metrics`: the figures of volumes for Prometheus, over plain HTTP.
//!
//! It answers one request on each connection and closes it, which every scraper understands. Who
//! reaches the address can read figures, and can't change anything.

mod text;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_volume::{Figures, Status};

use crate::error::ServeError;

/// How long a scraper may take for its request, and for taking the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a thread that still answers a slow scraper is waited for at the end.
const GRACE: Duration = Duration::from_secs(1);
/// How long to wait when no scraper can be let in, for want of descriptors as a rule.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest request, in bytes.
const LONGEST: usize = 8192;
/// What the answer is, so that scrapers know which of two text formats to read.
const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers scrapers until it is closed or dropped.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    /// The listening socket once more, to shut it down.
    listening: TcpStream,
    /// Ends when the thread does.
    thread: Receiver<()>,
}

impl Metrics {
    /// Listens on `address` and tells the figures of volumes.
    ///
    /// # Errors
    /// When the address means all networks, or can't be had.
    pub fn serve(address: SocketAddr, figures: Vec<Figures>) -> Result<Self, ServeError> {
        if address.ip().is_unspecified() {
            return Err(ServeError::Everywhere(address.to_string()));
        }
        let failed = |doing| {
            move |error: io::Error| ServeError::Io {
                path: address.to_string().into(),
                doing,
                error,
            }
        };
        let listener = TcpListener::bind(address).map_err(failed("can't listen for scrapers"))?;
        let address = listener.local_addr().map_err(failed("can't listen for scrapers"))?;
        let again = listener.try_clone().map_err(failed("can't share the socket"))?;
        let listening = TcpStream::from(OwnedFd::from(again));
        let over = Arc::new(AtomicBool::new(false));
        let (ends, (alive, thread)) = (over.clone(), channel());
        let answer = move || {
            let _alive = alive;
            for stream in listener.incoming() {
                if ends.load(SeqCst) {
                    return;
                }
                match stream {
                    // A scraper that went away misses nothing; it comes again.
                    Ok(stream) => drop(answer(stream, &figures)),
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        };
        let builder = thread::Builder::new().name("metrics".into());
        builder.spawn(answer).map_err(failed("can't start its thread"))?;
        Ok(Metrics { address, over, listening, thread })
    }

    /// Where it listens; the port is known now if it was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // A shutdown ends the wait for scrapers; nobody has to be able to connect.
        self.listening.shutdown(Shutdown::Both).ok();
        // The thread says nothing; the wait ends when it is gone, or too slow.
        self.thread.recv_timeout(GRACE).ok();
    }
}

fn answer(mut stream: TcpStream, figures: &[Figures]) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read_request(&mut stream)?;
    let mut words = request.split(' ');
    let (status, kind, body) = match (words.next(), words.next().map(path)) {
        (Some("GET"), Some("/metrics")) => ("200 OK", CONTENT, text::emit(&statuses(figures))),
        (Some("GET"), Some(_)) => ("404 Not Found", "text/plain", "try /metrics\n".into()),
        (Some(_), Some(_)) => ("405 Method Not Allowed", "text/plain", "use GET\n".into()),
        _ => ("400 Bad Request", "text/plain", "this is HTTP/1.1\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

fn statuses(figures: &[Figures]) -> Vec<Status> {
    figures.iter().map(Figures::status).collect()
}

/// The path without the question behind it.
fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// The first line of a request, when all of its head is there.
fn read_request(stream: &mut TcpStream) -> io::Result<String> {
    let (ends, mut head) = (Instant::now() + PATIENCE, Vec::new());
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST {
            return Err(io::Error::other("a request that does not end"));
        }
        stream.set_read_timeout(Some(left))?;
        let mut some = [0; 1024];
        match stream.read(&mut some)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&some[..count]),
        }
    }
    let head = String::from_utf8_lossy(&head);
    Ok(head.lines().next().unwrap_or_default().into())
}

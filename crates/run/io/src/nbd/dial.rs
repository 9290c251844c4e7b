//! Connection to a server in a thread of its own, so that neither a command nor the closing of the
//! device has to wait for the server.
//!
//! Invariants
//! - One deadline covers the whole exchange with the server, over all connections.
//! - A dial that is dropped ends soon, and its connections are closed. Only the system's resolution
//!   of a host name cannot be interrupted; no thread waits for it.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use hostftl_core::Page;
use hostftl_nbd_proto::Negotiated;
use hostftl_nbd_proto::flags::CAN_MULTI_CONN;

use super::line::Line;
use super::link::call;
use super::uri::{ServerAddress, Uri};
use crate::cancel;
use crate::deadline::Deadline;

/// Number of connections to a server that accepts several.
const LINES: usize = 4;
/// Time limit from the first connection to the reply with the first block.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Interval at which a caller that waits for a dial checks for cancellation.
const STEP: Duration = Duration::from_millis(50);

/// Connections, export, its first block, and the server's address if it has one.
pub(super) type Dialed = (Vec<Line>, Negotiated, Page, Option<SocketAddr>);

/// Dial in progress.
#[derive(Debug)]
pub(super) struct Dialing {
    stop: Arc<AtomicBool>,
    end: Receiver<io::Result<Dialed>>,
    most: Duration,
}

impl Dialing {
    /// Starts to connect, for at most `most`. `notify` is called at the end.
    pub(super) fn begin(
        uri: Uri,
        most: Duration,
        notify: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::after(most).or(stop.clone());
        let (sender, end) = channel();
        let run = move || {
            // The caller may no longer need the connections, so an error is ignored.
            sender.send(dial(&uri, &deadline)).ok();
            notify();
        };
        thread::Builder::new().name("nbd-dial".into()).spawn(run)?;
        Ok(Dialing { stop, end, most })
    }

    /// Returns the result if the dial has ended.
    pub(super) fn end(&mut self) -> Option<io::Result<Dialed>> {
        match self.end.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Err(io::Error::other("the connection attempt failed")))
            }
        }
    }

    /// Waits for the end.
    pub(super) fn wait(mut self) -> io::Result<Dialed> {
        let deadline = Deadline::after(self.most + STEP);
        loop {
            match self.end.recv_timeout(STEP) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return self.end().expect("the thread has ended");
                }
                Ok(result) => return result,
            }
            // Name resolution does not obey the deadline of the thread.
            deadline.left()?;
            if cancel::is_requested() {
                return Err(io::Error::other("interrupted"));
            }
        }
    }
}

impl Drop for Dialing {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
    }
}

/// Opens as many connections as the server allows.
fn dial(uri: &Uri, deadline: &Deadline) -> io::Result<Dialed> {
    let place = match &uri.place {
        ServerAddress::Unix(_) => None,
        ServerAddress::Tcp(host, port) => (host.as_str(), *port).to_socket_addrs()?.next(),
    };
    let (stream, export, head) = call(uri, deadline)?;
    let mut lines = vec![Line::new(0, stream)];
    let more = if export.flags & CAN_MULTI_CONN == 0 { 1 } else { LINES };
    while lines.len() < more {
        // The server may have a lower limit, and one connection is enough.
        let Ok((stream, ..)) = call(uri, deadline) else { break };
        lines.push(Line::new(lines.len(), stream));
    }
    Ok((lines, export, head, place))
}

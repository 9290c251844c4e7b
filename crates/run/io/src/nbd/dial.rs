//! Connecting to a server on a thread of its own, so that those who wait for a command, and those
//! who close the device, never wait for the server too.
//!
//! Invariants
//! - One deadline covers everything that is awaited from the server, over all connections.
//! - A dial that is dropped ends soon, and its connections are closed. Only the system's search for
//!   the address of a host can't be interrupted; nothing waits for its thread.

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
use super::uri::{Place, Uri};
use crate::cancel;
use crate::deadline::Deadline;

/// Connections to a server that takes several.
const LINES: usize = 4;
/// How long a server may take at most from the first connection to the first block.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often a caller that waits for a dial checks whether it is to end early.
const STEP: Duration = Duration::from_millis(50);

/// The connections, the export, its first block, and the server's address if it has one.
pub(super) type Dialed = (Vec<Line>, Negotiated, Page, Option<SocketAddr>);

/// A dial under way.
#[derive(Debug)]
pub(super) struct Dialing {
    stop: Arc<AtomicBool>,
    end: Receiver<io::Result<Dialed>>,
    most: Duration,
}

impl Dialing {
    /// Begins to connect, which takes `most` at the longest. `tell` is called at the end.
    pub(super) fn begin(
        uri: Uri,
        most: Duration,
        tell: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::after(most).or(stop.clone());
        let (sender, end) = channel();
        let run = move || {
            // A caller that is gone has no use for the connections.
            sender.send(dial(&uri, &deadline)).ok();
            tell();
        };
        thread::Builder::new().name("nbd-dial".into()).spawn(run)?;
        Ok(Dialing { stop, end, most })
    }

    /// The connections or why there are none, once that is known.
    pub(super) fn end(&mut self) -> Option<io::Result<Dialed>> {
        match self.end.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(io::Error::other("the dial failed"))),
        }
    }

    /// Waits for the end.
    pub(super) fn wait(mut self) -> io::Result<Dialed> {
        let deadline = Deadline::after(self.most + STEP);
        loop {
            match self.end.recv_timeout(STEP) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return self.end().expect("the thread is gone");
                }
                Ok(result) => return result,
            }
            // The thread itself is late where the system searches for an address.
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

/// Connects as often as the server allows.
fn dial(uri: &Uri, deadline: &Deadline) -> io::Result<Dialed> {
    let place = match &uri.place {
        Place::Unix(_) => None,
        Place::Tcp(host, port) => (host.as_str(), *port).to_socket_addrs()?.next(),
    };
    let (stream, export, head) = call(uri, deadline)?;
    let mut lines = vec![Line::new(0, stream)];
    let more = if export.flags & CAN_MULTI_CONN == 0 { 1 } else { LINES };
    while lines.len() < more {
        // A server may have its own limit, and one line is enough.
        let Ok((stream, ..)) = call(uri, deadline) else { break };
        lines.push(Line::new(lines.len(), stream));
    }
    Ok((lines, export, head, place))
}

//! Control socket of a served volume: reports the status and carries out requests.
//!
//! The socket is in the folder of [`crate::util::runtime_dir`] and named after the volume's UUID,
//! because the path of a volume file may exceed the maximum length of a socket name.
//!
//! # Protocol
//! The client sends one line, a [`Message`] as JSON. The server answers a status query with one
//! JSON object. A request for a change takes two more steps:
//!
//! | from | text | meaning |
//! |---|---|---|
//! | server | `ready` | it is alive and has started nothing |
//! | client | `go` | it still waits |
//! | server | empty lines, one a second | the request is in progress |
//! | server | one JSON object | the result |
//!
//! # Invariants
//! - The socket belongs to the process that has the volume's lock. A socket on which a process
//!   listens is never replaced, and a process removes only its own socket.
//! - Closing takes a bounded time, even if the socket file was removed or a reader does not read.
//! - A request starts only after `go`, and only before its deadline. A client that gives up before
//!   it sent `go` knows that nothing was or will be changed; after that it reports an unknown
//!   outcome.
//! - Each client has its own thread, so that a slow client does not delay the others.

pub(crate) mod client;
pub(crate) mod server;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hostftl_io::{Deadline, Timed};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::admin::request::AdminRequest;
use crate::change::add::AddSpec;
use crate::change::replace::ReplaceSpec;
use crate::running::status::Status;
use crate::util::events::Event;

/// Time limit of each side for its part of the conversation, and maximum age of a request when it
/// starts.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of a message in bytes.
const LONGEST: u64 = 64 << 10;
const READY: &str = "ready";
const GO: &str = "go";

/// A request and its deadline.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    /// Deadline on the monotonic clock, in ns.
    deadline_ns: u64,
    question: ControlRequest,
}

/// Kinds of requests.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ControlRequest {
    /// Report the status; the answer is a [`Report`].
    Status,
    /// Carry out an operator's request; the answer is its outcome or an error.
    #[serde(rename = "wish")]
    Admin(AdminRequest),
    /// Replace a device. Takes as long as the replacement needs.
    Replace(ReplaceSpec),
    /// Add devices.
    Add(AddSpec),
}

/// State of a served volume.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Current status.
    pub status: Status,
    /// Retained events, oldest first.
    pub events: Vec<Event>,
}

/// Line-based conversation of a client and the server, with one deadline.
struct Conversation<'a> {
    lines: BufReader<Timed<'a, &'a UnixStream>>,
}

impl<'a> Conversation<'a> {
    /// Wraps `stream`, which must be in non-blocking mode.
    fn new(stream: &'a UnixStream, deadline: &'a Deadline) -> Self {
        Conversation { lines: BufReader::new(Timed::new(stream, deadline)) }
    }

    /// Returns the next line without its line feed.
    fn line(&mut self) -> io::Result<String> {
        let mut text = String::new();
        (&mut self.lines).take(LONGEST).read_line(&mut text)?;
        match text.strip_suffix('\n') {
            Some(line) => Ok(line.into()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.lines.get_mut().write_all(bytes)
    }
}

/// Returns the monotonic clock in ns. All processes of a machine read the same value.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

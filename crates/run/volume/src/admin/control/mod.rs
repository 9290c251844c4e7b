//! The control socket of a served volume: it reports the status and carries out requests.
//!
//! It is named after the volume's UUID, in the folder of [`crate::util::runtime_dir`], because the
//! path of the volume file may be longer than a socket's name can be.
//!
//! # Protocol
//! The client sends one line, a [`Message`] as JSON. A question about the status is answered by one
//! JSON object. A request that changes something takes two more steps:
//!
//! | from | text | meaning |
//! |---|---|---|
//! | server | `ready` | it works, and has begun nothing |
//! | client | `go` | it still waits |
//! | server | empty lines, one a second | it carries the request out |
//! | server | one JSON object | the result |
//!
//! Invariants
//! - The socket belongs to the process that has the volume's lock. One that somebody answers on is
//!   never replaced, and only one's own is removed.
//! - Closing takes a bounded time, whatever becomes of the socket's name and of its readers.
//! - A request begins only after `go`, and only before its deadline. A client that gives up before
//!   it sent `go` knows that nothing was or will be changed; after that it reports that the outcome
//!   is unknown.
//! - Each client has a thread, so that a slow one holds up no other.

pub(crate) mod client;
pub(crate) mod server;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hostftl_io::{Deadline, Timed};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::admin::operator::Wish;
use crate::change::add::AddSpec;
use crate::change::replace::ReplaceSpec;
use crate::running::status::Status;
use crate::util::events::Event;

/// How long either side may take for its part of the conversation, and how old a request may be
/// when it begins.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest message in bytes.
const LONGEST: u64 = 64 << 10;
const READY: &str = "ready";
const GO: &str = "go";

/// A question, and until when it is of use.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    /// On the system's monotonic clock, in ns.
    deadline_ns: u64,
    question: Question,
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Question {
    /// How things stand: answered by a [`Report`].
    Status,
    /// Somebody wants something: answered by what came of it, or by why nothing did.
    Wish(Wish),
    /// Another device is to come in the place of one: answered the same, after as long as it takes.
    Replace(ReplaceSpec),
    /// More devices are to come: the same.
    Add(AddSpec),
}

/// The state of a served volume.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The figures now.
    pub status: Status,
    /// The events that are kept, oldest first.
    pub events: Vec<Event>,
}

/// Lines between a client and the server, until one deadline.
struct Talk<'a> {
    lines: BufReader<Timed<'a, &'a UnixStream>>,
}

impl<'a> Talk<'a> {
    /// `stream` does not block.
    fn new(stream: &'a UnixStream, deadline: &'a Deadline) -> Self {
        Talk { lines: BufReader::new(Timed::new(stream, deadline)) }
    }

    /// The next line without its end.
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

/// The system's monotonic clock, which all processes of the machine read alike.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

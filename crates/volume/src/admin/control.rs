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

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hostftl_io::{Deadline, Timed, connect_unix, describe};
use rustix::net::sockopt::socket_peercred;
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::admin::operate::{Operator, Outcome, Wish};
use crate::admin::serve::Live;
use crate::change::add::{AddSpec, Added};
use crate::change::replace::{ReplaceSpec, Replaced};
use crate::running::status::{Status, served_elsewhere};
use crate::util::error::{Error, file};
use crate::util::events::Event;
use crate::util::guests::Guests;
use crate::util::runtime_dir;

/// How long either side may take for its part of the conversation, and how old a request may be
/// when it begins.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the server reports that it works on a request.
const PULSE: Duration = Duration::from_secs(1);
/// How long a client waits for such a report.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a thread that answers a slow reader is waited for at the end.
const GRACE: Duration = Duration::from_secs(1);
/// The longest message in bytes.
const LONGEST: u64 = 64 << 10;
/// The most clients that have not sent their message yet.
const MAX_GUESTS: usize = 64;
const READY: &str = "ready";
const GO: &str = "go";
/// How long to wait when no reader can be let in, for want of descriptors as a rule.
const PAUSE: Duration = Duration::from_millis(100);

/// The socket of a volume that is served.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    /// Device and inode of the socket, to know it again.
    identity: Option<(u64, u64)>,
    over: Arc<AtomicBool>,
    /// The listening socket once more, to shut it down.
    listening: UnixStream,
    guests: Arc<Guests>,
    /// Disconnected when all threads that only talk have ended; none when they were waited for.
    threads: Mutex<Option<Receiver<()>>>,
}

impl Control {
    /// Answers with the status of `live` until it is closed. The caller has the volume's lock, so a
    /// socket that is there and answers nothing is left over from a process that was killed.
    pub fn listen(volume: Uuid, live: Live, operator: Arc<Operator>) -> Result<Self, Error> {
        runtime_dir::prepare()?;
        let path = runtime_dir::of(volume, "sock");
        match connect_unix(&path, &Deadline::after(PATIENCE)) {
            Err(error) if error.kind() != io::ErrorKind::TimedOut => {}
            // A queue that is full belongs to a process too.
            _ => {
                let error = io::Error::other("another process listens on it; stop that first");
                return Err(file(&path, "listen on it")(error));
            }
        }
        fs::remove_file(&path).ok();
        let listener = UnixListener::bind(&path).map_err(file(&path, "listen on it"))?;
        let identity = identity(&path);
        let private = Permissions::from_mode(0o600);
        fs::set_permissions(&path, private).map_err(file(&path, "set its mode"))?;
        let again = listener.try_clone().map_err(file(&path, "share it"))?;
        let listening = UnixStream::from(OwnedFd::from(again));
        let over = Arc::new(AtomicBool::new(false));
        let guests = Arc::new(Guests::new(MAX_GUESTS));
        let (ends, enters, (alive, threads)) = (over.clone(), guests.clone(), channel());
        let served = Arc::new(Served { live, operator, turn: Mutex::default() });
        let accept = move || accept(&listener, &served, (&enters, &ends), &alive);
        let builder = thread::Builder::new().name("control".into());
        builder.spawn(accept).map_err(file(&path, "start the control thread"))?;
        Ok(Control { path, identity, over, listening, guests, threads: Mutex::new(Some(threads)) })
    }

    /// Ends the answering and removes the socket.
    pub fn close(&mut self) {
        let threads = self.threads.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(threads) = threads.take() else { return };
        self.over.store(true, SeqCst);
        // A shutdown ends the wait for readers also when the name is gone or another's.
        self.listening.shutdown(Shutdown::Both).ok();
        self.guests.turn_out();
        // Nothing is sent; the wait ends when the threads are gone, or too slow.
        threads.recv_timeout(GRACE).ok();
        if self.identity.is_some() && identity(&self.path) == self.identity {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The volume behind the socket.
#[derive(Debug)]
struct Served {
    live: Live,
    operator: Arc<Operator>,
    /// Held while a short request is carried out.
    turn: Mutex<()>,
}

/// Accepts clients until it is over; each thread has a copy of `alive` while it talks.
fn accept(
    listener: &UnixListener,
    served: &Arc<Served>,
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
        let (served, guests, alive) = (served.clone(), guests.clone(), alive.clone());
        // A client that went away misses nothing.
        let serve = move || drop(reply(stream, &served, &guests, alive));
        // Without a thread the stream is closed, and the client sees that it gets no answer.
        drop(thread::Builder::new().name("control".into()).spawn(serve));
    }
}

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
pub struct Report {
    /// The figures now.
    pub status: Status,
    /// The events that are kept, oldest first.
    pub events: Vec<Event>,
}

/// Answers one client.
fn reply(
    stream: UnixStream,
    served: &Arc<Served>,
    guests: &Guests,
    alive: Sender<()>,
) -> io::Result<()> {
    let guest = guests.enter(OwnedFd::from(stream.try_clone()?));
    stream.set_nonblocking(true)?;
    let deadline = Deadline::after(PATIENCE);
    let mut talk = Talk::new(&stream, &deadline);
    let Message { deadline_ns, question } = serde_json::from_str(&talk.line()?)?;
    if matches!(question, Question::Status) {
        drop(guest);
        let report = Report { status: served.live.status(), events: served.live.events() };
        return talk.send(&serde_json::to_vec(&report)?);
    }
    talk.send(format!("{READY}\n").as_bytes())?;
    if talk.line()? != GO {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // A request that takes long is not waited for at a stop.
    drop((guest, alive));
    let served = served.clone();
    while_working(&stream, move || served.carry_out(question, deadline_ns))
}

impl Served {
    /// Carries out a request whose deadline is not over. Its result as JSON.
    fn carry_out(&self, question: Question, deadline_ns: u64) -> serde_json::Result<Vec<u8>> {
        let turn = match &question {
            // The others refuse each other themselves, and take long.
            Question::Wish(Wish::Online(_)) | Question::Replace(_) | Question::Add(_) => None,
            _ => Some(self.turn.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        if now_ns() > deadline_ns {
            let late = "the request came too late, and nothing was changed: run the command again";
            return serde_json::to_vec(&Err::<(), _>(late));
        }
        let answer = match question {
            Question::Status => unreachable!("it changes nothing"),
            Question::Wish(wish) => serde_json::to_vec(&self.operator.act(&wish)),
            Question::Replace(spec) => serde_json::to_vec(&self.operator.replace(&spec)),
            Question::Add(spec) => serde_json::to_vec(&self.operator.add(&spec)),
        };
        drop(turn);
        answer
    }
}

/// Carries out a request on a thread of its own and sends the result; reports until then that it is
/// at work. The request is carried out also when the client goes away meanwhile.
fn while_working(
    stream: &UnixStream,
    act: impl FnOnce() -> serde_json::Result<Vec<u8>> + Send + 'static,
) -> io::Result<()> {
    let (done, result) = channel();
    let run = move || done.send(act()).ok();
    thread::Builder::new().name("operator".into()).spawn(run)?;
    loop {
        let (deadline, result) = (Deadline::after(PATIENCE), result.recv_timeout(PULSE));
        let mut talk = Talk::new(stream, &deadline);
        match result {
            Ok(answer) => return talk.send(&answer?),
            Err(RecvTimeoutError::Timeout) => talk.send(b"\n")?,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("it panicked")),
        }
    }
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

/// The status and events of a volume with this UUID from the process that serves it, perhaps from
/// another volume file; `None` when no process does.
///
/// # Errors
/// In words, when a process has the control socket and does not answer.
pub fn ask(volume: Uuid) -> Result<Option<Report>, String> {
    let Some(server) = Server::connect(volume)? else { return Ok(None) };
    server.ask().map(Some).map_err(|error| server.silent(&error))
}

/// Whether a wish for the volume whose file is `path` would reach a process that serves a copy of
/// it, or another part.
///
/// # Errors
/// When it would.
pub fn refuse_elsewhere(path: &Path, volume: Uuid) -> Result<(), Error> {
    let told = ask(volume).map_err(|why| Error::Refused { path: path.into(), why })?;
    let Some(there) = told.and_then(|told| served_elsewhere(path, &told.status)) else {
        return Ok(());
    };
    let why = format!("{there} is served, which has the same UUID: name that, or stop it first");
    Err(Error::Refused { path: path.into(), why })
}

/// The outcome of a request to the process that serves a volume with this UUID, or why there is
/// none; `None` when no process serves it.
pub fn wish(volume: Uuid, wish: &Wish) -> Option<Result<Outcome, String>> {
    put(volume, Question::Wish(wish.clone()))
}

/// The same of a device that is to take the place of another.
pub fn replace(volume: Uuid, spec: &ReplaceSpec) -> Option<Result<Replaced, String>> {
    put(volume, Question::Replace(spec.clone()))
}

/// The same of devices that are to be added.
pub fn add(volume: Uuid, spec: &AddSpec) -> Option<Result<Added, String>> {
    put(volume, Question::Add(spec.clone()))
}

/// The same of a device that comes back.
pub fn online(volume: Uuid, device: &str) -> Option<Result<Outcome, String>> {
    put(volume, Question::Wish(Wish::Online(device.into())))
}

fn put<A: DeserializeOwned>(volume: Uuid, question: Question) -> Option<Result<A, String>> {
    match Server::connect(volume) {
        Ok(server) => server.map(|server| server.put(question)),
        Err(why) => Some(Err(why)),
    }
}

/// The process that serves a volume, seen from a client.
struct Server {
    stream: UnixStream,
    deadline: Deadline,
    deadline_ns: u64,
}

impl Server {
    /// Connects; `None` when no process listens.
    fn connect(volume: Uuid) -> Result<Option<Self>, String> {
        let deadline_ns = now_ns() + PATIENCE.as_nanos() as u64;
        let deadline = Deadline::after(PATIENCE);
        match connect_unix(&runtime_dir::of(volume, "sock"), &deadline) {
            Ok(stream) => Ok(Some(Server { stream, deadline, deadline_ns })),
            // Its queue is full.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(format!(
                "the process that serves it does not answer ({error}); nothing was changed"
            )),
            Err(_) => Ok(None),
        }
    }

    fn ask(&self) -> io::Result<Report> {
        self.begin(&Question::Status)?;
        let mut text = Vec::new();
        Timed::new(&self.stream, &self.deadline).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn begin(&self, question: &Question) -> io::Result<()> {
        #[derive(Serialize)]
        struct Message<'a> {
            deadline_ns: u64,
            question: &'a Question,
        }
        let mut text = serde_json::to_vec(&Message { deadline_ns: self.deadline_ns, question })?;
        text.push(b'\n');
        Timed::new(&self.stream, &self.deadline).write_all(&text)
    }

    fn put<A: DeserializeOwned>(&self, question: Question) -> Result<A, String> {
        let mut talk = Talk::new(&self.stream, &self.deadline);
        let ready = self.begin(&question).and_then(|()| talk.line());
        match ready.map_err(|error| self.silent(&error))?.as_str() {
            READY => {}
            other => return Err(format!("{} answered {other:?}", self.name())),
        }
        // From here on the request may have been carried out.
        let sent = talk.send(format!("{GO}\n").as_bytes());
        let text = sent.and_then(|()| self.hear_out());
        let unknown = |why: String| {
            let name = self.name();
            format!(
                "{name} took the request and did not finish it ({why}): whether it was or will be \
                 carried out is unknown; see `hostftl status` and `hostftl events`"
            )
        };
        let text = text.map_err(|error| unknown(error.to_string()))?;
        serde_json::from_slice(&text).unwrap_or_else(|error| Err(unknown(error.to_string())))
    }

    /// Reads the result, for as long as the server reports that it works on it.
    fn hear_out(&self) -> io::Result<Vec<u8>> {
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        loop {
            match Timed::new(&self.stream, &Deadline::after(SILENCE)).read(&mut some)? {
                0 => return Ok(all),
                got => all.extend_from_slice(&some[..got]),
            }
        }
    }

    fn silent(&self, error: &io::Error) -> String {
        format!("{} serves it and does not answer ({error}); nothing was changed", self.name())
    }

    /// The server as its process.
    fn name(&self) -> String {
        let peer = socket_peercred(&self.stream).ok();
        let pid = peer.and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
        pid.and_then(describe).unwrap_or_else(|| "another process".into())
    }
}

//! The socket on which a served volume tells its status and takes wishes: connect, send a question
//! as one JSON object, shut the sending half down, and read one JSON object.
//!
//! It is named after the volume's UUID, in the folder of [`crate::place`], because the path of the
//! volume file may be longer than a socket's name can be.
//!
//! Invariants
//! - The socket belongs to the process that has the volume's lock. One that somebody answers on is
//!   never replaced, and only one's own is removed.
//! - Closing takes a bounded time, whatever becomes of the socket's name and of its readers.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::add::{AddSpec, Added};
use crate::error::{Error, file};
use crate::events::Event;
use crate::operate::{Operator, Outcome, Wish};
use crate::place;
use crate::replace::{ReplaceSpec, Replaced};
use crate::running::Live;
use crate::status::{Status, served_elsewhere};

/// How long a reader or a server may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a thread that still tells a slow reader is waited for at the end.
const GRACE: Duration = Duration::from_secs(1);
/// The longest question, in bytes.
const LONGEST: u64 = 64 << 10;
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
    /// Says when the thread has ended; none when it was waited for.
    thread: Mutex<Option<Receiver<()>>>,
}

impl Control {
    /// Answers with the status of `live` until it is closed. The caller has the volume's lock, so a
    /// socket that is there and answers nothing is left over from a process that was killed.
    pub fn listen(volume: Uuid, live: Live, operator: Arc<Operator>) -> Result<Self, Error> {
        place::prepare()?;
        let path = place::of(volume, "sock");
        if UnixStream::connect(&path).is_ok() {
            let error = io::Error::other("another process answers on it; stop that first");
            return Err(file(&path, "listen on it")(error));
        }
        fs::remove_file(&path).ok();
        let listener = UnixListener::bind(&path).map_err(file(&path, "listen on it"))?;
        let identity = identity(&path);
        let private = Permissions::from_mode(0o600);
        fs::set_permissions(&path, private).map_err(file(&path, "set its mode"))?;
        let again = listener.try_clone().map_err(file(&path, "share it"))?;
        let listening = UnixStream::from(OwnedFd::from(again));
        let over = Arc::new(AtomicBool::new(false));
        let (ends, (says, thread)) = (over.clone(), channel());
        let answer = move || answer(&listener, &(live, operator), &ends, says);
        let builder = thread::Builder::new().name("control".into());
        builder.spawn(answer).map_err(file(&path, "start the control thread"))?;
        Ok(Control { path, identity, over, listening, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the answering and removes the socket.
    pub fn close(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(thread) = thread.take() else { return };
        self.over.store(true, SeqCst);
        // A shutdown ends the wait for readers also when the name is gone or another's.
        self.listening.shutdown(Shutdown::Both).ok();
        // The thread says nothing; the wait ends when it is gone, or too slow.
        thread.recv_timeout(GRACE).ok();
        if self.identity.is_some() && identity(&self.path) == self.identity {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Answers every question until it is over; `_alive` is dropped then.
fn answer(
    listener: &UnixListener,
    told: &(Live, Arc<Operator>),
    over: &AtomicBool,
    _alive: Sender<()>,
) {
    for stream in listener.incoming() {
        if over.load(SeqCst) {
            return;
        }
        match stream {
            // Who went away misses nothing.
            Ok(stream) => drop(reply(stream, told)),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Question {
    /// How things stand: answered by a [`Told`].
    Status,
    /// Somebody wants something: answered by what came of it, or by why nothing did.
    Wish(Wish),
    /// Another device is to come in the place of one: answered the same, after as long as it takes.
    Replace(ReplaceSpec),
    /// More devices are to come: the same.
    Add(AddSpec),
}

/// What a reader is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Told {
    /// The figures now.
    pub status: Status,
    /// The events that are kept, oldest first.
    pub events: Vec<Event>,
}

/// Answers one question.
fn reply(mut stream: UnixStream, (live, operator): &(Live, Arc<Operator>)) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = Vec::new();
    (&stream).take(LONGEST).read_to_end(&mut text)?;
    let answer = match serde_json::from_slice(&text)? {
        Question::Status => {
            serde_json::to_vec(&Told { status: live.status(), events: live.events() })?
        }
        Question::Wish(wish @ Wish::Online(_)) => {
            return aside(stream, operator.clone(), move |it| it.act(&wish));
        }
        Question::Wish(wish) => serde_json::to_vec(&operator.act(&wish))?,
        Question::Replace(spec) => {
            return aside(stream, operator.clone(), move |it| it.replace(&spec));
        }
        Question::Add(spec) => {
            return aside(stream, operator.clone(), move |it| it.add(&spec));
        }
    };
    stream.write_all(&answer)
}

/// Answers when something is done that takes long: others are answered meanwhile.
fn aside<A: Serialize>(
    mut stream: UnixStream,
    operator: Arc<Operator>,
    act: impl FnOnce(&Operator) -> A + Send + 'static,
) -> io::Result<()> {
    let run = move || -> io::Result<()> {
        let answer = serde_json::to_vec(&act(&operator))?;
        stream.write_all(&answer)
    };
    thread::Builder::new().name("operator".into()).spawn(run).map(drop)
}

/// What the process that serves a volume of this UUID tells, perhaps from another volume file;
/// `None` when there is none.
pub fn ask(volume: Uuid) -> Option<Told> {
    put(connect(volume)?, &Question::Status, Some(PATIENCE))
}

/// Whether a wish for the volume whose file is `path` would reach a process that serves a copy of
/// it, or another part.
///
/// # Errors
/// When it would.
pub fn refuse_elsewhere(path: &Path, volume: Uuid) -> Result<(), Error> {
    let Some(there) = ask(volume).and_then(|told| served_elsewhere(path, &told.status)) else {
        return Ok(());
    };
    let why = format!("{there} is served, which has the same UUID: name that, or stop it first");
    Err(Error::Refused { path: path.into(), why })
}

/// What the process that serves a volume of this UUID made of a wish, or why it made nothing of it;
/// `None` when there is none.
pub fn wish(volume: Uuid, wish: &Wish) -> Option<Result<Outcome, String>> {
    put(connect(volume)?, &Question::Wish(wish.clone()), Some(PATIENCE))
}

/// The same of a device that is to come in the place of another, which may take long.
pub fn replace(volume: Uuid, spec: &ReplaceSpec) -> Option<Result<Replaced, String>> {
    put_long(volume, &Question::Replace(spec.clone()))
}

/// The same of devices that are to come.
pub fn add(volume: Uuid, spec: &AddSpec) -> Option<Result<Added, String>> {
    put_long(volume, &Question::Add(spec.clone()))
}

/// The same of a device that comes back.
pub fn online(volume: Uuid, device: &str) -> Option<Result<Outcome, String>> {
    put_long(volume, &Question::Wish(Wish::Online(device.into())))
}

fn put_long<A: DeserializeOwned>(volume: Uuid, question: &Question) -> Option<Result<A, String>> {
    let stream = connect(volume)?;
    let ended = "the process that serves the volume ended before it answered: type the same again";
    Some(put(stream, question, None).unwrap_or_else(|| Err(ended.into())))
}

fn connect(volume: Uuid) -> Option<UnixStream> {
    UnixStream::connect(place::of(volume, "sock")).ok()
}

fn put<A: DeserializeOwned>(
    mut stream: UnixStream,
    question: &Question,
    patience: Option<Duration>,
) -> Option<A> {
    stream.set_read_timeout(patience).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(&serde_json::to_vec(question).ok()?).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

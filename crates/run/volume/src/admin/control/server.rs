//! The end of the control socket at the process that serves a volume.

use std::fs::{self, Permissions};
use std::io;
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

use hostftl_io::{Deadline, connect_unix};
use uuid::Uuid;

use super::{GO, Message, PATIENCE, Question, READY, Report, Talk, now_ns};
use crate::admin::operator::{Operator, Wish};
use crate::running::live::Live;
use crate::util::error::{AdminError, Error, file};
use crate::util::guests::Guests;
use crate::util::runtime_dir;

/// How long a thread that answers a slow reader is waited for at the end.
const GRACE: Duration = Duration::from_secs(1);
/// The most clients that have not sent their message yet.
const MAX_GUESTS: usize = 64;
/// How long to wait when no reader can be let in, for want of descriptors as a rule.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the server reports that it works on a request.
const PULSE: Duration = Duration::from_secs(1);

/// The socket of a volume that is served.
#[derive(Debug)]
pub(crate) struct Control {
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
    pub(crate) fn listen(volume: Uuid, live: Live, operator: Arc<Operator>) -> Result<Self, Error> {
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
    pub(crate) fn close(&mut self) {
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
            return serde_json::to_vec(&Err::<(), _>(AdminError::refused(late)));
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

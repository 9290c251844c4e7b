//! Server side of the control socket.

use std::fs::{self, Permissions};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use hostftl_io::{Deadline, connect_unix};
use uuid::Uuid;

use super::{ControlRequest, Conversation, GO, Message, PATIENCE, READY, Report, now_ns};
use crate::admin::request::{Admin, AdminRequest};
use crate::running::status_sources::StatusSources;
use crate::util::error::{AdminError, Error, file};
use crate::util::guests::Guests;
use crate::util::lock;
use crate::util::runtime_dir;

/// Longest wait at the end for a thread that answers a slow reader.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum number of clients that have not sent their message yet.
const MAX_GUESTS: usize = 64;
/// Pause after a failed accept, which is usually caused by a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of progress reports.
const PULSE: Duration = Duration::from_secs(1);

/// Control socket of a served volume.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    /// Device and inode of the socket, so that only this process's own socket is removed.
    identity: Option<(u64, u64)>,
    over: Arc<AtomicBool>,
    /// Duplicate of the listening socket, for its shutdown.
    listening: UnixStream,
    guests: Arc<Guests>,
    /// Disconnected once all conversation threads have ended; `None` after the wait for them.
    threads: Mutex<Option<Receiver<()>>>,
}

impl Control {
    /// Listens, and answers with the status of `sources` until the socket is closed. The caller has
    /// the volume's lock, so an existing socket on which no process listens is a leftover of a
    /// killed process.
    pub(crate) fn listen(
        volume: Uuid,
        sources: StatusSources,
        admin: Arc<Admin>,
    ) -> Result<Self, Error> {
        runtime_dir::prepare()?;
        let path = runtime_dir::path(volume, "sock");
        match connect_unix(&path, &Deadline::after(PATIENCE)) {
            Err(error) if error.kind() != io::ErrorKind::TimedOut => {}
            // A full queue belongs to a running process too.
            _ => {
                let error = io::Error::other("another process listens on it; stop that process");
                return Err(file(&path, "listen on it")(error));
            }
        }
        // Only after the failed connection: a socket without a listener is a leftover.
        fs::remove_file(&path).ok();
        let listener = UnixListener::bind(&path).map_err(file(&path, "listen on it"))?;
        let identity = identity(&path);
        // Other users must not send commands, whatever the umask is.
        let private = Permissions::from_mode(0o600);
        fs::set_permissions(&path, private).map_err(file(&path, "set its mode"))?;
        let again = listener.try_clone().map_err(file(&path, "share it"))?;
        let listening = UnixStream::from(OwnedFd::from(again));
        let over = Arc::new(AtomicBool::new(false));
        let guests = Arc::new(Guests::new(MAX_GUESTS));
        let (ends, enters, (alive, threads)) = (over.clone(), guests.clone(), channel());
        let served = Arc::new(Served { sources, admin, turn: Mutex::default() });
        let accept = move || accept(&listener, &served, (&enters, &ends), &alive);
        let builder = thread::Builder::new().name("control".into());
        builder.spawn(accept).map_err(file(&path, "start the control thread"))?;
        Ok(Control { path, identity, over, listening, guests, threads: Mutex::new(Some(threads)) })
    }

    /// Stops answering and removes the socket.
    pub(crate) fn close(&mut self) {
        let threads = self.threads.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(threads) = threads.take() else { return };
        self.over.store(true, SeqCst);
        // A shutdown ends the accept loop even if the socket file was removed or replaced.
        self.listening.shutdown(Shutdown::Both).ok();
        self.guests.turn_out();
        // No thread sends on this channel: the wait ends when the last sender is dropped, or after
        // `GRACE`.
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
    sources: StatusSources,
    admin: Arc<Admin>,
    /// Serializes short requests.
    turn: Mutex<()>,
}

/// Accepts clients until `over` is set. Each thread holds a clone of `alive` during its
/// conversation.
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
        // Errors of a conversation are dropped: the client has disconnected.
        let serve = move || drop(reply(stream, &served, &guests, alive));
        // If no thread can be started, the stream is closed and the client reports a missing
        // answer.
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
    // Required by the deadlines of a conversation.
    stream.set_nonblocking(true)?;
    let deadline = Deadline::after(PATIENCE);
    let mut talk = Conversation::new(&stream, &deadline);
    let Message { deadline_ns, question } = serde_json::from_str(&talk.line()?)?;
    if matches!(question, ControlRequest::Status) {
        // The client has sent its message, so newer clients must not displace it any more.
        drop(guest);
        let report = Report { status: served.sources.status(), events: served.sources.events() };
        return talk.send(&serde_json::to_vec(&report)?);
    }
    talk.send(format!("{READY}\n").as_bytes())?;
    if talk.line()? != GO {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // Closing the socket does not wait for a long request.
    drop((guest, alive));
    let served = served.clone();
    while_working(&stream, move || served.carry_out(question, deadline_ns))
}

impl Served {
    /// Carries out a request unless its deadline has passed. Returns the result as JSON.
    fn carry_out(&self, question: ControlRequest, deadline_ns: u64) -> serde_json::Result<Vec<u8>> {
        let turn = match &question {
            // Long requests exclude each other on their own and would block the short ones.
            ControlRequest::Admin(AdminRequest::Online(_))
            | ControlRequest::Replace(_)
            | ControlRequest::Add(_) => None,
            _ => Some(lock(&self.turn)),
        };
        // Checked after the wait for its turn: the client may have given up meanwhile.
        if now_ns() > deadline_ns {
            let late = "the request arrived too late; nothing was changed, run the command again";
            return serde_json::to_vec(&Err::<(), _>(AdminError::refused(late)));
        }
        let answer = match question {
            ControlRequest::Status => unreachable!("it changes nothing"),
            ControlRequest::Admin(request) => serde_json::to_vec(&self.admin.act(&request)),
            ControlRequest::Replace(spec) => serde_json::to_vec(&self.admin.replace(&spec)),
            ControlRequest::Add(spec) => serde_json::to_vec(&self.admin.add(&spec)),
        };
        drop(turn);
        answer
    }
}

/// Carries out a request on a separate thread and sends the result. Reports progress meanwhile. The
/// request completes even if the client disconnects.
fn while_working(
    stream: &UnixStream,
    act: impl FnOnce() -> serde_json::Result<Vec<u8>> + Send + 'static,
) -> io::Result<()> {
    let (done, result) = channel();
    let run = move || done.send(act()).ok();
    // A separate thread, so that a client that disconnects does not interrupt the change.
    thread::Builder::new().name("operator".into()).spawn(run)?;
    loop {
        let (deadline, result) = (Deadline::after(PATIENCE), result.recv_timeout(PULSE));
        let mut talk = Conversation::new(stream, &deadline);
        match result {
            Ok(answer) => return talk.send(&answer?),
            Err(RecvTimeoutError::Timeout) => talk.send(b"\n")?,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("it panicked")),
        }
    }
}

//! Client side of the control socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hostftl_io::{Deadline, Timed, connect_unix, describe};
use rustix::net::sockopt::socket_peercred;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{ControlRequest, Conversation, GO, PATIENCE, READY, Report, now_ns};
use crate::admin::request::{AdminRequest, Outcome};
use crate::change::add::{AddSpec, Added};
use crate::change::replace::{ReplaceSpec, Replaced};
use crate::running::status::{Status, VolumeFile};
use crate::util::error::{AdminError, AdminErrorKind, Error};
use crate::util::runtime_dir;

/// Longest wait for the next progress report of the server.
const SILENCE: Duration = Duration::from_secs(10);

/// Returns the status and events of a volume from the process that serves it, possibly under
/// another volume file; `None` when no process serves the volume.
pub(crate) fn ask(volume: Uuid) -> Result<Option<Report>, AdminError> {
    let Some(server) = Server::connect(volume)? else { return Ok(None) };
    server.ask().map(Some).map_err(|error| server.no_answer(&error))
}

/// Refuses a request for the volume file `path` when the process that serves the volume uses
/// another volume file: a copy of it, or another half of a mirror.
pub(crate) fn refuse_elsewhere(path: &Path, volume: Uuid) -> Result<(), Error> {
    let answer = ask(volume).map_err(|error| error.at(path))?;
    let Some(there) = answer.and_then(|answer| served_elsewhere(path, &answer.status)) else {
        return Ok(());
    };
    let why = format!("{there} with the same UUID is served; use that file, or stop its server");
    Err(Error::Refused { path: path.into(), why })
}

/// Sends a request to the process that serves a volume and returns its outcome; `None` when no
/// process serves it.
pub(crate) fn send(volume: Uuid, request: &AdminRequest) -> Option<Result<Outcome, AdminError>> {
    put(volume, ControlRequest::Admin(request.clone()))
}

/// Asks the serving process to replace a device; `None` when no process serves the volume.
pub(crate) fn replace(volume: Uuid, spec: &ReplaceSpec) -> Option<Result<Replaced, AdminError>> {
    put(volume, ControlRequest::Replace(spec.clone()))
}

/// Asks the serving process to add devices; `None` when no process serves the volume.
pub(crate) fn add(volume: Uuid, spec: &AddSpec) -> Option<Result<Added, AdminError>> {
    put(volume, ControlRequest::Add(spec.clone()))
}

/// Asks the serving process to take a device back; `None` when no process serves the volume.
pub(crate) fn online(volume: Uuid, device: &str) -> Option<Result<Outcome, AdminError>> {
    put(volume, ControlRequest::Admin(AdminRequest::Online(device.into())))
}

fn put<A: DeserializeOwned>(
    volume: Uuid,
    question: ControlRequest,
) -> Option<Result<A, AdminError>> {
    match Server::connect(volume) {
        Ok(server) => server.map(|server| server.put(question)),
        Err(why) => Some(Err(why)),
    }
}

/// Connection of a client to the process that serves a volume.
struct Server {
    stream: UnixStream,
    deadline: Deadline,
    deadline_ns: u64,
}

impl Server {
    /// Connects; `None` when no process listens.
    fn connect(volume: Uuid) -> Result<Option<Self>, AdminError> {
        let deadline_ns = now_ns() + PATIENCE.as_nanos() as u64;
        let deadline = Deadline::after(PATIENCE);
        match connect_unix(&runtime_dir::path(volume, "sock"), &deadline) {
            Ok(stream) => Ok(Some(Server { stream, deadline, deadline_ns })),
            // A full queue means that a process listens but does not accept.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(AdminError::refused(format!(
                    "the process that serves the volume does not answer ({error}); nothing was \
                     changed"
                )))
            }
            // There is no socket, or one that a killed process left.
            Err(_) => Ok(None),
        }
    }

    fn ask(&self) -> io::Result<Report> {
        self.begin(&ControlRequest::Status)?;
        let mut text = Vec::new();
        Timed::new(&self.stream, &self.deadline).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn begin(&self, question: &ControlRequest) -> io::Result<()> {
        #[derive(Serialize)]
        struct Message<'a> {
            deadline_ns: u64,
            question: &'a ControlRequest,
        }
        let mut text = serde_json::to_vec(&Message { deadline_ns: self.deadline_ns, question })?;
        // The line feed ends the message: the server reads no further.
        text.push(b'\n');
        Timed::new(&self.stream, &self.deadline).write_all(&text)
    }

    fn put<A: DeserializeOwned>(&self, question: ControlRequest) -> Result<A, AdminError> {
        let mut talk = Conversation::new(&self.stream, &self.deadline);
        let ready = self.begin(&question).and_then(|()| talk.line());
        match ready.map_err(|error| self.no_answer(&error))?.as_str() {
            READY => {}
            other => {
                return Err(AdminError::refused(format!("{} answered {other:?}", self.name())));
            }
        }
        // From here on the request may have been carried out, so errors report an unknown outcome.
        let sent = talk.send(format!("{GO}\n").as_bytes());
        let text = sent.and_then(|()| self.hear_out());
        let unknown = |why: String| {
            let name = self.name();
            let text = format!(
                "{name} accepted the request and did not finish it ({why}); the outcome is \
                 unknown, see `hostftl status` and `hostftl events`"
            );
            AdminError::new(AdminErrorKind::Unknown, text)
        };
        let text = text.map_err(|error| unknown(error.to_string()))?;
        serde_json::from_slice(&text).unwrap_or_else(|error| Err(unknown(error.to_string())))
    }

    /// Reads the result. Each progress report of the server extends the deadline.
    fn hear_out(&self) -> io::Result<Vec<u8>> {
        // Progress reports are empty lines, which JSON ignores.
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        loop {
            match Timed::new(&self.stream, &Deadline::after(SILENCE)).read(&mut some)? {
                0 => return Ok(all),
                got => all.extend_from_slice(&some[..got]),
            }
        }
    }

    fn no_answer(&self, error: &io::Error) -> AdminError {
        let name = self.name();
        AdminError::refused(match error.kind() {
            io::ErrorKind::InvalidData => format!(
                "{name} serves the volume with another version of HostFTL ({error}); use that \
                 version, or restart the server"
            ),
            _ => format!(
                "{name} serves the volume and does not answer ({error}); nothing was changed"
            ),
        })
    }

    /// Describes the process of the server.
    fn name(&self) -> String {
        // From the kernel, so a hanging server can be named too.
        let peer = socket_peercred(&self.stream).ok();
        let pid = peer.and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
        pid.and_then(describe).unwrap_or_else(|| "another process".into())
    }
}

/// Returns the path of the served volume file if it is another file than `path`.
fn served_elsewhere(path: &Path, answer: &Status) -> Option<String> {
    let there = answer.file.as_ref()?;
    let is_same = VolumeFile::new(path).is_none_or(|here| here.is(there));
    (!is_same).then(|| there.path.clone())
}

//! The socket on which a served volume tells its status: connect, and read one JSON object.
//!
//! It is named after the volume's UUID, in a folder that only its owner can enter, because the path
//! of the volume file may be longer than a socket's name can be.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, file};
use crate::running::Live;
use crate::status::Status;

/// How long a reader or a server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket of a volume that is served.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Answers with the status of `live` until it is closed. The caller has the volume, so a socket
    /// that is there already is left over from a process that was killed.
    pub fn listen(volume: Uuid, live: Live) -> Result<Self, Error> {
        let path = socket_of(volume);
        let folder = path.parent().expect("a socket lies in a folder");
        if let Err(error) = DirBuilder::new().mode(0o700).recursive(true).create(folder) {
            return Err(file(folder, "make the folder for control sockets")(error));
        }
        if fs::metadata(folder).is_ok_and(|meta| meta.uid() != user()) {
            let error = io::Error::other("it belongs to another user");
            return Err(file(folder, "use the folder for control sockets")(error));
        }
        fs::remove_file(&path).ok();
        let listener = UnixListener::bind(&path).map_err(file(&path, "listen on it"))?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let answer = move || {
            for stream in listener.incoming() {
                if ends.load(SeqCst) {
                    return;
                }
                if let Ok(stream) = stream {
                    tell(stream, &live.status()).ok();
                }
            }
        };
        let builder = thread::Builder::new().name("control".into());
        let thread = builder.spawn(answer).map_err(file(&path, "start the control thread"))?;
        Ok(Control { path, over, thread: Some(thread) })
    }

    /// Ends the answering and removes the socket.
    pub fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.over.store(true, SeqCst);
        // The thread sees that it is over when somebody connects.
        if UnixStream::connect(&self.path).is_ok() {
            thread.join().ok();
        }
        fs::remove_file(&self.path).ok();
    }
}

fn tell(mut stream: UnixStream, status: &Status) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&serde_json::to_vec(status)?)
}

/// The status from the process that serves the volume; `None` when there is none.
pub fn ask(volume: Uuid) -> Option<Status> {
    let mut stream = UnixStream::connect(socket_of(volume)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn socket_of(volume: Uuid) -> PathBuf {
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("hostftl"),
        None if user() == 0 => PathBuf::from("/run/hostftl"),
        None => std::env::temp_dir().join(format!("hostftl-{}", user())),
    };
    folder.join(format!("{}.sock", volume.simple()))
}

/// The user that this process runs as.
fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |meta| meta.uid())
}

//! `serve --on-event`: runs a program of the operator for each event.
//!
//! Invariants
//! - An event never waits for the program: at most [`QUEUE`] events wait, and further ones are
//!   dropped and reported.
//! - One program runs at a time, in the order of the events, for at most [`TIME_LIMIT`]. What it
//!   started in its process group is killed with it.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_serve::Log;
use hostftl_volume::{Event, Level};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::failure::Failure;

/// Maximum number of waiting events.
const QUEUE: usize = 256;
/// Maximum time of one program.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Interval between checks of a running program.
const POLL: Duration = Duration::from_millis(20);

/// Message to the thread that runs the program.
#[derive(Debug)]
enum Message {
    Event(Box<Occurrence>),
    /// Marker whose drop signals that the programs of all earlier events have ended.
    Mark(Sender<()>),
}

/// An event of a volume.
#[derive(Debug)]
struct Occurrence {
    file: PathBuf,
    volume: String,
    event: Event,
}

/// The program of `--on-event`.
#[derive(Debug)]
pub(super) struct OnEvent {
    events: SyncSender<Message>,
    lines: Log,
}

impl OnEvent {
    /// Starts the thread that runs `program`. Failures of the program are logged to `lines`.
    ///
    /// # Errors
    /// When the program is not an executable file, or no thread can be started.
    pub(super) fn start(program: &Path, lines: &Log) -> Result<Self, Failure> {
        let failed = |why: String| Failure::failed(format!("{}: {why}", program.display()));
        let found = program.metadata().map_err(|error| failed(error.to_string()))?;
        if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
            return Err(failed("is not an executable file".into()));
        }
        let program = std::path::absolute(program).map_err(|error| failed(error.to_string()))?;
        let (events, queue) = sync_channel(QUEUE);
        let log = lines.clone();
        let thread = thread::Builder::new().name("on-event".into());
        let spawned = thread.spawn(move || run_all(&program, &queue, &log, TIME_LIMIT));
        spawned.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        Ok(OnEvent { events, lines: lines.clone() })
    }

    /// Passes an event of the volume whose file is `file`.
    pub(super) fn pass(&self, file: &Path, volume: &str, event: &Event) {
        let (file, volume, event) = (file.to_owned(), volume.to_owned(), event.clone());
        let kind = event.kind.clone();
        let one = Message::Event(Box::new(Occurrence { file, volume: volume.clone(), event }));
        if self.events.try_send(one).is_err() {
            let text = format!("--on-event: {QUEUE} events wait; {kind} is dropped");
            self.lines.line(Level::Warning, &volume, &text);
        }
    }

    /// Waits until the programs of all earlier events have ended, for at most `most`, and logs if
    /// they have not.
    pub(super) fn finish(&self, most: Duration) {
        let (mark, ended) = channel::<()>();
        let is_queued = self.events.try_send(Message::Mark(mark)).is_ok();
        // No message is sent; the wait ends when the marker is dropped.
        if !is_queued || ended.recv_timeout(most) == Err(RecvTimeoutError::Timeout) {
            let text = "--on-event: the server ends before the programs of the last events";
            self.lines.line(Level::Warning, "serve", text);
        }
    }
}

fn run_all(program: &Path, queue: &Receiver<Message>, lines: &Log, limit: Duration) {
    for message in queue {
        let one = match message {
            Message::Event(one) => one,
            Message::Mark(mark) => {
                drop(mark);
                continue;
            }
        };
        let complain = |why: String| {
            let text = format!("--on-event: {} for {}: {why}", program.display(), one.event.kind);
            lines.line(Level::Warning, &one.volume, &text);
        };
        match run(program, &one, limit) {
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => complain(status.to_string()),
            Ok(None) => complain(format!("killed after {limit:?}")),
            Err(error) => complain(error.to_string()),
        }
    }
}

/// Runs the program for one event. Returns `None` if it was killed at the time limit.
fn run(program: &Path, one: &Occurrence, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let Occurrence { file, volume, event } = one;
    let mut command = Command::new(program);
    command.arg(&event.kind).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("HOSTFTL_EVENT", &event.kind).env("HOSTFTL_LEVEL", event.level.to_string());
    command.env("HOSTFTL_VOLUME", volume).env("HOSTFTL_TEXT", &event.text);
    for (name, value) in [
        ("HOSTFTL_NUMBER", Some(event.number)),
        ("HOSTFTL_COUNT", Some(event.count)),
        ("HOSTFTL_UNIX_MS", Some(event.unix_ms)),
        ("HOSTFTL_DEVICE", event.device.map(u64::from)),
    ] {
        match value {
            Some(value) => command.env(name, value.to_string()),
            None => command.env_remove(name),
        };
    }
    // Ctrl-C at the terminal ends the server, not the report of its last events.
    let mut child = command.process_group(0).spawn()?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= limit {
            kill_process_group(Pid::from_child(&child), Signal::KILL)?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn event(number: u64, kind: &str, device: Option<u8>) -> Event {
        Event {
            number,
            unix_ms: 5,
            first_unix_ms: 5,
            count: 1,
            level: Level::Error,
            kind: kind.into(),
            device,
            text: "a; $(text)".into(),
        }
    }

    fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("handler");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn each_event_runs_the_program_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let text = "echo \"$1 $2 $HOSTFTL_VOLUME $HOSTFTL_LEVEL $HOSTFTL_NUMBER \
                    ${HOSTFTL_DEVICE-none} $HOSTFTL_TEXT\" >>";
        let program = script(folder.path(), &format!("{text}{}; [ $1 != bad ]", out.display()));
        let written = Written::default();
        let lines = Log::to(written.clone()).unwrap();
        let handler = OnEvent::start(&program, &lines).unwrap();
        for one in [event(3, "device-lost", Some(1)), event(4, "bad", None)] {
            handler.pass(Path::new("/v.toml"), "vol", &one);
        }
        handler.finish(Duration::from_secs(60));
        lines.finish(Duration::from_secs(60));
        assert_eq!(
            fs::read_to_string(&out).unwrap(),
            "device-lost /v.toml vol error 3 1 a; $(text)\n\
             bad /v.toml vol error 4 none a; $(text)\n"
        );
        let log = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("handler for bad: exit status: 1"), "{log}");
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        // The child of the shell writes as long as it lives.
        let text = format!("(while :; do echo >>{}; sleep 0.01; done) & wait", out.display());
        let program = script(folder.path(), &text);
        let (file, volume) = ("/v.toml".into(), "v".into());
        let one = Occurrence { file, volume, event: event(1, "note", None) };
        assert_eq!(run(&program, &one, Duration::from_millis(500)).unwrap(), None);
        let written = || fs::metadata(&out).unwrap().len();
        let before = written();
        thread::sleep(Duration::from_millis(200));
        assert_eq!((before > 0, written()), (true, before));
    }

    #[test]
    fn the_end_of_the_server_before_that_of_a_program_is_logged() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "sleep 2");
        let written = Written::default();
        let lines = Log::to(written.clone()).unwrap();
        let handler = OnEvent::start(&program, &lines).unwrap();
        handler.pass(Path::new("/v.toml"), "vol", &event(1, "note", None));
        handler.finish(Duration::from_millis(50));
        lines.finish(Duration::from_secs(60));
        let log = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(log.contains("the server ends before the programs"), "{log}");
    }

    #[test]
    fn a_program_that_cannot_run_is_refused_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let lines = Log::to(io::sink()).unwrap();
        let refused = |path: &Path| OnEvent::start(path, &lines).unwrap_err().text;
        assert!(refused(&folder.path().join("none")).contains("No such file"));
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        assert!(refused(&plain).contains("is not an executable file"));
    }
}

//! Event file beside the volume file, which preserves events over restarts and crashes: a header
//! line with the volume's UUID, then one JSON object a line.
//!
//! A thread writes the file, so that no event waits for a file system. At each start, and when the
//! file becomes too long, it is rewritten from the ring of events under another name and renamed
//! into place. The file is therefore never written through a symbolic link, and has mode 0600.
//!
//! # Invariants
//! - The file is shorter than [`LONGEST`], apart from its last line.
//! - A damaged line affects no other line.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Event, Events, Inner, KEPT, Level, sane};
use crate::util::lock;
use crate::util::private::{beside, open_plain, replace_private};

/// Suffix of the file's name.
const ENDING: &str = ".events";
/// Maximum length of the file in bytes. All retained events together are shorter.
const LONGEST: u64 = 4 << 20;
/// Maximum number of events that wait for the writer.
const QUEUE: usize = 2048;
/// Interval of retries after a failed write.
const AGAIN: Duration = Duration::from_secs(2);

/// First line of the file.
#[derive(Serialize, Deserialize)]
struct Header {
    /// Volume of the events.
    volume: Uuid,
}

/// Messages to the writer.
#[derive(Debug)]
enum Message {
    Event(Box<Event>),
    /// Reply once all earlier events are durable, or with the reason why they are not.
    Sync(Sender<Result<(), String>>),
}

/// Handle of the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    messages: SyncSender<Message>,
    trouble: Arc<Mutex<Option<String>>>,
}

/// Returns the path of the event file of the volume file `volume`.
pub(crate) fn file_path(volume: &Path) -> PathBuf {
    beside(volume, ENDING)
}

/// Removes the event file of a volume.
pub(crate) fn forget(volume: &Path) {
    fs::remove_file(file_path(volume)).ok();
}

/// Returns the saved events of a volume, oldest first; repeats are not merged yet.
pub(super) fn read(path: &Path, volume: Uuid) -> io::Result<Vec<Event>> {
    let mut file = match open_plain(&file_path(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let bytes = file.metadata()?.len();
    // Only the end of an overlong file is used.
    file.seek(SeekFrom::Start(bytes.saturating_sub(LONGEST)))?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    let mut lines = text.split(|byte| *byte == b'\n').peekable();
    let header = lines.peek().and_then(|line| serde_json::from_slice::<Header>(line).ok());
    // Another volume had this volume file. A damaged header is tolerated.
    if header.is_some_and(|header| header.volume != volume) {
        return Ok(Vec::new());
    }
    let parse = |line: &[u8]| serde_json::from_slice::<Event>(line).ok();
    Ok(lines.filter_map(parse).map(plain).collect())
}

/// Sanitizes an event for display, because the file is untrusted input.
fn plain(event: Event) -> Event {
    // A number at the end of its range would leave no room for later numbers.
    let number = event.number.min(u64::MAX / 2);
    Event { number, kind: sane(&event.kind), text: sane(&event.text), ..event }
}

impl Writer {
    /// Starts the thread, which writes the events of `events` and then new ones.
    pub(super) fn start(path: &Path, volume: Uuid, events: Weak<Inner>) -> io::Result<Self> {
        let (messages, queue) = sync_channel(QUEUE);
        let trouble = Arc::default();
        let keeping = HistoryThread {
            path: file_path(path),
            volume,
            events,
            file: None,
            bytes: 0,
            tried: None,
            trouble: Arc::clone(&trouble),
        };
        thread::Builder::new().name("events".into()).spawn(move || keeping.run(&queue))?;
        Ok(Writer { messages, trouble })
    }

    /// Passes an event to the thread; returns false when its queue is full.
    pub(super) fn write(&self, event: &Event) -> bool {
        self.messages.try_send(Message::Event(Box::new(event.clone()))).is_ok()
    }

    /// Waits until all earlier events are durable, for at most `most`.
    pub(super) fn sync(&self, most: Duration) -> Result<(), String> {
        let late = || Err(format!("events could not be written within {} s", most.as_secs()));
        let (says, hears) = channel();
        if self.messages.try_send(Message::Sync(says)).is_err() {
            return late();
        }
        hears.recv_timeout(most).unwrap_or_else(|_| late())
    }

    /// Returns the reason why events can't be written; `None` while they can.
    pub(super) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }
}

/// State of the thread.
struct HistoryThread {
    path: PathBuf,
    volume: Uuid,
    events: Weak<Inner>,
    /// `None` until the file was rewritten from the ring, at the start and after an error.
    file: Option<File>,
    bytes: u64,
    /// Time of the last failed attempt.
    tried: Option<Instant>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl HistoryThread {
    fn run(mut self, queue: &Receiver<Message>) {
        loop {
            let first = match queue.recv_timeout(AGAIN) {
                Ok(message) => Some(message),
                // Only a failed write has to be retried.
                Err(RecvTimeoutError::Timeout) if self.tried.is_none() => continue,
                Err(RecvTimeoutError::Timeout) => None,
                // The events were dropped, so no more will follow.
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let (mut events, mut waiting) = (Vec::new(), Vec::new());
            // Events that arrived meanwhile share one write and one sync.
            for message in first.into_iter().chain(queue.try_iter().take(KEPT)) {
                match message {
                    Message::Event(event) => events.push(event),
                    Message::Sync(says) => waiting.push(says),
                }
            }
            let is_soon = self.tried.is_some_and(|tried| tried.elapsed() < AGAIN);
            // Skip attempts soon after a failure, unless a thread waits for durability.
            if !is_soon || !waiting.is_empty() {
                let written = self.write(&events);
                self.note(written);
            }
            let outcome = lock(&self.trouble).clone().map_or(Ok(()), Err);
            waiting.into_iter().for_each(|says| drop(says.send(outcome.clone())));
        }
    }

    /// Durably appends events, or rewrites the file from the ring, which has them too.
    fn write(&mut self, events: &[Box<Event>]) -> io::Result<()> {
        let mut text = Vec::new();
        for event in events {
            line(event, &mut text);
        }
        // The file is put back only on success: after an error it is rewritten from the ring.
        match self.file.take().filter(|_| self.bytes + (text.len() as u64) < LONGEST) {
            None => self.write_all(),
            Some(mut file) => {
                file.write_all(&text)?;
                file.sync_data()?;
                self.bytes += text.len() as u64;
                self.file = Some(file);
                Ok(())
            }
        }
    }

    fn write_all(&mut self) -> io::Result<()> {
        // Weak, so that this thread does not keep the events of a closed volume alive.
        let Some(inner) = self.events.upgrade() else { return Ok(()) };
        let all = Events(inner).all();
        let mut text = serde_json::to_vec(&Header { volume: self.volume }).expect("plain fields");
        text.push(b'\n');
        all.iter().for_each(|event| line(event, &mut text));
        self.file = Some(replace_private(&self.path, &text)?);
        self.bytes = text.len() as u64;
        Ok(())
    }

    /// Records the result of a write. The first of several failures in a row is an event.
    fn note(&mut self, written: io::Result<()>) {
        let trouble = written.err().map(|error| {
            let path = self.path.display();
            format!("cannot write {path}: {error}; events will be lost at the next restart")
        });
        self.tried = trouble.as_ref().map(|_| Instant::now());
        let was = std::mem::replace(&mut *lock(&self.trouble), trouble.clone());
        if let (Some(text), None, Some(inner)) = (trouble, was, self.events.upgrade()) {
            Events(inner).report(Level::Warning, "events-not-saved", text);
        }
    }
}

fn line(event: &Event, text: &mut Vec<u8>) {
    serde_json::to_writer(&mut *text, event).expect("plain fields");
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const VOLUME: Uuid = Uuid::from_u128(7);

    fn read(path: &Path, volume: Uuid) -> io::Result<Vec<Event>> {
        Ok(Events::open(path, volume)?.all())
    }

    fn kept(path: &Path) -> Events {
        Events::kept(path, VOLUME).unwrap()
    }

    fn texts(events: &[Event]) -> Vec<&str> {
        events.iter().map(|it| it.text.as_str()).collect()
    }

    #[test]
    fn events_outlive_a_restart_and_damaged_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml");
        let events = kept(&path);
        events.report(Level::Info, "note", "one\n\u{1b}[31m");
        (0..100)
            .for_each(|it| events.report_device(2, Level::Warning, "repaired", format!("{it}")));
        events.sync().unwrap();
        let file = file_path(&path);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        drop(events);
        // A crash leaves a partial line, and another line is damaged.
        let mut text = fs::read(&file).unwrap();
        text.extend(b"{\"number\":3,\n\xff\xfe\n{\"number\":9,\"unix");
        fs::write(&file, &text).unwrap();
        let found = read(&path, VOLUME).unwrap();
        assert_eq!(texts(&found), ["one  [31m", "99"]);
        assert_eq!((found[1].count, found[1].device), (100, Some(2)));
        let events = kept(&path);
        assert!(events.since(0).is_empty() && events.total("repaired") == 0, "this run has none");
        assert_eq!(events.notes().len(), 1, "the repairs are not acknowledged");
        events.report_device(2, Level::Warning, "repaired", "again");
        let all = events.all();
        assert_eq!((texts(&all), all[1].count), (vec!["one  [31m", "again"], 101));
        assert!(all[1].number > found[1].number, "numbers go on");
        events.clear(Some(2), "d2").unwrap();
        assert!(kept(&path).notes().is_empty(), "an acknowledgement is durable");
    }

    #[test]
    fn links_and_events_of_other_volumes_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml");
        let (file, target) = (file_path(&path), folder.path().join("target"));
        fs::write(&target, "precious").unwrap();
        symlink(&target, &file).unwrap();
        symlink(&target, file.with_extension("events.new")).unwrap();
        let events = kept(&path);
        events.report(Level::Info, "note", "mine");
        events.sync().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert!(!fs::symlink_metadata(&file).unwrap().is_symlink());
        assert_eq!(read(&path, VOLUME).unwrap().len(), 1);
        assert!(read(&path, Uuid::from_u128(8)).unwrap().is_empty());
        fs::remove_file(&file).unwrap();
        symlink(&target, &file).unwrap();
        assert!(read(&path, VOLUME).is_err(), "a link is not read either");
    }

    #[test]
    fn the_file_is_bounded_and_write_failures_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.toml");
        let events = kept(&path);
        for round in 0..24 {
            (0..400).for_each(|_| events.report(Level::Info, "client", "x".repeat(900)));
            events.sync().unwrap_or_else(|why| panic!("round {round}: {why}"));
        }
        assert!(fs::metadata(file_path(&path)).unwrap().len() < LONGEST);
        assert_eq!(read(&path, VOLUME).unwrap().len(), KEPT);
        let gone = folder.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let events = kept(&gone.join("v.toml"));
        fs::remove_dir(&gone).unwrap();
        events.report(Level::Info, "note", "one");
        assert!(events.sync().is_err() && events.trouble().is_some());
        assert_eq!(events.total("events-not-saved"), 1);
        fs::create_dir(&gone).unwrap();
        events.sync().expect("it is tried again");
        assert_eq!(read(&gone.join("v.toml"), VOLUME).unwrap().len(), 2, "nothing is missing");
    }
}

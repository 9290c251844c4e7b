//! Records the requests of clients as a trace while a volume is served.
//!
//! Invariants
//! - Records are ordered by time.
//! - Serving threads never block. Requests that do not fit into the queue are dropped and counted.
//! - The trace and its predecessor together stay near the limit. A file that reaches half of it is
//!   completed and becomes the predecessor: `trace.1.hft.zst` of `trace.hft.zst`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use hostftl_core::SECTOR;
use hostftl_serve::{RequestKind, RequestObserver};
use hostftl_trace::{Extras, Op, Record, TraceError, Writer};
use hostftl_volume::{Events, Level};

use crate::failure::Failure;
use crate::units::counted;

/// Maximum number of queued records, 2.5 MiB.
const QUEUE: usize = 1 << 16;
/// Number of records between checks of the file's size.
const CHECK_INTERVAL: u64 = 4096;

/// A recording in progress.
pub(super) struct Tracing {
    path: PathBuf,
    recorder: Arc<Recorder>,
    thread: JoinHandle<Result<Kept, TraceError>>,
}

/// Numbers of the records that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// Records in the trace.
    newest: u64,
    /// Records in its predecessor.
    older: u64,
    /// Records in files that were replaced.
    replaced: u64,
}

/// Result of a recording.
#[derive(serde::Serialize)]
pub(super) struct Traced {
    /// Path of the trace.
    file: PathBuf,
    /// Number of records in the trace and its predecessor.
    records: u64,
    /// Number of older records that were replaced because of the limit.
    replaced: u64,
    /// Number of requests dropped because the queue was full.
    #[serde(rename = "left_out")]
    dropped: u64,
}

/// Receives the requests of all clients.
struct Recorder {
    began: Instant,
    /// `None` after the end of the recording.
    queue: Mutex<Option<SyncSender<Record>>>,
    dropped: AtomicU64,
}

impl Tracing {
    /// Starts recording to `path`. It and its predecessor must not exist. The newest requests are
    /// kept within about `limit` bytes. A failed write is reported to `events` and ends the
    /// recording.
    pub(super) fn begin(path: &Path, limit: u64, events: &Events) -> Result<Self, Failure> {
        let older = predecessor(path);
        if older.exists() {
            let older = older.display();
            let why = "the file exists and would be replaced; remove it or use another name";
            return Err(Failure::failed(format!("{older}: {why}")));
        }
        let writer = create(path).map_err(Failure::failed)?;
        let (sender, records) = sync_channel(QUEUE);
        let (queue, dropped) = (Mutex::new(Some(sender)), AtomicU64::new(0));
        let recorder = Arc::new(Recorder { began: Instant::now(), queue, dropped });
        let (events, to) = (events.clone(), path.to_owned());
        let write = move || {
            let written = write_all(writer, &records, (&to, limit / 2));
            if let Err(error) = &written {
                let text = format!("trace recording stopped: {error}; the volume keeps running");
                events.report(Level::Warning, "note", text);
            }
            written
        };
        let thread = thread::Builder::new().name("trace".into()).spawn(write);
        let thread =
            thread.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        Ok(Tracing { path: path.into(), recorder, thread })
    }

    /// Returns the observer for a server.
    pub(super) fn witness(&self) -> Arc<dyn RequestObserver> {
        self.recorder.clone()
    }

    /// Ends the recording. The file is complete when this returns.
    pub(super) fn finish(self) -> Result<Traced, Failure> {
        self.recorder.close();
        let written = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let Kept { newest, older, replaced } = written.map_err(Failure::failed)?;
        let dropped = self.recorder.dropped.load(Ordering::Relaxed);
        Ok(Traced { file: self.path, records: newest + older, replaced, dropped })
    }
}

impl Traced {
    /// Formats the result as one line.
    pub(super) fn text(&self) -> String {
        let Traced { file, records, replaced, dropped } = self;
        let mut text = format!("trace {}: {}", file.display(), counted(*records, "request"));
        if *replaced > 0 {
            let limit = "replaced because of --record-limit";
            text = format!("{text}, {replaced} older ones {limit}");
        }
        if *dropped > 0 {
            text = format!("{text}, {dropped} more dropped because the disk was too slow");
        }
        text
    }
}

/// Creates a trace that only its owner may read, because it shows the activity of clients.
fn create(path: &Path) -> Result<Writer, TraceError> {
    let mut writer = Writer::create(path, Extras::default())?;
    writer.keep_private()?;
    Ok(writer)
}

/// Writes the records to `path`; a file with `most` bytes is replaced.
fn write_all(
    mut writer: Writer,
    records: &Receiver<Record>,
    (path, most): (&Path, u64),
) -> Result<Kept, TraceError> {
    let mut kept = Kept::default();
    for record in records {
        kept.newest += 1;
        writer.write(&record)?;
        if kept.newest % CHECK_INTERVAL == 0 && writer.file_bytes()? >= most {
            writer.finish()?;
            let older = predecessor(path);
            fs::rename(path, &older).map_err(|source| TraceError::Write { path: older, source })?;
            let Kept { newest, older, replaced } = kept;
            kept = Kept { newest: 0, older: newest, replaced: replaced + older };
            writer = create(path)?;
        }
    }
    writer.finish()?;
    Ok(kept)
}

/// Returns the name of the predecessor of a trace: `.1` before the endings.
fn predecessor(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (plain, compressed) = match name.strip_suffix(".zst") {
        Some(plain) => (plain, ".zst"),
        None => (&*name, ""),
    };
    let (stem, ending) = plain.rsplit_once('.').unwrap_or((plain, ""));
    path.with_file_name(format!("{stem}.1.{ending}{compressed}"))
}

impl Recorder {
    fn close(&self) {
        *self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }
}

impl RequestObserver for Recorder {
    fn observe(&self, kind: RequestKind, offset: u64, bytes: u64) {
        let op = match kind {
            RequestKind::Read => Op::Read,
            RequestKind::Write => Op::Write,
            RequestKind::Flush => Op::Flush,
            RequestKind::Trim | RequestKind::Zeroes => Op::Discard,
        };
        let (lba, sectors) = (offset / SECTOR as u64, bytes / SECTOR as u64);
        let queue = self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(sender) = &*queue else { return };
        // The time is taken under the lock, so that times never decrease.
        let t_ns = self.began.elapsed().as_nanos() as u64;
        if sender.try_send(Record::new(t_ns, op, 0, lba, sectors)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use hostftl_trace::Source;

    use super::*;

    #[test]
    fn a_trace_keeps_the_newest_requests_within_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.hft");
        let (all, limit) = (1_000_000_u64, 4_u64 << 20);
        let (sender, records) = sync_channel(1024);
        let to = path.clone();
        let writer = create(&path).unwrap();
        let write = thread::spawn(move || write_all(writer, &records, (&to, limit / 2)).unwrap());
        for at in 0..all {
            // Addresses that do not compress.
            let lba = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            sender.send(Record::new(at * 1000, Op::Write, 0, lba, 8)).unwrap();
        }
        drop(sender);
        let kept = write.join().unwrap();
        assert_eq!(kept.newest + kept.older + kept.replaced, all);
        let older = folder.path().join("t.1.hft");
        let bytes = [&path, &older].map(|file| fs::metadata(file).unwrap().len());
        assert!(kept.replaced > 0 && bytes.iter().sum::<u64>() <= limit + (1 << 20), "{bytes:?}");
        let count = |file: &Path| {
            let source: Source = file.to_str().unwrap().parse().unwrap();
            let times: Vec<u64> =
                source.open(1, false).unwrap().map(|it| it.unwrap().t_ns).collect();
            (times.len() as u64, *times.last().unwrap())
        };
        assert_eq!(count(&older).0, kept.older);
        assert_eq!(count(&path).0, kept.newest);
        fs::remove_file(&path).unwrap();
        let refused = Tracing::begin(&path, limit, &Events::default()).err().unwrap().text;
        assert!(refused.contains("t.1.hft: the file exists"), "{refused}");
        assert_eq!(predecessor(Path::new("/a/t.csv.zst")), Path::new("/a/t.1.csv.zst"));
    }
}

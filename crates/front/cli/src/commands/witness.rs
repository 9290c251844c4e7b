//! Records the requests of clients as a trace while a volume is served.
//!
//! Invariants
//! - Records are ordered by time.
//! - Serving threads never block. Requests that do not fit into the queue are dropped and counted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use hostftl_core::SECTOR;
use hostftl_serve::{RequestKind, RequestObserver};
use hostftl_trace::{Op, Record, TraceError, Writer};
use hostftl_volume::{Events, Level};

use crate::failure::Failure;

/// Maximum number of queued records, 2.5 MiB.
const QUEUE: usize = 1 << 16;

/// A recording in progress.
pub(super) struct Tracing {
    path: PathBuf,
    recorder: Arc<Recorder>,
    thread: JoinHandle<Result<u64, TraceError>>,
}

/// Result of a recording.
#[derive(serde::Serialize)]
pub(super) struct Traced {
    /// Path of the trace.
    file: PathBuf,
    /// Number of records.
    records: u64,
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
    /// Starts recording to `path`, which must not exist. A failed write is reported to `events` and
    /// ends the recording.
    pub(super) fn begin(path: &Path, events: &Events) -> Result<Self, Failure> {
        let mut writer = Writer::create(path, false).map_err(Failure::failed)?;
        // The trace shows the activity of clients, so only the owner may read it.
        writer.keep_private().map_err(Failure::failed)?;
        let (sender, records) = sync_channel(QUEUE);
        let (queue, dropped) = (Mutex::new(Some(sender)), AtomicU64::new(0));
        let recorder = Arc::new(Recorder { began: Instant::now(), queue, dropped });
        let events = events.clone();
        let write = move || {
            let written = write_all(writer, &records);
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
        let records = written.map_err(Failure::failed)?;
        let dropped = self.recorder.dropped.load(Ordering::Relaxed);
        Ok(Traced { file: self.path, records, dropped })
    }
}

impl Traced {
    /// Formats the result as one line.
    pub(super) fn text(&self) -> String {
        let Traced { file, records, dropped } = self;
        let records = crate::units::counted(*records, "request");
        let rest = match dropped {
            0 => String::new(),
            some => format!(", {some} more dropped because the disk was too slow"),
        };
        format!("trace {}: {records}{rest}", file.display())
    }
}

fn write_all(mut writer: Writer, records: &Receiver<Record>) -> Result<u64, TraceError> {
    for record in records {
        writer.write(&record)?;
    }
    writer.finish()
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

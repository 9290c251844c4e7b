//! Writes down what clients ask while a volume is served, as a trace.
//!
//! Invariants
//! - Records are in the order of their times.
//! - Whoever serves never waits: what does not fit into the queue is counted and left out.

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

/// Records that wait for the disk at most: 2.5 MiB.
const QUEUE: usize = 1 << 16;

/// A trace under way.
pub(super) struct Tracing {
    path: PathBuf,
    eye: Arc<Eye>,
    thread: JoinHandle<Result<u64, TraceError>>,
}

/// What became of a trace.
#[derive(serde::Serialize)]
pub(super) struct Traced {
    /// The file.
    file: PathBuf,
    /// Records in it.
    records: u64,
    /// Requests that came faster than the file could be written.
    left_out: u64,
}

/// The end that sees the requests.
struct Eye {
    began: Instant,
    /// None when the trace is over.
    queue: Mutex<Option<SyncSender<Record>>>,
    left_out: AtomicU64,
}

impl Tracing {
    /// Begins the trace `path`, which must not exist; `events` are told when it can't be written.
    pub(super) fn begin(path: &Path, events: &Events) -> Result<Self, Failure> {
        let mut writer = Writer::create(path, false).map_err(Failure::failed)?;
        // The trace tells what clients do, so it is for the owner alone.
        writer.keep_private().map_err(Failure::failed)?;
        let (sender, records) = sync_channel(QUEUE);
        let (queue, left_out) = (Mutex::new(Some(sender)), AtomicU64::new(0));
        let eye = Arc::new(Eye { began: Instant::now(), queue, left_out });
        let events = events.clone();
        let write = move || {
            let written = write_all(writer, &records);
            if let Err(error) = &written {
                let text = format!("the trace stops here: {error}; the volume runs on");
                events.report(Level::Warning, "note", text);
            }
            written
        };
        let thread = thread::Builder::new().name("trace".into()).spawn(write);
        let thread =
            thread.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        Ok(Tracing { path: path.into(), eye, thread })
    }

    /// What a server tells of its requests.
    pub(super) fn witness(&self) -> Arc<dyn RequestObserver> {
        self.eye.clone()
    }

    /// Ends the trace; afterwards it is on disk.
    pub(super) fn finish(self) -> Result<Traced, Failure> {
        self.eye.close();
        let written = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let records = written.map_err(Failure::failed)?;
        let left_out = self.eye.left_out.load(Ordering::Relaxed);
        Ok(Traced { file: self.path, records, left_out })
    }
}

impl Traced {
    /// In words.
    pub(super) fn text(&self) -> String {
        let Traced { file, records, left_out } = self;
        let records = crate::units::counted(*records, "request");
        let rest = match left_out {
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

impl Eye {
    fn close(&self) {
        *self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }
}

impl RequestObserver for Eye {
    fn observe(&self, what: RequestKind, offset: u64, bytes: u64) {
        let op = match what {
            RequestKind::Read => Op::Read,
            RequestKind::Write => Op::Write,
            RequestKind::Flush => Op::Flush,
            RequestKind::Trim | RequestKind::Zeroes => Op::Discard,
        };
        let (lba, sectors) = (offset / SECTOR as u64, bytes / SECTOR as u64);
        let queue = self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(sender) = &*queue else { return };
        // The time is taken under the lock, so that times do not go back.
        let t_ns = self.began.elapsed().as_nanos() as u64;
        if sender.try_send(Record::new(t_ns, op, 0, lba, sectors)).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

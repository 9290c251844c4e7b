//! The tap on the requests of clients: a bounded queue that never blocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use hostftl_trace::{Op, Record};

use super::sample::{hash, pieces};

/// Maximum number of queued requests, 320 KiB.
const QUEUE: usize = 1 << 13;
/// Grains of a range from which it is always queued. Hashing all would take the server's time.
const MANY: u64 = 64;

/// Passes sampled requests to a shadow. Called from several threads at the same time.
#[derive(Debug)]
pub struct Tap {
    /// First hash that is not selected.
    limit: AtomicU64,
    /// Sectors written by all requests.
    written: AtomicU64,
    /// Sampled requests that were dropped because the queue was full.
    dropped: AtomicU64,
    queue: SyncSender<Record>,
}

impl Tap {
    /// Creates a tap that selects every address until a shadow selects a sample, and its queue.
    pub fn new() -> (Self, Receiver<Record>) {
        let (queue, records) = sync_channel(QUEUE);
        let (limit, zero) = (AtomicU64::new(u64::MAX), || AtomicU64::new(0));
        (Tap { limit, written: zero(), dropped: zero(), queue }, records)
    }

    /// Observes a request.
    #[inline]
    pub fn observe(&self, record: &Record) {
        if self.takes(record) && self.queue.try_send(*record).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request and returns whether it belongs to the sample. Reads do not: they program
    /// nothing.
    #[inline]
    pub(super) fn takes(&self, record: &Record) -> bool {
        match record.op {
            Op::Read => return false,
            Op::Write => drop(self.written.fetch_add(record.sectors, Ordering::Relaxed)),
            Op::Flush => return true,
            Op::Discard => {}
        }
        let limit = self.limit.load(Ordering::Relaxed);
        let mut grains = pieces(record.lba, record.sectors).enumerate();
        grains.any(|(at, (grain, ..))| at as u64 == MANY || hash(grain) < limit)
    }

    /// Selects the grains with hashes below `limit`.
    pub(super) fn select(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the first hash that is not selected.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns the sectors written by all requests.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns the number of dropped requests.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

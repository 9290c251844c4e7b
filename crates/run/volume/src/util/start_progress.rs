//! Progress of a volume's start, for other threads.

use std::sync::{Arc, Mutex};

use hostftl_core::SECTOR;
use hostftl_io::Snapshot;

use crate::util::lock;

/// A start in progress. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StartProgress(Arc<Mutex<Option<Arc<Mutex<Snapshot>>>>>);

/// Progress of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovering {
    /// Number of inputs that the layer took. Recovery is active as long as it grows.
    pub steps: u64,
    /// Bytes read from the devices.
    pub read_bytes: u64,
    /// Bytes written to the devices.
    pub sent_bytes: u64,
}

impl StartProgress {
    /// Marks the begin of recovery, whose progress is in `shown`.
    pub(crate) fn recovers(&self, shown: Arc<Mutex<Snapshot>>) {
        *lock(&self.0) = Some(shown);
    }

    /// Returns the progress of recovery, at most 0.1 s old; `None` before recovery starts.
    pub fn recovering(&self) -> Option<Recovering> {
        let shown = lock(&self.0).clone()?;
        let shown = lock(&shown);
        let stats = &shown.stats;
        let bytes = |sectors: u64| sectors * SECTOR as u64;
        Some(Recovering {
            steps: stats.steps,
            read_bytes: bytes(stats.read),
            sent_bytes: bytes(stats.sent_sectors()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_starts_after_all_devices_are_present() {
        let start_progress = StartProgress::default();
        let other = start_progress.clone();
        assert_eq!(other.recovering(), None);
        let shown: Arc<Mutex<Snapshot>> = Arc::default();
        start_progress.recovers(shown.clone());
        shown.lock().unwrap().stats.read = 8;
        let found = other.recovering().expect("it has begun");
        assert_eq!((found.read_bytes, found.sent_bytes, found.steps), (4096, 0, 0));
    }
}

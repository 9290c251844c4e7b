//! How far the start of a volume is, for other threads than the one that starts it.

use std::sync::{Arc, Mutex, PoisonError};

use hostftl_core::SECTOR;
use hostftl_io::Snapshot;

/// A start under way. Clones show the same one.
#[derive(Clone, Debug, Default)]
pub struct Beginning(Arc<Mutex<Option<Arc<Mutex<Snapshot>>>>>);

/// What recovery has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovering {
    /// Inputs that the layer took: it works as long as they grow.
    pub steps: u64,
    /// Bytes read from the devices.
    pub read_bytes: u64,
    /// Bytes written to the devices.
    pub sent_bytes: u64,
}

impl Beginning {
    /// Recovery begins, and is shown there.
    pub(crate) fn recovers(&self, shown: Arc<Mutex<Snapshot>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
    }

    /// How far recovery is, 0.1 s old at most while it works; none while the devices are looked
    /// for.
    pub fn recovering(&self) -> Option<Recovering> {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn nothing_is_recovered_before_the_devices_are_there() {
        let beginning = Beginning::default();
        let other = beginning.clone();
        assert_eq!(other.recovering(), None);
        let shown: Arc<Mutex<Snapshot>> = Arc::default();
        beginning.recovers(shown.clone());
        shown.lock().unwrap().stats.read = 8;
        let found = other.recovering().expect("it has begun");
        assert_eq!((found.read_bytes, found.sent_bytes, found.steps), (4096, 0, 0));
    }
}

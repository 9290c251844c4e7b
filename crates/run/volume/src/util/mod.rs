//! Tools without knowledge of a volume's layout: errors, events, locks, private files, and checks
//! of devices.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) mod allocate;
pub(crate) mod blank;
pub(crate) mod busy;
pub(crate) mod counted;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod guests;
pub(crate) mod private;
pub(crate) mod runtime_dir;
pub(crate) mod start_progress;
pub(crate) mod volume_lock;

/// Locks a mutex, also after a thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

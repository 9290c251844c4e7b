//! The open connections of a server, so that they can be ended from outside.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::channel::Socket;

/// Connections by number.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    open: Mutex<BTreeMap<u64, Arc<Socket>>>,
    closed: Condvar,
}

impl Registry {
    pub(crate) fn insert(&self, number: u64, stream: Arc<Socket>) {
        self.lock().insert(number, stream);
    }

    pub(crate) fn remove(&self, number: u64) {
        self.lock().remove(&number);
        self.closed.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Ends one or both directions of every connection.
    pub(crate) fn shut(&self, how: Shutdown) {
        for stream in self.lock().values() {
            // A client that is already gone needs no shutdown.
            stream.shutdown(how).ok();
        }
    }

    /// Waits until all connections are gone, but not longer than `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let open = self.lock();
        let waited = self.closed.wait_timeout_while(open, time, |open| !open.is_empty());
        drop(waited.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Socket>>> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

//! Memory budget shared by all connections of a server, in addition to the volume's buffers. It
//! covers long reads whose parts are joined, and replies that slow clients have not received yet.
//!
//! Invariants
//! - The granted bytes never exceed the budget; a [`Grant`] returns its bytes when dropped.
//! - Waiting requests are served in order, so short reads cannot starve a long one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Shared byte budget; clones use the same bytes.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    whole: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    left: u64,
    /// Ticket numbers: the next to be issued, and the next to be served.
    next: u64,
    served: u64,
}

/// Bytes taken from a budget.
#[derive(Debug)]
pub(crate) struct Grant {
    budget: Budget,
    bytes: u64,
}

/// Memory together with the grant that covers it.
#[derive(Debug)]
pub(crate) struct Granted {
    bytes: Vec<u8>,
    _grant: Grant,
}

impl Grant {
    /// Binds the grant to the memory that it covers.
    pub(crate) fn hold(self, bytes: Vec<u8>) -> Granted {
        Granted { bytes, _grant: self }
    }
}

impl Granted {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        let state = Mutex::new(State { left: bytes, next: 0, served: 0 });
        Budget(Arc::new(Inner { whole: bytes, state, changed: Condvar::new() }))
    }

    /// Waits for `bytes` bytes, or for the whole budget if that is less.
    pub(crate) fn wait_for(&self, bytes: u32) -> Grant {
        let bytes = u64::from(bytes).min(self.0.whole);
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        while state.served != ticket || state.left < bytes {
            let waited = self.0.changed.wait(state);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.served += 1;
        state.left -= bytes;
        drop(state);
        // Enough bytes may be left for the next ticket, which waited only for its turn.
        self.0.changed.notify_all();
        Grant { budget: self.clone(), bytes }
    }

    /// Returns a grant like [`Budget::wait_for`], or `None` instead of waiting or overtaking a
    /// waiting thread.
    pub(crate) fn ask_for(&self, bytes: u32) -> Option<Grant> {
        let bytes = u64::from(bytes).min(self.0.whole);
        let mut state = self.lock();
        if state.next != state.served || state.left < bytes {
            return None;
        }
        state.left -= bytes;
        Some(Grant { budget: self.clone(), bytes })
    }

    /// Returns whether a thread is waiting for memory.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.lock();
        state.next != state.served
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.budget.lock().left += self.bytes;
        self.budget.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn waiting_requests_are_not_overtaken() {
        let budget = Budget::new(100);
        let first = budget.ask_for(60).expect("there is room");
        assert!(budget.ask_for(60).is_none() && !budget.is_wanted());
        thread::scope(|scope| {
            let long = scope.spawn(|| budget.wait_for(1000));
            while !budget.is_wanted() {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(budget.ask_for(10).is_none(), "a request waits for all of it");
            drop(first);
            drop(long.join().expect("it gets all"));
        });
        assert!(!budget.is_wanted() && budget.ask_for(100).is_some());
    }
}

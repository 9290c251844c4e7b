//! Open connections of a server: those in the handshake, those being served, and their shutdown.
//!
//! Invariants
//! - A connection is in the handshake from [`Registry::insert`] to [`Registry::promote`], and is
//!   served from then to [`Registry::remove`].
//! - At most [`MAX_HANDSHAKES`] connections are in the handshake. The oldest is closed for the
//!   newest, so clients that never finish cannot keep others out.
//! - At most [`MAX_CONNECTIONS`] clients of one export are served, independently of the other
//!   exports.
//! - A handshake takes at most [`HANDSHAKE`], even if bytes keep arriving.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::channel::Socket;

/// Maximum number of clients of one export.
pub(crate) const MAX_CONNECTIONS: usize = 64;
/// Maximum number of clients in the handshake.
pub(crate) const MAX_HANDSHAKES: usize = 64;
/// Time limit from the connection to the first request, including TLS.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

/// Registry of connections.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
    changed: Condvar,
}

/// Connections by ascending number.
#[derive(Debug, Default)]
struct State {
    shaking: BTreeMap<u64, (Instant, Arc<Socket>)>,
    /// With the index of the export.
    served: BTreeMap<u64, (usize, Arc<Socket>)>,
    /// Whether the server has ended.
    over: bool,
}

impl Registry {
    /// Registers a new client in the handshake. If there are too many, closes the oldest one and
    /// returns its number.
    pub(crate) fn insert(&self, number: u64, stream: Arc<Socket>) -> Option<u64> {
        let mut state = self.lock();
        let full = state.shaking.len() >= MAX_HANDSHAKES;
        let oldest = full.then(|| state.shaking.pop_first()).flatten();
        state.shaking.insert(number, (Instant::now(), stream));
        drop(state);
        self.changed.notify_all();
        oldest.map(|(number, (_, stream))| {
            end(&stream, Shutdown::Both);
            number
        })
    }

    /// Admits a client to its export after the handshake. Returns false when the export is full.
    pub(crate) fn promote(&self, number: u64, export: usize) -> bool {
        let mut state = self.lock();
        let Some((_, stream)) = state.shaking.remove(&number) else { return false };
        let others = state.served.values().filter(|(other, _)| *other == export).count();
        let has_room = others < MAX_CONNECTIONS;
        if has_room {
            state.served.insert(number, (export, stream));
        }
        has_room
    }

    pub(crate) fn remove(&self, number: u64) {
        let mut state = self.lock();
        state.shaking.remove(&number);
        state.served.remove(&number);
        drop(state);
        self.changed.notify_all();
    }

    /// Shuts down one or both directions of every connection.
    pub(crate) fn shut(&self, how: Shutdown) {
        let state = self.lock();
        let shaking = state.shaking.values().map(|(_, stream)| stream);
        shaking
            .chain(state.served.values().map(|(_, stream)| stream))
            .for_each(|stream| end(stream, how));
    }

    /// Waits until all connections are closed, for at most `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let some = |state: &mut State| !state.shaking.is_empty() || !state.served.is_empty();
        let waited = self.changed.wait_timeout_while(self.lock(), time, some);
        drop(waited.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    /// Ends [`Registry::watch`]; no more clients will come.
    pub(crate) fn close(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Ends handshakes that take longer than `most`, until the registry is closed. Calls `late`
    /// with the number of each.
    pub(crate) fn watch(&self, most: Duration, late: impl Fn(u64)) {
        let mut state = self.lock();
        while !state.over {
            let now = Instant::now();
            let Some((&number, (since, stream))) = state.shaking.first_key_value() else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            };
            let left = (*since + most).saturating_duration_since(now);
            if left.is_zero() {
                end(stream, Shutdown::Both);
                state.shaking.remove(&number);
                late(number);
                continue;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Shuts a connection down. Errors are ignored: the client may have disconnected already.
fn end(stream: &Socket, how: Shutdown) {
    stream.shutdown(how).ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Arc<Socket>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        theirs.set_read_timeout(Some(Duration::from_secs(300))).expect("it is a socket");
        (Arc::new(Socket::Unix(ours)), theirs)
    }

    #[test]
    fn the_oldest_unidentified_client_is_evicted() {
        let registry = Registry::default();
        let (ours, good) = pair();
        assert_eq!(registry.insert(0, ours), None);
        assert!(registry.promote(0, 0));
        let mut strangers: Vec<UnixStream> = (1..=MAX_HANDSHAKES as u64)
            .map(|number| {
                let (ours, theirs) = pair();
                assert_eq!(registry.insert(number, ours), None);
                theirs
            })
            .collect();
        assert_eq!(registry.insert(999, pair().0), Some(1));
        assert_eq!(strangers[0].read(&mut [0]).expect("it was ended"), 0);
        assert!(!registry.promote(1, 0), "it is gone");
        strangers[1].set_nonblocking(true).expect("it is a socket");
        assert!(strangers[1].read(&mut [0]).is_err(), "the next one may go on");
        drop(good);
    }

    #[test]
    fn no_more_clients_of_an_export_are_served_than_may_be() {
        let registry = Registry::default();
        for number in 0..=MAX_CONNECTIONS as u64 {
            registry.insert(number, pair().0);
            assert_eq!(registry.promote(number, 0), number < MAX_CONNECTIONS as u64);
        }
        registry.insert(999, pair().0);
        assert!(registry.promote(999, 1), "another export has room of its own");
    }

    #[test]
    fn a_handshake_ends_in_time_without_other_clients() {
        let registry = &Registry::default();
        let (ours, mut theirs) = pair();
        registry.insert(7, ours);
        std::thread::scope(|scope| {
            let late = |number| assert_eq!(number, 7);
            scope.spawn(move || registry.watch(Duration::from_millis(30), late));
            assert_eq!(theirs.read(&mut [0]).expect("it was ended"), 0);
            registry.close();
        });
    }
}

//! The open connections of a server: who still shakes hands, who is served, and how all are ended.
//!
//! Invariants
//! - A connection shakes hands from [`Registry::insert`] to [`Registry::promote`], and is served
//!   from then to [`Registry::remove`].
//! - At most [`MAX_HANDSHAKES`] shake hands: clients that never finish keep no other out, because
//!   the oldest of them makes room for the newest.
//! - At most [`MAX_CONNECTIONS`] clients of one export are served, whatever the other exports have.
//! - A handshake takes no longer than [`HANDSHAKE`], however often a byte of it comes.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::channel::Socket;

/// The most clients of one export that are served at once.
pub(crate) const MAX_CONNECTIONS: usize = 64;
/// The most clients that shake hands at once.
pub(crate) const MAX_HANDSHAKES: usize = 64;
/// How long a client may take from the first byte to its first request, TLS included.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
    changed: Condvar,
}

/// Connections by number, which grow.
#[derive(Debug, Default)]
struct State {
    shaking: BTreeMap<u64, (Instant, Arc<Socket>)>,
    /// Each with the index of its export.
    served: BTreeMap<u64, (usize, Arc<Socket>)>,
    /// Whether the server has ended.
    over: bool,
}

impl Registry {
    /// A client came. The number of the one that has to go for it, if there are too many.
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

    /// Admits a client that has shaken hands to its export, unless that has all clients that it
    /// may have.
    pub(crate) fn promote(&self, number: u64, export: usize) -> bool {
        let mut state = self.lock();
        let Some((_, stream)) = state.shaking.remove(&number) else { return false };
        let others = state.served.values().filter(|(of, _)| *of == export).count();
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

    /// Ends one or both directions of every connection.
    pub(crate) fn shut(&self, how: Shutdown) {
        let state = self.lock();
        let shaking = state.shaking.values().map(|(_, stream)| stream);
        shaking
            .chain(state.served.values().map(|(_, stream)| stream))
            .for_each(|stream| end(stream, how));
    }

    /// Waits until all connections are gone, but not longer than `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let some = |state: &mut State| !state.shaking.is_empty() || !state.served.is_empty();
        let waited = self.changed.wait_timeout_while(self.lock(), time, some);
        drop(waited.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    /// Nobody comes any more: [`Registry::watch`] ends.
    pub(crate) fn close(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Ends the handshakes that take longer than `most`, and calls `late` with the number of each,
    /// until the registry is closed.
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

/// A client that is already gone needs no shutdown.
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
    fn the_oldest_stranger_makes_room_and_who_is_served_stays() {
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
    fn a_handshake_ends_in_time_though_nobody_else_comes() {
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

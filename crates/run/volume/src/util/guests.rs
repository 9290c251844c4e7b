//! Connections whose clients have not sent a request yet.
//!
//! Invariant: their number never exceeds the limit of the owner, because a new connection displaces
//! the oldest. An idle client thus never keeps others out.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

use crate::util::lock;

use rustix::net::{Shutdown, shutdown};

/// Bounded set of connections without a request.
#[derive(Debug)]
pub(crate) struct Guests {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Duplicates of the sockets, by ascending numbers.
    all: BTreeMap<u64, OwnedFd>,
    next: u64,
}

/// Entry of a connection, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    guests: &'a Guests,
    number: u64,
}

impl Guests {
    /// Creates a set for `most` connections.
    pub(crate) fn new(most: usize) -> Self {
        Guests { most, state: Mutex::default() }
    }

    /// Adds a connection by a duplicate of its socket. If the set is full, the oldest one is shut
    /// down.
    pub(crate) fn enter(&self, socket: OwnedFd) -> Guest<'_> {
        let mut state = self.lock();
        if state.all.len() >= self.most {
            // Its thread notices the end of the stream and leaves by itself.
            state.all.pop_first().iter().for_each(|(_, oldest)| shut(oldest));
        }
        let number = state.next;
        state.next += 1;
        state.all.insert(number, socket);
        Guest { guests: self, number }
    }

    /// Shuts down all connections.
    pub(crate) fn turn_out(&self) {
        self.lock().all.values().for_each(shut);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.guests.lock().all.remove(&self.number);
    }
}

/// Shuts a socket down. An error means that the client has disconnected.
fn shut(socket: &OwnedFd) {
    shutdown(socket, Shutdown::Both).ok();
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_oldest_guest_is_evicted() {
        let guests = Guests::new(2);
        let pair = || UnixStream::pair().expect("a pair of sockets");
        let (first, mut first_peer) = pair();
        let (second, mut second_peer) = pair();
        let first = guests.enter(first.into());
        let second = guests.enter(second.into());
        let third = guests.enter(pair().0.into());
        assert_eq!(first_peer.read(&mut [0]).expect("it was shut down"), 0);
        second_peer.set_nonblocking(true).expect("it is a socket");
        assert!(second_peer.read(&mut [0]).is_err(), "it is still there");
        drop((first, third));
        guests.enter(pair().0.into());
        assert!(second_peer.read(&mut [0]).is_err(), "there was room");
        drop(second);
    }
}

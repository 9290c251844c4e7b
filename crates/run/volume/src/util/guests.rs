//! Connections whose clients have not sent a request yet.
//!
//! Invariant: there are at most as many as the owner allows, because the oldest makes room for the
//! newest. A silent client thus keeps no other out.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{Shutdown, shutdown};

/// See the module text.
#[derive(Debug)]
pub struct Guests {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The sockets once more, by numbers that grow.
    all: BTreeMap<u64, OwnedFd>,
    next: u64,
}

/// A place among the guests, given up when it is dropped.
#[derive(Debug)]
pub struct Guest<'a> {
    guests: &'a Guests,
    number: u64,
}

impl Guests {
    /// Room for `most` guests.
    pub fn new(most: usize) -> Self {
        Guests { most, state: Mutex::default() }
    }

    /// Takes in a connection by a copy of its socket. The oldest one is shut down when there are
    /// too many.
    pub fn enter(&self, socket: OwnedFd) -> Guest<'_> {
        let mut state = self.lock();
        if state.all.len() >= self.most {
            state.all.pop_first().iter().for_each(|(_, oldest)| shut(oldest));
        }
        let number = state.next;
        state.next += 1;
        state.all.insert(number, socket);
        Guest { guests: self, number }
    }

    /// Shuts all of them down.
    pub fn turn_out(&self) {
        self.lock().all.values().for_each(shut);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.guests.lock().all.remove(&self.number);
    }
}

/// A client that has gone needs no shutdown.
fn shut(socket: &OwnedFd) {
    shutdown(socket, Shutdown::Both).ok();
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_oldest_guest_makes_room_for_the_newest() {
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

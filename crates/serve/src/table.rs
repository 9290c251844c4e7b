//! The requests of one connection that are in flight, and the window that bounds them.
//!
//! Invariants
//! - A slot is free, or it belongs to one request from [`Table::enter`] to [`Table::leave`].
//! - A request is finished by its last part, once; the first error of its parts is its error.
//! - At most [`MAX_REQUESTS`] requests and [`MAX_HELD`] bytes are in the table; a single longer
//!   request enters only an empty table, so that the writer is there to take its parts.

use std::sync::{Condvar, Mutex, MutexGuard};

use hostftl_core::{HostError, SECTOR};
use hostftl_nbd_proto::{Errno, SIMPLE_REPLY_BYTES, SimpleReply};
use hostftl_volume::front::{Answer, Buffer};

/// The most requests of one connection in flight.
pub(crate) const MAX_REQUESTS: usize = 128;
/// The most payload that one connection holds, in bytes.
pub(crate) const MAX_HELD: u64 = 4 << 20;

/// See the module text.
#[derive(Debug)]
pub(crate) struct Table {
    state: Mutex<State>,
    room: Condvar,
}

/// The slots, locked.
#[derive(Debug)]
pub(crate) struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    held: u64,
}

/// A request that wants into the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The client's name for it.
    pub(crate) cookie: u64,
    /// Whether its reply carries payload.
    pub(crate) read: bool,
    /// Its payload in bytes, whichever way it goes.
    pub(crate) bytes: u32,
    /// How many answers it waits for.
    pub(crate) parts: u32,
    /// An error that it already has.
    pub(crate) error: Option<Errno>,
}

#[derive(Debug)]
struct Slot {
    entry: Entry,
    body: Body,
}

/// The payload of a reply.
#[derive(Debug)]
pub(crate) enum Body {
    /// None.
    Nothing,
    /// A buffer of the volume, as the volume filled it.
    Lent(Buffer),
    /// Collected from the parts of a long read, so that their buffers are free again at once.
    Joined(Vec<u8>),
}

impl Body {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Body::Nothing => &[],
            Body::Lent(buffer) => buffer,
            Body::Joined(bytes) => bytes,
        }
    }
}

/// A request whose reply can go out.
#[derive(Debug)]
pub(crate) struct Finished {
    slot: u32,
    held: u32,
    /// The reply.
    pub(crate) head: [u8; SIMPLE_REPLY_BYTES],
    /// What follows it.
    pub(crate) body: Body,
}

/// The name of a part for the volume: its slot, and where in the request it begins.
pub(crate) fn part_cookie(slot: u32, begin: u64) -> u64 {
    u64::from(slot) | (begin / SECTOR as u64) << 32
}

impl Table {
    pub(crate) fn new() -> Self {
        let free = (0..MAX_REQUESTS as u32).rev().collect();
        let idle = Entry { cookie: 0, read: false, bytes: 0, parts: 0, error: None };
        let slot = || Slot { entry: idle, body: Body::Nothing };
        let slots = std::iter::repeat_with(slot).take(MAX_REQUESTS).collect();
        let state = Mutex::new(State { slots, free, held: 0 });
        Table { state, room: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of a connection panics with the table in its hands")
    }

    /// Waits until the window has room and gives the request a slot.
    pub(crate) fn enter(&self, entry: Entry) -> u32 {
        assert!(entry.parts > 0, "a request without parts is never finished");
        let bytes = u64::from(entry.bytes);
        let full = |state: &mut State| {
            state.free.is_empty() || (state.held > 0 && state.held + bytes > MAX_HELD)
        };
        let mut state = self.room.wait_while(self.lock(), full).expect("see lock");
        let slot = state.free.pop().expect("there is room");
        state.held += bytes;
        let joined = entry.read && entry.parts > 1;
        let body = if joined { Body::Joined(vec![0; entry.bytes as usize]) } else { Body::Nothing };
        state.slots[slot as usize] = Slot { entry, body };
        slot
    }

    /// Frees the slots of requests whose replies are out, and their buffers.
    pub(crate) fn leave(&self, finished: &mut Vec<Finished>) {
        let mut state = self.lock();
        for Finished { slot, held, .. } in finished.drain(..) {
            state.free.push(slot);
            state.held -= u64::from(held);
        }
        drop(state);
        self.room.notify_one();
    }
}

impl State {
    /// Takes the answer to a part in; the request, when it was the last one.
    pub(crate) fn settle(&mut self, answer: Answer) -> Option<Finished> {
        let index = answer.cookie as u32;
        let Slot { entry, body } = &mut self.slots[index as usize];
        assert!(entry.parts > 0, "an answer to a request that has all its answers");
        entry.parts -= 1;
        let found = answer.result.map_err(errno);
        let failed = found.and_then(|()| keep(answer.cookie, entry, body, answer.data)).err();
        entry.error = entry.error.or(failed);
        if entry.parts > 0 {
            return None;
        }
        let body = std::mem::replace(body, Body::Nothing);
        let body = if entry.error.is_some() { Body::Nothing } else { body };
        let result = entry.error.map_or(Ok(()), Err);
        let head = SimpleReply { cookie: entry.cookie, result }.emit();
        Some(Finished { slot: index, held: entry.bytes, head, body })
    }
}

/// Keeps what a part of a read found. The buffer of anything else goes back to the volume.
fn keep(cookie: u64, entry: &Entry, body: &mut Body, data: Option<Buffer>) -> Result<(), Errno> {
    if !entry.read {
        return Ok(());
    }
    if entry.error.is_some() {
        return Ok(());
    }
    let data = data.ok_or(Errno::Io)?;
    match body {
        Body::Joined(all) => {
            let begin = (cookie >> 32) as usize * SECTOR;
            all[begin..begin + data.len()].copy_from_slice(&data);
        }
        Body::Nothing | Body::Lent(_) => *body = Body::Lent(data),
    }
    Ok(())
}

fn errno(error: HostError) -> Errno {
    match error {
        HostError::Io => Errno::Io,
        HostError::NoSpace => Errno::NoSpace,
        HostError::Range => Errno::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_volume::ram_port;

    const READ: Entry = Entry { cookie: 7, read: true, bytes: 8192, parts: 2, error: None };

    fn part(slot: u32, begin: u64, byte: u8) -> Answer {
        let mut data = ram_port("ram", 8192).buffer(4096);
        data.fill(byte);
        Answer { cookie: part_cookie(slot, begin), result: Ok(()), data: Some(data) }
    }

    #[test]
    fn the_parts_of_a_read_are_joined_in_any_order() {
        let table = Table::new();
        let slot = table.enter(READ);
        assert!(table.lock().settle(part(slot, 4096, 2)).is_none());
        let finished = table.lock().settle(part(slot, 0, 1)).expect("the last part");
        assert_eq!(finished.body.bytes(), [[1; 4096], [2; 4096]].concat());
        let reply = SimpleReply::parse(&finished.head).unwrap();
        assert_eq!(reply, SimpleReply { cookie: 7, result: Ok(()) });
        table.leave(&mut vec![finished]);
        let state = table.lock();
        assert_eq!((state.held, state.free.len()), (0, MAX_REQUESTS));
    }

    #[test]
    fn the_first_error_of_a_part_is_the_error_and_there_is_no_payload() {
        let table = Table::new();
        let slot = table.enter(READ);
        let failed = |result| Answer { cookie: part_cookie(slot, 0), result, data: None };
        assert!(table.lock().settle(failed(Err(HostError::NoSpace))).is_none());
        let finished = table.lock().settle(failed(Err(HostError::Io))).expect("the last part");
        let reply = SimpleReply::parse(&finished.head).unwrap();
        assert_eq!(reply.result, Err(Errno::NoSpace));
        assert!(finished.body.bytes().is_empty());
    }

    #[test]
    fn a_read_without_its_bytes_is_an_error() {
        let table = Table::new();
        let slot = table.enter(Entry { parts: 1, ..READ });
        let answer = Answer { cookie: part_cookie(slot, 0), result: Ok(()), data: None };
        let finished = table.lock().settle(answer).expect("the only part");
        assert_eq!(SimpleReply::parse(&finished.head).unwrap().result, Err(Errno::Io));
    }

    #[test]
    fn the_window_makes_the_next_request_wait() {
        let table = Table::new();
        let half = Entry { bytes: MAX_HELD as u32 / 2 + 512, parts: 1, ..READ };
        let slot = table.enter(half);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| table.enter(half));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!second.is_finished(), "two do not fit");
            let answer = part(slot, 0, 1);
            let finished = table.lock().settle(answer).expect("the only part");
            table.leave(&mut vec![finished]);
            second.join().expect("there is room now");
        });
    }
}

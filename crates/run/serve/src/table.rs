//! Requests of one connection in flight, and the window that bounds them.
//!
//! Invariants
//! - A slot is free, or belongs to one request from [`Table::enter`] to [`Table::leave`].
//! - A request is finished once, by its last part. With structured replies its parts are sent as
//!   they complete. Otherwise they are joined, and the first error of a part fails the request.
//! - The table holds at most [`MAX_REQUESTS`] requests and [`MAX_HELD`] bytes. A single longer
//!   request enters only an empty table, so that the writer is free to send its parts.

use std::sync::{Condvar, Mutex, MutexGuard};

use hostftl_core::SECTOR;
use hostftl_nbd_proto::{Agreement, Errno};
use hostftl_volume::front::{Answer, Buffer};

use crate::budget::{Budget, Grant};
use crate::fault::Fault;
use crate::reply_part::{self, ReplyBody, ReplyHead};

/// Maximum number of requests of one connection in flight.
pub(crate) const MAX_REQUESTS: usize = 128;
/// Maximum payload of one connection in bytes.
pub(crate) const MAX_HELD: u64 = 4 << 20;

/// Table of requests in flight.
#[derive(Debug)]
pub(crate) struct Table {
    agreed: Agreement,
    budget: Budget,
    state: Mutex<State>,
    room: Condvar,
}

/// Contents of the table.
#[derive(Debug)]
pub(crate) struct State {
    agreed: Agreement,
    slots: Vec<Slot>,
    free: Vec<u32>,
    held: u64,
    /// Threads that wait for room. Without any, the system call that wakes them is skipped.
    waiting: u32,
}

/// Kind of reply that a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// Acknowledgement without data.
    Done,
    /// Data of a read, in one chunk or in several.
    Data { one_piece: bool },
    /// Block status: one extent, or all.
    Status { one: bool },
}

/// Request that enters the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Cookie of the client.
    pub(crate) cookie: u64,
    /// Kind of reply.
    pub(crate) kind: ReplyKind,
    /// Start of the range on the export in bytes.
    pub(crate) offset: u64,
    /// Payload in bytes, in either direction.
    pub(crate) bytes: u32,
    /// Number of answers that are still expected.
    pub(crate) parts: u32,
    /// Error that is already known.
    pub(crate) fault: Option<Fault>,
}

#[derive(Debug)]
struct Slot {
    entry: Entry,
    body: ReplyBody,
}

/// Reply or chunk that is ready to be sent.
#[derive(Debug)]
pub(crate) struct ReplyPart {
    /// Slot and held bytes, if this is the last part of its request.
    last: Option<(u32, u32)>,
    /// Header of the reply.
    pub(crate) head: ReplyHead,
    /// Payload after the header.
    pub(crate) body: ReplyBody,
}

/// Returns the cookie of a part for the volume: its slot and its offset within the request, in
/// sectors.
pub(crate) fn part_cookie(slot: u32, begin: u64) -> u64 {
    u64::from(slot) | (begin / SECTOR as u64) << 32
}

impl Table {
    /// Creates a table that joins long reads in memory of `budget`.
    pub(crate) fn new(agreed: Agreement, budget: Budget) -> Self {
        let free = (0..MAX_REQUESTS as u32).rev().collect();
        let idle =
            Entry { cookie: 0, kind: ReplyKind::Done, offset: 0, bytes: 0, parts: 0, fault: None };
        let slot = || Slot { entry: idle, body: ReplyBody::Nothing };
        let slots = std::iter::repeat_with(slot).take(MAX_REQUESTS).collect();
        let state = Mutex::new(State { agreed, slots, free, held: 0, waiting: 0 });
        Table { agreed, budget, state, room: Condvar::new() }
    }

    /// Returns the options that were negotiated.
    pub(crate) fn agreed(&self) -> Agreement {
        self.agreed
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of a connection panics with the table in its hands")
    }

    /// Returns the budget for long reads and slow clients.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Waits until the budget and the window have room, then gives the request a slot.
    pub(crate) fn enter(&self, entry: Entry) -> u32 {
        let joined = joins(self.agreed, &entry);
        let grant = joined.then(|| self.budget.wait_for(entry.bytes));
        let mut state = self.lock();
        while !state.has_room(&entry) {
            state.waiting += 1;
            state = self.room.wait(state).expect("see lock");
            state.waiting -= 1;
        }
        state.admit(entry, grant)
    }

    /// Enters a request like [`Table::enter`], but returns `None` instead of waiting.
    pub(crate) fn try_enter(&self, entry: Entry) -> Option<u32> {
        let grant =
            if joins(self.agreed, &entry) { Some(self.budget.ask_for(entry.bytes)?) } else { None };
        let mut state = self.lock();
        state.has_room(&entry).then(|| state.admit(entry, grant))
    }

    /// Returns whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().free.len() == MAX_REQUESTS
    }

    /// Frees the slots of requests whose replies are sent, and the buffers of all parts.
    pub(crate) fn leave(&self, sent: &mut Vec<ReplyPart>) {
        let mut state = self.lock();
        for (slot, held) in sent.drain(..).filter_map(|part| part.last) {
            state.free.push(slot);
            state.held -= u64::from(held);
        }
        let waited_for = state.waiting > 0;
        drop(state);
        if waited_for {
            self.room.notify_one();
        }
    }
}

impl State {
    fn has_room(&self, entry: &Entry) -> bool {
        let fits = self.held == 0 || self.held + u64::from(entry.bytes) <= MAX_HELD;
        !self.free.is_empty() && fits
    }

    /// Gives a request a slot; `grant` covers the memory for joined parts, if any.
    fn admit(&mut self, entry: Entry, grant: Option<Grant>) -> u32 {
        assert!(entry.parts > 0, "a request without parts is never finished");
        let slot = self.free.pop().expect("there is room");
        self.held += u64::from(entry.bytes);
        let body = match grant {
            Some(grant) => ReplyBody::Granted(grant.hold(vec![0; entry.bytes as usize])),
            None => ReplyBody::Nothing,
        };
        self.slots[slot as usize] = Slot { entry, body };
        slot
    }

    /// Records the answer to a part of a request. Returns the part of the reply that can be sent
    /// now, if any.
    pub(crate) fn settle(&mut self, answer: Answer) -> Option<ReplyPart> {
        let (index, begin) = (answer.cookie as u32, (answer.cookie >> 32) * SECTOR as u64);
        let Slot { entry, body } = &mut self.slots[index as usize];
        assert!(entry.parts > 0, "an answer to a request that has all its answers");
        entry.parts -= 1;
        let done = entry.parts == 0;
        let last = done.then_some((index, entry.bytes));
        let (cookie, offset) = (entry.cookie, entry.offset + begin);
        let found = answer.result.map_err(Fault::from);
        let reads = matches!(entry.kind, ReplyKind::Data { .. }) && entry.fault.is_none();
        if self.agreed.structured && reads && matches!(body, ReplyBody::Nothing) {
            let (head, body) = match found.and_then(|()| payload(answer.data)) {
                Ok(data) => reply_part::data(cookie, done, offset, ReplyBody::Lent(data)),
                Err(fault) => reply_part::error(cookie, done, Some(offset), fault),
            };
            return Some(ReplyPart { last, head, body });
        }
        let kept = found.and_then(|()| if reads { keep(body, begin, answer.data) } else { Ok(()) });
        entry.fault = entry.fault.or(kept.err());
        if !done {
            return None;
        }
        let body = std::mem::replace(body, ReplyBody::Nothing);
        let (head, body) = match (entry.fault, entry.kind) {
            (Some(fault), _) if self.agreed.structured => {
                reply_part::error(cookie, true, None, fault)
            }
            (Some(fault), _) => reply_part::simple(cookie, Some(fault), ReplyBody::Nothing),
            (None, ReplyKind::Data { .. }) if self.agreed.structured => {
                reply_part::data(cookie, true, entry.offset, body)
            }
            (None, ReplyKind::Status { one }) => {
                reply_part::status(cookie, self.agreed.numbers(), &answer.extents, one)
            }
            (None, _) => reply_part::simple(cookie, None, body),
        };
        Some(ReplyPart { last, head, body })
    }
}

/// Returns whether the parts of a read are joined into one reply, given the negotiated options.
fn joins(agreed: Agreement, entry: &Entry) -> bool {
    match entry.kind {
        ReplyKind::Data { one_piece } => entry.parts > 1 && (one_piece || !agreed.structured),
        _ => false,
    }
}

/// Stores the data of a part of a read.
fn keep(body: &mut ReplyBody, begin: u64, data: Option<Buffer>) -> Result<(), Fault> {
    let data = payload(data)?;
    match body {
        ReplyBody::Granted(all) => {
            let begin = begin as usize;
            all.bytes_mut()[begin..begin + data.len()].copy_from_slice(&data);
        }
        ReplyBody::Nothing | ReplyBody::Own(_) | ReplyBody::Lent(_) => {
            *body = ReplyBody::Lent(data)
        }
    }
    Ok(())
}

fn payload(data: Option<Buffer>) -> Result<Buffer, Fault> {
    data.ok_or(Fault::new(Errno::Io, "a device that hangs has the buffer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::HostError;
    use hostftl_nbd_proto::{CHUNK_BYTES, Chunk, ChunkHead, SimpleReply};
    use hostftl_volume::ram_port;

    const KIND: ReplyKind = ReplyKind::Data { one_piece: false };
    const READ: Entry =
        Entry { cookie: 7, kind: KIND, offset: 4096, bytes: 8192, parts: 2, fault: None };

    /// Returns a table for a client without structured replies.
    fn plain() -> Table {
        Table::new(Agreement::default(), Budget::new(1 << 20))
    }

    fn structured() -> Table {
        Table::new(Agreement { structured: true, ..Agreement::default() }, Budget::new(1 << 20))
    }

    fn reply(part: &ReplyPart) -> SimpleReply {
        SimpleReply::parse(part.head.bytes().try_into().unwrap()).unwrap()
    }

    fn part(slot: u32, begin: u64, byte: u8) -> Answer {
        let mut data = ram_port("ram", 8192).buffer(4096);
        data.fill(byte);
        Answer::new(part_cookie(slot, begin), Ok(()), Some(data))
    }

    #[test]
    fn the_parts_of_a_read_are_joined_in_any_order() {
        let table = plain();
        let slot = table.enter(READ);
        assert!(table.lock().settle(part(slot, 4096, 2)).is_none());
        let finished = table.lock().settle(part(slot, 0, 1)).expect("the last part");
        assert_eq!(finished.body.bytes(), [[1; 4096], [2; 4096]].concat());
        assert_eq!(reply(&finished), SimpleReply { cookie: 7, result: Ok(()) });
        table.leave(&mut vec![finished]);
        let state = table.lock();
        assert_eq!((state.held, state.free.len()), (0, MAX_REQUESTS));
    }

    #[test]
    fn the_first_error_of_a_part_is_the_error_and_there_is_no_payload() {
        let table = plain();
        let slot = table.enter(READ);
        let failed = |result| Answer::new(part_cookie(slot, 0), result, None);
        assert!(table.lock().settle(failed(Err(HostError::NoSpace))).is_none());
        let finished = table.lock().settle(failed(Err(HostError::Io))).expect("the last part");
        assert_eq!(reply(&finished).result, Err(Errno::NoSpace));
        assert!(finished.body.bytes().is_empty());
    }

    #[test]
    fn a_read_without_its_bytes_is_an_error() {
        let table = plain();
        let slot = table.enter(Entry { parts: 1, ..READ });
        let answer = Answer::new(part_cookie(slot, 0), Ok(()), None);
        let finished = table.lock().settle(answer).expect("the only part");
        assert_eq!(reply(&finished).result, Err(Errno::Io));
    }

    /// Returns the only chunk of a part of a reply.
    fn chunk(part: &ReplyPart) -> (ChunkHead, Vec<u8>) {
        let all = [part.head.bytes(), part.body.bytes()].concat();
        let (head, content) = all.split_first_chunk::<CHUNK_BYTES>().unwrap();
        (ChunkHead::parse(head).unwrap(), content.to_vec())
    }

    #[test]
    fn parts_are_sent_at_once_to_clients_with_chunks() {
        let table = structured();
        let slot = table.enter(READ);
        let first = table.lock().settle(part(slot, 4096, 2)).expect("at once");
        let (head, content) = chunk(&first);
        assert!(!head.done);
        let second = Chunk::Data { offset: 8192, bytes: &[2; 4096] };
        assert_eq!(Chunk::parse(head.kind, &content), Ok(second));
        let failed = Answer::new(part_cookie(slot, 0), Err(HostError::Io), None);
        let last = table.lock().settle(failed).expect("at once");
        let (head, content) = chunk(&last);
        assert!(head.done);
        let found = Chunk::parse(head.kind, &content).unwrap();
        assert!(
            matches!(found, Chunk::Error { errno: Errno::Io, offset: Some(4096), .. }),
            "{found:?}"
        );
        table.leave(&mut vec![first, last]);
        let state = table.lock();
        assert_eq!((state.held, state.free.len()), (0, MAX_REQUESTS));
    }

    #[test]
    fn an_unfragmented_read_is_one_chunk() {
        let table = structured();
        let slot = table.enter(Entry { kind: ReplyKind::Data { one_piece: true }, ..READ });
        assert!(table.lock().settle(part(slot, 4096, 2)).is_none());
        let whole = table.lock().settle(part(slot, 0, 1)).expect("the last part");
        let (head, content) = chunk(&whole);
        assert!(head.done);
        let bytes = [[1; 4096], [2; 4096]].concat();
        let expected = Chunk::Data { offset: 4096, bytes: &bytes };
        assert_eq!(Chunk::parse(head.kind, &content), Ok(expected));
    }

    #[test]
    fn a_full_window_defers_the_next_request() {
        let table = plain();
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

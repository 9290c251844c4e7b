//! Order of commands to the server, and interpretation of its replies. It accesses sockets only
//! through lines.
//!
//! Invariants
//! - An item waits, or it is in progress: its index is its cookie, and it awaits one reply.
//! - Writes with overlapping ranges are never in progress together, so the server cannot reorder
//!   them.
//! - While writes are repeated after a reconnect, no other item is in flight.
//! - A range that is compared with the server's data ([`check`]) is not written at the same time.

mod check;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hostftl_core::DeviceError;
use hostftl_nbd_proto::flags::SEND_WRITE_ZEROES;
use hostftl_nbd_proto::{Command, Errno, MAX_PAYLOAD, Negotiated, Request};

use self::check::Check;
use super::item::{Item, Origin};
use super::late_writes::LateWrites;
use super::line::{Line, front};
use super::unflushed::{CompletedWrite, FLUSH_AT, FULL_AT, Unflushed};
use crate::transfer::{Call, NO_FILE, Transfer};

/// Maximum number of bytes of one zeroing request.
const MAX_ZEROES: u32 = 1 << 30;
/// Pause after the client's own flush failed.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Flow {
    /// Items that are not sent.
    waiting: VecDeque<Item>,
    /// Items in progress; the index is the cookie.
    pub flying: Vec<Option<Item>>,
    free: Vec<u32>,
    /// Writes that the server completed and did not flush.
    kept: Unflushed,
    late_writes: LateWrites,
    check: Check,
    /// Items that repeat unflushed writes and have not ended.
    again: usize,
    /// Whether the client's own flush is in progress, and the earliest time of the next one.
    flushing: bool,
    flush_from: Instant,
    /// Maximum length of a read or write in bytes.
    longest: u32,
    /// Whether the server supports zeroing requests.
    zeroes: bool,
    timeout: Duration,
    /// Time after a connection began during which late writes may still arrive.
    grace: Duration,
    /// Completed items with their results.
    pub over: Vec<(Item, Result<(), DeviceError>)>,
}

/// Reason to abandon the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DisconnectReason {
    /// The server is shutting down: reconnect.
    Leaving,
    /// The server refuses a write that it completed before.
    Lost,
}

impl Flow {
    pub(super) fn new(export: &Negotiated, timeout: Duration) -> Self {
        let mut flow = Flow {
            waiting: VecDeque::new(),
            flying: Vec::new(),
            free: Vec::new(),
            kept: Unflushed::default(),
            late_writes: LateWrites::default(),
            check: Check::default(),
            again: 0,
            flushing: false,
            flush_from: Instant::now(),
            longest: 0,
            zeroes: false,
            timeout,
            grace: timeout,
            over: Vec::new(),
        };
        flow.learn(export);
        flow
    }

    /// Applies the limits of a new connection.
    pub(super) fn learn(&mut self, export: &Negotiated) {
        let reply = export.block.map_or(MAX_PAYLOAD, |block| block.max);
        // A nonsensical limit is ignored: a server must accept at least a page.
        self.longest = (reply.clamp(4096, MAX_PAYLOAD)) / 4096 * 4096;
        self.zeroes = export.flags & SEND_WRITE_ZEROES != 0;
        self.late_writes.end_at(Instant::now() + self.grace);
    }

    /// Sets the timeout of commands.
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Queues a new command.
    pub(super) fn put(&mut self, transfer: Transfer, origin: Origin) {
        let deadline = Instant::now() + self.timeout;
        self.waiting.push_back(Item::new(transfer, origin, deadline));
    }

    /// Returns whether items wait or are in flight, or a late write is still possible.
    pub(super) fn is_busy(&self) -> bool {
        !self.late_writes.is_empty()
            || !self.waiting.is_empty()
            || self.free.len() < self.flying.len()
    }

    /// Sends all items that may start, distributed over the lines.
    pub(super) fn start(&mut self, lines: &mut [Line]) {
        // Bounds the memory for unflushed writes if the driver flushes rarely.
        if self.kept.cost() > FLUSH_AT && !self.flushing && self.flush_from <= Instant::now() {
            self.flushing = true;
            let (flush, deadline) = (Transfer::sync(0, NO_FILE), Instant::now() + self.timeout);
            self.waiting.push_front(Item::new(flush, Origin::Flush, deadline));
        }
        self.begin_check();
        while let Some(item) = self.waiting.front() {
            if !self.may_start(item) {
                return;
            }
            let place = self.free.pop().unwrap_or_else(|| {
                self.flying.push(None);
                self.flying.len() as u32 - 1
            });
            let mut item = self.waiting.pop_front();
            if let Some(item) = item.as_mut().filter(|item| item.is_again()) {
                // The item may have waited longer than the timeout, but the server gets the full
                // time for its reply.
                item.deadline = Instant::now() + self.timeout;
            }
            self.flying[place as usize] = item;
            self.ask(place, lines);
        }
    }

    fn may_start(&self, item: &Item) -> bool {
        let first = item.is_again() || self.again == 0;
        let (offset, len) = item.transfer.range();
        let full =
            || self.kept.cost() >= FULL_AT || !item.flew && self.late_writes.is_full(offset, len);
        // Repeated writes and those of a check take no additional memory, so they never wait for
        // space.
        let room = item.is_again() || item.is_check() || !item.writes() || !full();
        let collides = || self.flying.iter().flatten().any(|other| item.collides(other));
        first && room && !collides()
    }

    /// Sends the request for the next part of the item at `place`.
    fn ask(&mut self, place: u32, lines: &mut [Line]) {
        let item = self.flying[place as usize].as_mut().expect("it flies");
        if matches!(item.transfer.call(), Call::Allocate(_)) && !self.zeroes {
            item.transfer.write_zeros();
        }
        let (offset, left) = item.transfer.range();
        let (command, longest) = match item.transfer.call() {
            Call::Read => (Command::Read, self.longest),
            Call::Write => (Command::Write, self.longest),
            Call::Sync => (Command::Flush, 0),
            Call::Allocate(_) => (Command::WriteZeroes, MAX_ZEROES),
        };
        // A reset that is executed as a write provides its zeros piece by piece.
        let there = item.transfer.pieces().iter().map(|piece| piece.iov_len as u64).sum::<u64>();
        let most = if command == Command::Write { there } else { left };
        item.part = left.min(most).min(longest.into()) as u32;
        // A flush covers only writes that were completed before it was sent.
        item.covers = self.kept.next();
        let line = place as usize % lines.len();
        item.awaits = Some(line);
        let (cookie, length) = (place.into(), item.part);
        lines[line].push(&Request { flags: 0, command, cookie, offset, length }, item);
    }

    /// Processes the reply to the request of the item at `cookie`.
    pub(super) fn answer(
        &mut self,
        cookie: u64,
        reply: Result<(), Errno>,
        lines: &mut [Line],
    ) -> Result<(), DisconnectReason> {
        let place = cookie as u32;
        let item = self.flying[place as usize]
            .as_mut()
            .expect("the answer belongs to a command in flight");
        let again = item.is_again();
        match reply {
            Err(Errno::Shutdown) => return Err(DisconnectReason::Leaving),
            Ok(()) if item.writes() => {
                let kept = copy(item);
                self.late_writes.note(&kept);
                if !again && !item.is_check() {
                    self.kept.push(kept);
                }
            }
            Ok(()) if item.transfer.call() == Call::Read && !item.is_check() => {
                lay_over(&self.late_writes, item);
            }
            Ok(()) if item.transfer.call() == Call::Sync => self.kept.flushed(item.covers),
            _ => {}
        }
        let part = u64::from(item.part);
        let outcome = match (reply, item.transfer.call()) {
            (Err(errno), _) => item.transfer.absorb(-(errno.code().min(4095) as i32)),
            (Ok(()), Call::Allocate(_)) => item.transfer.zeroed(part).then_some(Ok(())),
            (Ok(()), _) => item.transfer.absorb(part as i32),
        };
        match outcome {
            // The layer got the acknowledgement of this write, so its loss cannot be reported as an
            // error now.
            Some(Err(_)) if again => return Err(DisconnectReason::Lost),
            None => self.ask(place, lines),
            Some(result) => {
                let item = self.flying[place as usize].take().expect("the entry exists");
                self.free.push(place);
                self.end(item, result);
            }
        }
        Ok(())
    }

    /// Ends an item.
    fn end(&mut self, item: Item, result: Result<(), DeviceError>) {
        match item.origin {
            Origin::Driver | Origin::Caller(_) => {
                let flushed = item.transfer.call() == Call::Sync && result.is_ok();
                // A late write may have overwritten newer data, so the flush ends only after a
                // check.
                if flushed && self.late_writes.is_unchecked() {
                    self.check.hold(item);
                } else {
                    self.over.push((item, result));
                }
            }
            Origin::Flush => {
                self.flushing = false;
                if result.is_err() {
                    self.flush_from = Instant::now() + PAUSE;
                }
            }
            Origin::Again(kept) => {
                self.again -= 1;
                self.kept.push(kept);
            }
            Origin::Check(bytes) => self.compare_range(item.transfer.range().0, &bytes, result),
            Origin::Repair(_) => self.repaired(result),
            Origin::Seal => self.sealed(result),
        }
    }

    /// Returns all items to the queue after the connection is lost. Unflushed writes come first.
    /// The lines of the connection are already dropped.
    pub(super) fn land(&mut self) {
        let mut back: Vec<Item> = self.flying.drain(..).flatten().collect();
        self.free.clear();
        for item in &mut back {
            if item.writes() {
                // The server may have received the write and may execute it at any later time.
                self.late_writes.add(item.transfer.range().0, item.part.into());
            }
            item.flew = true;
        }
        self.late_writes.doubt();
        back.extend(self.check.stop());
        back.extend(self.waiting.drain(..));
        back.retain(|item| !item.is_check());
        let (again, others): (Vec<_>, Vec<_>) = back.into_iter().partition(Item::is_again);
        let mut all = self.kept.take();
        all.extend(again.into_iter().filter_map(|item| match item.origin {
            Origin::Again(kept) => Some(kept),
            _ => None,
        }));
        self.again = all.len();
        let (deadline, repeat) = (Instant::now() + self.timeout, |kept: CompletedWrite| {
            (kept.transfer(), Origin::Again(kept))
        });
        let item = |(transfer, origin)| Item::new(transfer, origin, deadline);
        self.waiting.extend(all.into_iter().map(repeat).map(item));
        self.waiting.extend(others.into_iter().map(|item| Item { awaits: None, ..item }));
    }

    /// Returns whether an item in flight has exceeded its deadline.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.flying.iter().flatten().any(|item| item.deadline <= now)
    }

    /// Fails waiting items that are late, or all of them. Repeated writes stay, because their data
    /// exists only here.
    pub(super) fn fail_waiting(&mut self, late: Option<Instant>, error: DeviceError) {
        let fails = |item: &Item| !item.is_again() && late.is_none_or(|now| item.deadline <= now);
        let (failed, stay): (Vec<_>, _) = self.waiting.drain(..).partition(fails);
        self.waiting = stay.into_iter().collect();
        failed.into_iter().for_each(|item| self.end(item, Err(error)));
        let held = self.check.take_late(late);
        self.over.extend(held.map(|item| (item, Err(error))));
    }
}

/// Corrects the part of an item that was just read, if late writes may have changed it.
fn lay_over(late_writes: &LateWrites, item: &Item) {
    if late_writes.is_empty() {
        return;
    }
    let mut offset = item.transfer.range().0;
    for piece in front(item) {
        // SAFETY: the item keeps its memory, and its line has finished filling it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(piece.iov_base.cast(), piece.iov_len) };
        late_writes.lay_over(offset, bytes);
        offset += bytes.len() as u64;
    }
}

/// Copies the part of an item that was just written.
fn copy(item: &Item) -> CompletedWrite {
    let (offset, len) = (item.transfer.range().0, u64::from(item.part));
    if matches!(item.transfer.call(), Call::Allocate(_)) {
        return CompletedWrite::Zeros { offset, len };
    }
    let mut bytes = Vec::with_capacity(item.part as usize);
    for piece in front(item) {
        // SAFETY: the item keeps its memory, which is not written while the item is in flight.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(piece.iov_base.cast(), piece.iov_len)
        });
    }
    CompletedWrite::Bytes { offset, bytes: bytes.into() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread::sleep;

    use super::super::link::{Socket, Stream};
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri is late itself")]
    fn resent_requests_get_a_new_deadline() {
        let export =
            Negotiated { flags: SEND_WRITE_ZEROES, bytes: 1 << 20, ..Negotiated::default() };
        let timeout = Duration::from_millis(20);
        let mut flow = Flow::new(&export, timeout);
        flow.kept.push(CompletedWrite::Zeros { offset: 0, len: 512 });
        flow.land();
        sleep(2 * timeout);
        let (ours, _theirs) = UnixStream::pair().expect("a pair of sockets");
        flow.start(&mut [Line::new(0, Stream::plain(Socket::Unix(ours)))]);
        let begun = Instant::now();
        assert!(flow.flying[0].is_some(), "it was sent");
        assert!(!flow.is_late(begun), "the server has its time from then on");
        assert!(flow.is_late(begun + timeout), "and no more");
    }
}

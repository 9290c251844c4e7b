//! Sending side of a connection. Replies are sent by the thread that completes a request.
//!
//! Invariants
//! - One thread sends at a time. A thread that finds another one sending may leave: the sender
//!   checks for new answers afterwards.
//! - Only the connection's writer thread waits for the client. Replies that the socket does not
//!   take at once are left to it.
//! - A request leaves the table only when its reply has been sent.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use hostftl_volume::front::{Answer, Answers};

use crate::channel::{NonBlocking, Socket};
use crate::table::{ReplyPart, Table};
use crate::tls::is_slow;

/// Maximum number of replies in one system call.
pub(crate) const BATCH: usize = 32;
/// Size in bytes at which a batch takes no more replies.
const BATCH_BYTES: usize = 1 << 20;

/// Queue of answers and the state of sending.
pub(crate) struct Outlet {
    pub(crate) table: Table,
    /// The socket, if any thread may send replies.
    direct: Option<Arc<Socket>>,
    answers: Mutex<Vec<Answer>>,
    sending: Mutex<Sending>,
    /// Whether the writer has work.
    busy: AtomicBool,
    /// Whether no more requests will come.
    closed: AtomicBool,
    writer: Condvar,
}

/// Batch of replies that is being sent.
#[derive(Default)]
pub(crate) struct Sending {
    pub(crate) batch: Vec<ReplyPart>,
    /// Bytes of the batch that are sent.
    sent: usize,
    /// The client has disconnected.
    broken: bool,
}

impl Sending {
    /// Returns the number of sent bytes of the batch.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }
}

impl Outlet {
    /// Creates an outlet. With `direct`, any thread sends and the writer only sends the rest;
    /// without it, the writer sends everything.
    pub(crate) fn new(table: Table, direct: Option<Arc<Socket>>) -> Self {
        Outlet {
            table,
            direct,
            answers: Mutex::default(),
            sending: Mutex::default(),
            busy: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            writer: Condvar::new(),
        }
    }

    /// Declares that no more requests will come.
    pub(crate) fn close(&self) {
        self.closed.store(true, SeqCst);
        self.call_writer();
    }

    /// Waits until the writer has work. Returns false when there will be none any more.
    pub(crate) fn wait(&self) -> bool {
        let mut answers = lock(&self.answers);
        loop {
            if self.busy.swap(false, SeqCst) {
                return true;
            }
            if self.closed.load(SeqCst) && answers.is_empty() && self.table.is_idle() {
                return false;
            }
            answers = self.writer.wait(answers).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn call_writer(&self) {
        // The writer checks its conditions with this lock held before it waits. Taking the lock
        // here prevents a wake-up between its check and its wait from being missed.
        drop(lock(&self.answers));
        self.writer.notify_all();
    }

    /// Acquires the right to send.
    pub(crate) fn sending(&self) -> MutexGuard<'_, Sending> {
        lock(&self.sending)
    }

    /// Settles answers into the batch and returns whether there is something to send. With `all`
    /// the batch may exceed its limits.
    pub(crate) fn collect(&self, sending: &mut Sending, all: bool) -> bool {
        let mut answers = lock(&self.answers);
        let mut state = self.table.lock();
        let mut bytes: usize = sending.batch.iter().map(|part| part.body.bytes().len()).sum();
        let mut taken = 0;
        while taken < answers.len() {
            if !all && (sending.batch.len() >= BATCH || bytes >= BATCH_BYTES) {
                break;
            }
            taken += 1;
            let empty = Answer::new(0, Ok(()), None);
            if let Some(part) = state.settle(std::mem::replace(&mut answers[taken - 1], empty)) {
                bytes += part.body.bytes().len();
                sending.batch.push(part);
            }
        }
        answers.drain(..taken);
        !sending.batch.is_empty()
    }

    /// Sends the batch to `out`, which reports when it takes nothing at the moment.
    pub(crate) fn send(&self, sending: &mut Sending, mut out: impl Write) -> io::Result<()> {
        loop {
            let mut slices = [IoSlice::new(&[]); 2 * BATCH];
            let used = fill(&mut slices, &sending.batch, sending.sent);
            if used == 0 {
                out.flush()?;
                sending.sent = 0;
                return Ok(());
            }
            match out.write_vectored(&slices[..used]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(some) => sending.sent += some,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Frees the resources of the batch, after it was sent or the client has disconnected.
    pub(crate) fn leave(&self, sending: &mut Sending) {
        sending.sent = 0;
        self.table.leave(&mut sending.batch);
        if self.closed.load(SeqCst) {
            self.call_writer();
        }
    }

    /// Marks the connection as broken. The socket is shut down in both directions, so that the
    /// reader ends too.
    pub(crate) fn break_connection(&self, sending: &mut Sending, socket: &Socket) {
        sending.broken = true;
        // The socket may be closed already; the error does not matter.
        socket.shutdown(Shutdown::Both).ok();
        self.leave(sending);
    }

    /// Returns whether the client has disconnected.
    pub(crate) fn is_broken(sending: &Sending) -> bool {
        sending.broken
    }

    /// Sends as much as possible without waiting. Returns false when the writer has to continue.
    fn send_now(&self, sending: &mut Sending, socket: &Socket) -> bool {
        while !sending.batch.is_empty() || self.collect(sending, false) {
            let result =
                if sending.broken { Ok(()) } else { self.send(sending, NonBlocking(socket)) };
            match result {
                Ok(()) => self.leave(sending),
                Err(error) if is_slow(&error) => return false,
                Err(_) => self.break_connection(sending, socket),
            }
        }
        true
    }
}

impl Answers for Outlet {
    fn take(&self, answer: Answer) {
        lock(&self.answers).push(answer);
    }

    fn flush(&self) {
        let Some(socket) = &self.direct else {
            self.busy.store(true, SeqCst);
            return self.call_writer();
        };
        while !lock(&self.answers).is_empty() {
            // The thread that holds the lock checks the answers again after releasing it.
            let Ok(mut sending) = self.sending.try_lock() else { return };
            // The writer has to finish a batch first, and sends these answers afterwards.
            if self.busy.load(SeqCst) {
                return;
            }
            if !self.send_now(&mut sending, socket) {
                self.busy.store(true, SeqCst);
                return self.call_writer();
            }
        }
    }
}

/// Fills `slices` with the batch after its first `sent` bytes; returns the number of slices used.
fn fill<'a>(slices: &mut [IoSlice<'a>], batch: &'a [ReplyPart], mut sent: usize) -> usize {
    let mut used = 0;
    for bytes in batch.iter().flat_map(|part| [part.head.bytes(), part.body.bytes()]) {
        let rest = &bytes[sent.min(bytes.len())..];
        sent -= bytes.len() - rest.len();
        if !rest.is_empty() && used < slices.len() {
            slices[used] = IoSlice::new(rest);
            used += 1;
        }
    }
    used
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

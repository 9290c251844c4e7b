//! Where the answers for one client come together and go out, from whichever thread has them.
//!
//! Invariants
//! - One thread at a time sends. Who finds another sending may go: that one looks for answers again
//!   afterwards.
//! - Nobody but the connection's own writer waits for the client: what the socket does not take at
//!   once is left to it.
//! - A request leaves the table only when its reply is out.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use hostftl_volume::front::{Answer, Answers};

use crate::channel::{AtOnce, Socket};
use crate::table::{Piece, Table};
use crate::tls::is_slow;

/// The most replies that are collected for one system call.
pub(crate) const BATCH: usize = 32;
/// No reply is added to a batch of so many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// See the module text.
pub(crate) struct Outlet {
    pub(crate) table: Table,
    /// The socket, if replies may go out from any thread.
    direct: Option<Arc<Socket>>,
    answers: Mutex<Vec<Answer>>,
    sending: Mutex<Sending>,
    /// Whether the writer has something to do.
    busy: AtomicBool,
    /// Whether no request comes any more.
    closed: AtomicBool,
    writer: Condvar,
}

/// What is on its way out.
#[derive(Default)]
pub(crate) struct Sending {
    pub(crate) batch: Vec<Piece>,
    /// The bytes of the batch that are out.
    sent: usize,
    /// The client is gone.
    broken: bool,
}

impl Sending {
    /// The bytes of the batch that are out.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }
}

impl Outlet {
    /// An outlet whose writer sends everything, or without a socket of its own only what waits.
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

    /// No request comes any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, SeqCst);
        self.call_writer();
    }

    /// Waits until the writer has something to do; false when there will be nothing any more.
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
        // It looks before it waits, with this lock in its hands.
        drop(lock(&self.answers));
        self.writer.notify_all();
    }

    /// The right to send.
    pub(crate) fn sending(&self) -> MutexGuard<'_, Sending> {
        lock(&self.sending)
    }

    /// Settles answers; whether there is something to send. With `all` the batch may be long.
    pub(crate) fn collect(&self, sending: &mut Sending, all: bool) -> bool {
        let mut answers = lock(&self.answers);
        let mut state = self.table.lock();
        let mut bytes: usize = sending.batch.iter().map(|piece| piece.body.bytes().len()).sum();
        let mut taken = 0;
        while taken < answers.len() {
            if !all && (sending.batch.len() >= BATCH || bytes >= BATCH_BYTES) {
                break;
            }
            taken += 1;
            let empty = Answer::new(0, Ok(()), None);
            if let Some(piece) = state.settle(std::mem::replace(&mut answers[taken - 1], empty)) {
                bytes += piece.body.bytes().len();
                sending.batch.push(piece);
            }
        }
        answers.drain(..taken);
        !sending.batch.is_empty()
    }

    /// Sends the batch to `out`, which says when it takes nothing now.
    ///
    /// # Errors
    /// When the client is slow, see [`is_slow`], or gone.
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

    /// Frees what the batch held; it is out, or the client is gone.
    pub(crate) fn leave(&self, sending: &mut Sending) {
        sending.sent = 0;
        self.table.leave(&mut sending.batch);
        if self.closed.load(SeqCst) {
            self.call_writer();
        }
    }

    /// The client does not hear any more, so it shall not ask for more either.
    pub(crate) fn give_up(&self, sending: &mut Sending, socket: &Socket) {
        sending.broken = true;
        // A socket that is gone already needs no shutdown.
        socket.shutdown(Shutdown::Both).ok();
        self.leave(sending);
    }

    /// Whether the client is gone.
    pub(crate) fn is_broken(sending: &Sending) -> bool {
        sending.broken
    }

    /// Sends what there is without waiting; false when the writer has to go on.
    fn send_now(&self, sending: &mut Sending, socket: &Socket) -> bool {
        while !sending.batch.is_empty() || self.collect(sending, false) {
            let result = if sending.broken { Ok(()) } else { self.send(sending, AtOnce(socket)) };
            match result {
                Ok(()) => self.leave(sending),
                Err(error) if is_slow(&error) => return false,
                Err(_) => self.give_up(sending, socket),
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
            let Ok(mut sending) = self.sending.try_lock() else { return };
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

/// Points `slices` at what follows the first `sent` bytes of a batch; how many it took.
fn fill<'a>(slices: &mut [IoSlice<'a>], batch: &'a [Piece], mut sent: usize) -> usize {
    let mut used = 0;
    for bytes in batch.iter().flat_map(|piece| [piece.head.bytes(), piece.body.bytes()]) {
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

//! Takes the volume's answers and sends replies to one client, several with one system call.
//!
//! Invariants
//! - Every answer is settled, also when the client is gone, so that all buffers come back.
//! - A request leaves the table only when its reply is out: a client that does not read holds no
//!   more than its window, and none of the volume's buffers for longer than [`PATIENCE`].

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::Shutdown;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use hostftl_volume::front::Answer;

use crate::channel::Channel;
use crate::table::{Piece, Table};
use crate::tls::is_slow;

/// The most replies that are collected for one system call.
const BATCH: usize = 32;
/// No reply is added to a batch of so many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// How long a client may take to read before its replies are moved out of the volume's buffers.
const PATIENCE: Duration = Duration::from_millis(50);

/// Sends replies until the last part in flight is answered and the reader is gone.
pub(crate) fn run(channel: Channel<'_>, table: &Table, answers: &Receiver<Answer>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut broken = channel.socket().set_write_timeout(Some(PATIENCE)).is_err();
    while let Ok(first) = answers.recv() {
        collect(table, first, answers, &mut batch);
        if !broken && send(channel, table, answers, &mut batch).is_err() {
            broken = true;
            // Nobody hears the replies, so the reader shall not take more requests.
            channel.socket().shutdown(Shutdown::Both).ok();
        }
        table.leave(&mut batch);
    }
}

/// Settles `first` and what else is there.
fn collect(table: &Table, first: Answer, answers: &Receiver<Answer>, batch: &mut Vec<Piece>) {
    let mut state = table.lock();
    let mut bytes = 0;
    let mut next = Some(first);
    while let Some(answer) = next {
        if let Some(piece) = state.settle(answer) {
            bytes += piece.body.bytes().len();
            batch.push(piece);
        }
        let room = batch.len() < BATCH && bytes < BATCH_BYTES;
        next = if room { answers.try_recv().ok() } else { None };
    }
}

/// Sends a batch, and what is answered meanwhile when the client is slow.
fn send(
    mut channel: Channel<'_>,
    table: &Table,
    answers: &Receiver<Answer>,
    batch: &mut Vec<Piece>,
) -> io::Result<()> {
    let (mut sent, begun) = (0, Instant::now());
    loop {
        let mut slices = [IoSlice::new(&[]); 2 * BATCH];
        let used = fill(&mut slices, batch, sent);
        let step = match used {
            0 => channel.flush().map(|()| 0),
            _ => channel.write_vectored(&slices[..used]),
        };
        match step {
            Ok(0) if used == 0 => return Ok(()),
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(some) => sent += some,
            Err(error) if error.kind() == ErrorKind::Interrupted || is_slow(&error) => {}
            Err(error) => return Err(error),
        }
        if begun.elapsed() >= PATIENCE {
            free_buffers(table, answers, batch);
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

/// Gives the volume all its buffers back, so that nobody else waits for a client that is slow.
fn free_buffers(table: &Table, answers: &Receiver<Answer>, batch: &mut Vec<Piece>) {
    let mut state = table.lock();
    batch.extend(answers.try_iter().filter_map(|answer| state.settle(answer)));
    drop(state);
    batch.iter_mut().for_each(|piece| piece.body.keep_own());
}

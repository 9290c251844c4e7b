//! Takes the volume's answers and sends replies to one client, several with one system call.
//!
//! Invariants
//! - Every answer is settled, also when the client is gone, so that all buffers come back.
//! - A request leaves the table only when its reply is out: a client that does not read holds no
//!   more than its window.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;

use hostftl_volume::front::Answer;

use crate::table::{Finished, Table};

/// The most replies in one system call.
const BATCH: usize = 32;
/// No reply is added to a batch of so many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// Sends replies until the last part in flight is answered and the reader is gone.
pub(crate) fn run(stream: &UnixStream, table: &Table, answers: &Receiver<Answer>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut broken = false;
    while let Ok(first) = answers.recv() {
        collect(table, first, answers, &mut batch);
        if !broken && send(stream, &batch).is_err() {
            broken = true;
            // Nobody hears the replies, so the reader shall not take more requests.
            stream.shutdown(Shutdown::Both).ok();
        }
        table.leave(&mut batch);
    }
}

/// Settles `first` and what else is there.
fn collect(table: &Table, first: Answer, answers: &Receiver<Answer>, batch: &mut Vec<Finished>) {
    let mut state = table.lock();
    let mut bytes = 0;
    let mut next = Some(first);
    while let Some(answer) = next {
        if let Some(finished) = state.settle(answer) {
            bytes += finished.body.bytes().len();
            batch.push(finished);
        }
        let room = batch.len() < BATCH && bytes < BATCH_BYTES;
        next = if room { answers.try_recv().ok() } else { None };
    }
}

fn send(stream: &UnixStream, batch: &[Finished]) -> io::Result<()> {
    let mut slices = [IoSlice::new(&[]); 2 * BATCH];
    let mut used = 0;
    for finished in batch {
        for bytes in [&finished.head, finished.body.bytes()] {
            if !bytes.is_empty() {
                slices[used] = IoSlice::new(bytes);
                used += 1;
            }
        }
    }
    write_all(stream, &mut slices[..used])
}

fn write_all(mut stream: &UnixStream, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match stream.write_vectored(slices) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

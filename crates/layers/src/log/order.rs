//! The order of rows: their numbers, and how far they are written and durable.

use alloc::collections::VecDeque;

use super::write_out::WINDOW;

/// A row that has its number.
#[derive(Clone, Copy, Debug)]
struct Sealed {
    seq: u64,
    stamp: u64,
    of_host: bool,
    written: bool,
}

/// Numbers of rows, and how far they are written and durable.
#[derive(Debug)]
pub struct Order {
    /// The number of the next row.
    pub next: u64,
    /// All rows up to this one are written.
    pub settled: u64,
    /// All rows up to this one are durable.
    pub durable: u64,
    /// Rows that are sealed and not durable.
    list: VecDeque<Sealed>,
    /// What the flush under way will make durable, and how many devices have yet to answer.
    pub flushing: Option<(u64, u8)>,
    /// Up to where all rows are closed that a flush or a root waits for.
    pub closed: (u64, u64),
    /// What was settled and sealed, how many rows may wait, and up to where somebody does, when no
    /// flush was due.
    pub weighed: (u64, u64, u64, u64, u64),
}

impl Order {
    /// The next row is number `next`.
    pub fn new(next: u64) -> Self {
        let list = VecDeque::with_capacity(2 * WINDOW as usize + 16);
        let (closed, weighed) = Default::default();
        let (settled, durable, flushing) = (next - 1, next - 1, None);
        Order { next, settled, durable, list, flushing, closed, weighed }
    }

    /// Takes the next number.
    pub fn seal(&mut self, stamp: u64, of_host: bool) -> u64 {
        let seq = self.next;
        self.next += 1;
        self.list.push_back(Sealed { seq, stamp, of_host, written: false });
        seq
    }

    /// Row `seq` is written.
    pub fn written(&mut self, seq: u64) {
        let first = self.list.front().expect("a row that is not durable").seq;
        self.list[(seq - first) as usize].written = true;
        let open = self.list.iter().find(|it| !it.written).map(|it| it.seq);
        self.settled = open.unwrap_or(self.next) - 1;
    }

    /// All rows up to `seq` are durable.
    pub fn made_durable(&mut self, seq: u64) {
        self.durable = seq;
        while self.list.front().is_some_and(|it| it.seq <= seq) {
            self.list.pop_front();
        }
    }

    /// The lowest stamp of a row beyond `seq`, with or without the host's data.
    pub fn first_stamp(&self, seq: u64, of_host: bool) -> Option<u64> {
        let beyond = |it: &&Sealed| it.seq > seq && (it.of_host || !of_host);
        self.list.iter().filter(beyond).map(|it| it.stamp).min()
    }

    /// Whether a flush is under way.
    pub fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }
}

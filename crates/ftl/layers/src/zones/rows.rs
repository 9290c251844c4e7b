//! Rows in memory and their buffers: the current row, closed rows, and rows ready to be sent.
//!
//! Invariants
//! - At most one row is being filled. Rows that become ready together are queued by index.
//! - A row is reused when the map no longer points into it and no read borrows its buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{Payload, Piece};

use super::row::{Phase, Row};

/// All rows.
#[derive(Debug)]
pub(super) struct Rows {
    list: Vec<Row>,
    /// Buffer of each row.
    buffers: Vec<Payload>,
    /// Start of the search for an idle row.
    turn: usize,
    filling: Option<u16>,
    /// Number of closed rows that wait for data.
    closed: u32,
    ready: VecDeque<u16>,
}

impl Rows {
    /// Creates idle rows with their buffers.
    pub(super) fn new(count: usize, buffers: Vec<Payload>) -> Self {
        Rows {
            list: (0..count).map(|_| Row::new()).collect(),
            buffers,
            turn: 0,
            filling: None,
            closed: 0,
            ready: VecDeque::with_capacity(count),
        }
    }

    /// Returns a row.
    pub(super) fn at(&self, row: u16) -> &Row {
        &self.list[usize::from(row)]
    }

    /// Returns a row for modification.
    pub(super) fn at_mut(&mut self, row: u16) -> &mut Row {
        &mut self.list[usize::from(row)]
    }

    /// Iterates over the rows with their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Row)> {
        (0..).zip(&self.list)
    }

    /// Returns the buffer of a row.
    pub(super) fn buffer(&mut self, row: u16) -> &mut Payload {
        &mut self.buffers[usize::from(row)]
    }

    /// Returns the current row.
    pub(super) fn filling(&self) -> Option<u16> {
        self.filling
    }

    /// Returns the next row that can be opened.
    pub(super) fn idle(&self) -> Option<u16> {
        let idle = |row: &usize| match self.list[*row].phase() {
            Phase::Idle => true,
            // A host read may still copy out of the buffer.
            Phase::Draining => self.buffers[*row].is_idle(),
            _ => false,
        };
        let count = self.list.len();
        (0..count).map(|step| (self.turn + step) % count).find(idle).map(|row| row as u16)
    }

    /// Opens an idle row under number `seq`.
    ///
    /// # Panics
    /// If another row is being filled.
    pub(super) fn open(&mut self, row: u16, seq: u64) {
        assert!(self.filling.is_none(), "one stripe is filled at a time");
        // Rows are used in turn, so the search finds one quickly.
        self.turn = (usize::from(row) + 1) % self.list.len();
        self.at_mut(row).open(seq);
        self.filling = Some(row);
    }

    /// Closes the current row.
    pub(super) fn close(&mut self) {
        let row = self.filling.take().expect("a stripe is being filled");
        self.at_mut(row).go(Phase::Closed);
        self.closed += 1;
    }

    /// Makes closed rows ready that wait for nothing. Returns whether there were any.
    pub(super) fn make_ready(&mut self) -> bool {
        let before = self.closed;
        for (row, it) in (0..).zip(&mut self.list) {
            if self.closed == 0 {
                break;
            }
            if it.phase() == Phase::Closed && it.pending == 0 {
                it.go(Phase::Ready);
                self.ready.push_back(row);
                self.closed -= 1;
            }
        }
        self.closed < before
    }

    /// Returns the first ready row.
    pub(super) fn first_ready(&self) -> Option<u16> {
        self.ready.front().copied()
    }

    /// Sends the first ready row to a strip.
    pub(super) fn send(&mut self, segment: u32, strip: u32) {
        let row = self.ready.pop_front().expect("a stripe is ready");
        let it = self.at_mut(row);
        it.go(Phase::Sent);
        (it.segment, it.strip) = (segment, strip);
    }

    /// Queues a row again whose program failed, before all others.
    pub(super) fn send_again(&mut self, row: u16) {
        self.at_mut(row).go(Phase::Ready);
        self.ready.push_front(row);
    }

    /// Returns the number of rows without a place on the medium.
    pub(super) fn unplaced(&self) -> i64 {
        self.list.iter().filter(|row| row.is_unplaced()).count() as i64
    }

    /// Returns a view to its row.
    pub(super) fn repay(&mut self, piece: Piece) {
        if let Piece::Data(view) = piece {
            let row = self.row_index(view.id());
            self.buffers[row].repay(view);
        }
    }

    fn row_index(&self, id: u32) -> usize {
        let first = self.buffers[0].id();
        // Buffers usually have consecutive ids, so the search is rarely needed.
        match self.buffers.get(id.wrapping_sub(first) as usize) {
            Some(buffer) if buffer.id() == id => (id - first) as usize,
            _ => self.buffers.iter().position(|it| it.id() == id).expect("a buffer of a stripe"),
        }
    }

    /// Discards the payloads at a power cut.
    pub(super) fn void(&mut self) {
        self.buffers.drain(..).for_each(|buffer| {
            buffer.void();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        Rows::new(3, Vec::new())
    }

    #[test]
    fn a_row_is_ready_once_its_payloads_arrived() {
        let mut rows = rows();
        assert_eq!(rows.idle(), Some(0));
        rows.open(0, 7);
        rows.at_mut(0).pending = 1;
        rows.close();
        assert!(!rows.make_ready() && rows.unplaced() == 1);
        rows.at_mut(0).pending = 0;
        assert!(rows.make_ready() && !rows.make_ready());
        rows.send(5, 2);
        assert_eq!((rows.first_ready(), rows.unplaced(), rows.at(0).segment), (None, 0, 5));
        rows.send_again(0);
        assert_eq!((rows.first_ready(), rows.at(0).seq, rows.idle()), (Some(0), 7, Some(1)));
    }

    #[test]
    #[should_panic(expected = "one stripe is filled at a time")]
    fn rows_are_filled_one_at_a_time() {
        let mut rows = rows();
        rows.open(0, 1);
        rows.open(1, 2);
    }

    #[test]
    #[should_panic(expected = "a stripe can't go from Idle to Written")]
    fn a_row_is_sent_before_it_is_written() {
        rows().at_mut(0).go(Phase::Written);
    }
}

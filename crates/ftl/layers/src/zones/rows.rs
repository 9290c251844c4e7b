//! The rows in memory and their buffers: which is filled, which wait, which are ready to be sent.
//!
//! Invariants
//! - At most one row is filled. Closed rows become ready in the order of their places.
//! - A row is used again when the map points elsewhere and nobody reads from its buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{Payload, Piece};

use super::row::{Phase, Row};

#[derive(Debug)]
pub(super) struct Rows {
    list: Vec<Row>,
    /// One for each row.
    buffers: Vec<Payload>,
    /// Where the search for an idle row begins.
    turn: usize,
    filling: Option<u16>,
    /// How many wait for what is on its way into them.
    closed: u32,
    ready: VecDeque<u16>,
}

impl Rows {
    /// Idle rows, each with one of the `buffers`.
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

    /// A row.
    pub(super) fn at(&self, row: u16) -> &Row {
        &self.list[usize::from(row)]
    }

    /// A row that changes.
    pub(super) fn at_mut(&mut self, row: u16) -> &mut Row {
        &mut self.list[usize::from(row)]
    }

    /// All rows, with their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Row)> {
        (0..).zip(&self.list)
    }

    /// The buffer of a row.
    pub(super) fn buffer(&mut self, row: u16) -> &mut Payload {
        &mut self.buffers[usize::from(row)]
    }

    /// The row that is filled.
    pub(super) fn filling(&self) -> Option<u16> {
        self.filling
    }

    /// The next row that can be opened.
    pub(super) fn idle(&self) -> Option<u16> {
        let idle = |row: &usize| match self.list[*row].phase() {
            Phase::Idle => true,
            Phase::Draining => self.buffers[*row].is_idle(),
            _ => false,
        };
        let count = self.list.len();
        (0..count).map(|step| (self.turn + step) % count).find(idle).map(|row| row as u16)
    }

    /// Begins to fill an idle row, with this number.
    ///
    /// # Panics
    /// When another is filled.
    pub(super) fn open(&mut self, row: u16, seq: u64) {
        assert!(self.filling.is_none(), "one row is filled at a time");
        self.turn = (usize::from(row) + 1) % self.list.len();
        self.at_mut(row).open(seq);
        self.filling = Some(row);
    }

    /// No more goes into the row that is filled.
    pub(super) fn close(&mut self) {
        let row = self.filling.take().expect("a row is filled");
        self.at_mut(row).go(Phase::Closed);
        self.closed += 1;
    }

    /// Closed rows that wait for nothing are ready; whether there were any.
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

    /// The first row that is ready to be sent.
    pub(super) fn first_ready(&self) -> Option<u16> {
        self.ready.front().copied()
    }

    /// The first row that is ready is sent to this strip of a segment.
    pub(super) fn send(&mut self, segment: u32, strip: u32) {
        let row = self.ready.pop_front().expect("a row is ready");
        let it = self.at_mut(row);
        it.go(Phase::Sent);
        (it.segment, it.strip) = (segment, strip);
    }

    /// A row that was sent was not written: it is sent again before all others.
    pub(super) fn send_again(&mut self, row: u16) {
        self.at_mut(row).go(Phase::Ready);
        self.ready.push_front(row);
    }

    /// How many rows have their blocks in memory alone.
    pub(super) fn unplaced(&self) -> i64 {
        self.list.iter().filter(|row| row.is_unplaced()).count() as i64
    }

    /// Gives a view back to the row that it is of.
    pub(super) fn repay(&mut self, piece: Piece) {
        if let Piece::Data(view) = piece {
            let row = self.row_of(view.id());
            self.buffers[row].repay(view);
        }
    }

    fn row_of(&self, id: u32) -> usize {
        let first = self.buffers[0].id();
        match self.buffers.get(id.wrapping_sub(first) as usize) {
            Some(buffer) if buffer.id() == id => (id - first) as usize,
            _ => self.buffers.iter().position(|it| it.id() == id).expect("a buffer of a row"),
        }
    }

    /// The power is off.
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
    fn a_row_is_ready_when_nothing_is_on_its_way_into_it() {
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
    #[should_panic(expected = "one row is filled at a time")]
    fn one_row_is_filled_at_a_time() {
        let mut rows = rows();
        rows.open(0, 1);
        rows.open(1, 2);
    }

    #[test]
    #[should_panic(expected = "a row that is Idle can't be Written next")]
    fn a_row_is_sent_before_it_is_written() {
        rows().at_mut(0).go(Phase::Written);
    }
}

//! The victim: where its next row begins, and which heads of it are read.
//!
//! A head says where the next row begins. Nearly every row fills its slot, so the heads at the
//! beginnings of the next slots are read ahead, before it is known that rows begin there.
//!
//! Invariants
//! - Each head is asked for once, by one lane. They count in the order of their places, in whatever
//!   order they come.
//! - The numbers of the rows of a segment ascend: what has a lower one is of an earlier use.
//! - What was asked for behind the last row counts for nothing.

use crate::log::layout::{At, LANES};

#[derive(Debug)]
pub(super) struct Victim {
    segment: u32,
    /// Slots that it has.
    slots: u32,
    /// Where the next row begins, or would; none when all were found.
    next: Option<At>,
    /// The heads that were asked for and do not count yet, with their lanes, in the order of their
    /// places. None lies before the next row.
    asked: [(At, u8); LANES],
    count: usize,
    /// The number of the last row that was found.
    seq: u64,
}

impl Victim {
    /// No row of the segment, which has so many slots, is known.
    pub(super) fn new(segment: u32, slots: u32) -> Self {
        Self::from(At { segment, slot: 0, sector: 0 }, slots, 0)
    }

    /// The rows before `next` were gone through, the last of which has this number.
    pub(super) fn from(next: At, slots: u32, seq: u64) -> Self {
        let (segment, next) = (next.segment, Some(next));
        Victim { segment, slots, next, asked: Default::default(), count: 0, seq }
    }

    /// The number of the last row that was found.
    pub(super) fn last(&self) -> u64 {
        self.seq
    }

    /// Where the next row begins, and the number of the one before; none when all were found.
    pub(super) fn rest(&self) -> Option<(At, u64)> {
        self.next.map(|next| (next, self.seq))
    }

    /// The segment.
    pub(super) fn segment(&self) -> u32 {
        self.segment
    }

    /// Slots of which all rows were found.
    pub(super) fn found_slots(&self) -> Option<u32> {
        self.next.map(|next| next.slot)
    }

    /// Whether all rows were found.
    pub(super) fn is_read(&self) -> bool {
        self.next.is_none()
    }

    /// Whether a row with that number may be the next.
    pub(super) fn may_follow(&self, seq: u64) -> bool {
        seq > self.seq
    }

    /// Where the head lies that is to be read next: that of the next row, or with `ahead` also one
    /// behind those that were asked for.
    pub(super) fn to_ask(&self, ahead: bool) -> Option<At> {
        let next = self.next?;
        match self.asked() {
            [(first, _), ..] if *first == next => {
                let slot = self.asked()[self.count - 1].0.slot + 1;
                (ahead && slot < self.slots).then_some(At { slot, sector: 0, ..next })
            }
            _ => Some(next),
        }
    }

    /// The head at `at` is read for a lane.
    ///
    /// # Panics
    /// When it is not the one that is to be read next.
    pub(super) fn ask(&mut self, at: At, lane: u8) {
        assert_eq!(self.to_ask(true), Some(at), "heads are asked for in order, each once");
        self.asked[self.count] = (at, lane);
        self.count += 1;
        if self.next == Some(at) {
            self.asked[..self.count].rotate_right(1);
        }
    }

    fn asked(&self) -> &[(At, u8)] {
        &self.asked[..self.count]
    }

    /// Whether what was asked for a lane may count still.
    pub(super) fn is_asked(&self, lane: u8) -> bool {
        self.asked().iter().any(|(_, it)| *it == lane)
    }

    /// The lane for which the head of the next row was asked for.
    pub(super) fn next_lane(&self) -> Option<u8> {
        let (first, lane) = self.asked().first()?;
        (Some(*first) == self.next).then_some(*lane)
    }

    /// The next row has number `seq`, and `next` is where another may follow; without a number
    /// there is no row, and what was asked for behind it counts for nothing.
    ///
    /// # Panics
    /// When its head was not asked for, or it is not of the row that comes next.
    pub(super) fn found(&mut self, seq: Option<u64>, next: Option<At>) {
        assert!(self.next_lane().is_some(), "a head that counts was asked for");
        self.asked[..self.count].rotate_left(1);
        self.count -= 1;
        if let Some(seq) = seq {
            assert!(self.may_follow(seq), "the numbers of rows ascend");
            self.seq = seq;
        }
        self.next = next.filter(|_| seq.is_some());
        if self.is_read() {
            self.count = 0;
        }
    }

    /// No more rows are looked for.
    pub(super) fn give_up(&mut self) {
        (self.next, self.count) = (None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(slot: u32, sector: u32) -> At {
        At { segment: 5, slot, sector }
    }

    fn asked(lanes: &[u8]) -> Victim {
        let mut it = Victim::new(5, 4);
        for lane in lanes {
            it.ask(it.to_ask(true).expect("another slot"), *lane);
        }
        it
    }

    #[test]
    fn heads_of_the_next_slots_are_read_ahead_up_to_the_last() {
        let mut it = asked(&[3]);
        assert_eq!((it.to_ask(false), it.to_ask(true)), (None, Some(at(1, 0))));
        [0, 7, 2].into_iter().for_each(|lane| it.ask(it.to_ask(true).unwrap(), lane));
        assert_eq!((it.to_ask(true), it.next_lane(), it.found_slots()), (None, Some(3), Some(0)));
        it.found(Some(7), Some(at(1, 0)));
        assert!(it.may_follow(8) && !it.may_follow(7) && it.is_asked(0) && !it.is_asked(3));
        assert_eq!((it.next_lane(), it.found_slots()), (Some(0), Some(1)));
    }

    #[test]
    fn a_row_behind_a_short_one_counts_before_what_was_read_ahead() {
        let mut it = asked(&[0, 1, 2]);
        it.found(Some(7), Some(at(0, 16)));
        assert_eq!((it.next_lane(), it.to_ask(false)), (None, Some(at(0, 16))));
        it.ask(at(0, 16), 5);
        assert_eq!((it.next_lane(), it.to_ask(true)), (Some(5), Some(at(3, 0))));
        it.found(Some(8), Some(at(1, 0)));
        assert_eq!(it.next_lane(), Some(1));
    }

    #[test]
    fn behind_the_last_row_nothing_counts() {
        let mut it = asked(&[0, 1, 2]);
        it.found(Some(7), Some(at(1, 0)));
        it.found(None, Some(at(2, 0)));
        assert!(it.is_read() && !it.is_asked(2) && it.to_ask(true).is_none());
        let mut it = asked(&[0, 1]);
        it.give_up();
        assert!(it.is_read() && !it.is_asked(0) && it.found_slots().is_none());
    }

    #[test]
    #[should_panic(expected = "each once")]
    fn a_head_is_not_asked_for_twice() {
        asked(&[0, 1]).ask(at(1, 0), 2);
    }

    #[test]
    #[should_panic(expected = "ascend")]
    fn a_row_of_an_earlier_use_is_none_of_the_victim() {
        let mut it = asked(&[0, 1]);
        it.found(Some(7), Some(at(1, 0)));
        it.found(Some(6), None);
    }
}

//! A lane of garbage collection: one strip of the victim, from its tail to its last valid block.
//!
//! Invariants
//! - Blocks that could not be read together are read again once, each by itself.

use alloc::vec::Vec;

use hostftl_core::{MetaBuf, Page};
use hostftl_format::zones::ENTRIES;

use crate::kit::metabuf::MetaHome;

/// A block of the host, and the device block where it may be.
pub(super) type Item = (u64, u64);

/// Phase of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// Reading a tail.
    Tail,
    /// Moving valid blocks.
    Moving,
}

/// One lane.
#[derive(Debug)]
pub(super) struct Lane {
    phase: Phase,
    /// Segment and strip of the tail.
    place: (u32, u32),
    tail: MetaHome,
    /// Blocks that may be valid, with their places.
    items: Vec<Item>,
    cursor: usize,
    /// Reads in flight.
    outstanding: u32,
    /// Blocks of failed reads.
    again: Vec<Item>,
    /// Whether each block is read by itself.
    alone: bool,
}

impl Lane {
    /// Creates an idle lane.
    pub(super) fn new() -> Self {
        Lane {
            phase: Phase::Idle,
            place: (0, 0),
            tail: MetaHome::new(1),
            items: Vec::with_capacity(ENTRIES),
            cursor: 0,
            outstanding: 0,
            again: Vec::with_capacity(ENTRIES),
            alone: false,
        }
    }

    /// Returns the phase.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    fn go(&mut self, next: Phase) {
        let fits = match (self.phase, next) {
            (Phase::Idle, Phase::Tail | Phase::Moving) | (Phase::Tail, Phase::Moving) => true,
            (Phase::Moving, Phase::Idle) => self.outstanding == 0,
            _ => false,
        };
        assert!(fits, "a lane can't go from {:?} to {next:?}: {self:?}", self.phase);
        self.phase = next;
    }

    /// Begins with the tail of a strip. Returns the buffer for it.
    pub(super) fn begin_tail(&mut self, place: (u32, u32)) -> MetaBuf {
        self.go(Phase::Tail);
        self.place = place;
        self.tail.lend()
    }

    /// Takes back the buffer of the tail. Returns the place of its strip.
    pub(super) fn end_tail(&mut self, buf: MetaBuf) -> (u32, u32) {
        self.tail.take_back(buf);
        self.place
    }

    /// Begins to move the blocks that the caller puts into the returned list.
    pub(super) fn begin(&mut self) -> (&mut Vec<Item>, &Page) {
        self.go(Phase::Moving);
        self.items.clear();
        self.cursor = 0;
        (&mut self.items, &self.tail.pages()[0])
    }

    /// Returns the next block.
    pub(super) fn next(&self) -> Option<Item> {
        self.items.get(self.cursor).copied()
    }

    /// Skips the next block.
    pub(super) fn skip(&mut self) {
        self.cursor += 1;
    }

    /// Returns the number of contiguous blocks from the next one on that `moves` accepts, at most
    /// `most`.
    pub(super) fn run(&self, most: usize, moves: impl Fn(Item) -> bool) -> usize {
        let items = &self.items[self.cursor..];
        let first = items[0].1;
        // A media error then identifies the unreadable block.
        let most = if self.alone { 1 } else { most };
        let follows =
            |(step, item): &(usize, &Item)| item.1 == first + *step as u64 && moves(**item);
        items.iter().enumerate().take(most).skip(1).take_while(follows).count() + 1
    }

    /// Begins to read the next `count` blocks. Returns them and the index of the first.
    pub(super) fn begin_read(&mut self, count: u32) -> (impl Iterator<Item = u64>, u8) {
        let from = self.cursor;
        self.cursor += count as usize;
        self.outstanding += 1;
        (self.items[from..self.cursor].iter().map(|(block, _)| *block), from as u8)
    }

    /// Ends a read. Returns whether each block was read by itself.
    pub(super) fn end_read(&mut self) -> bool {
        self.outstanding = self.outstanding.checked_sub(1).expect("a read was started");
        self.alone
    }

    /// Returns one of the blocks.
    pub(super) fn item(&self, index: usize) -> Item {
        self.items[index]
    }

    /// Queues a block to be read by itself.
    pub(super) fn read_again(&mut self, item: Item) {
        // Not lost yet: another block of the same read may have caused the error.
        self.again.push(item);
    }

    /// Ends the lane, or continues with the blocks of failed reads. Returns false while reads are
    /// in flight.
    pub(super) fn end(&mut self) -> bool {
        if self.outstanding > 0 {
            return false;
        }
        // After a second failure each block was alone, so nothing is queued again.
        self.alone = !self.again.is_empty();
        self.items.clear();
        self.cursor = 0;
        core::mem::swap(&mut self.items, &mut self.again);
        if !self.alone {
            self.go(Phase::Idle);
        }
        true
    }

    /// Drops the blocks that were not begun.
    pub(super) fn leave(&mut self) {
        self.cursor = self.items.len();
        self.again.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_blocks_share_a_read_and_failures_are_separate() {
        let mut lane = Lane::new();
        lane.begin().0.extend([(7, 100), (3, 101), (9, 102), (4, 110)]);
        assert_eq!(lane.next(), Some((7, 100)));
        assert_eq!((lane.run(2, |_| true), lane.run(16, |_| true)), (2, 3));
        assert_eq!(lane.run(16, |item| item.0 != 9), 2, "the third need not move");
        let (blocks, first) = lane.begin_read(3);
        assert_eq!((blocks.collect::<Vec<_>>(), first), (alloc::vec![7, 3, 9], 0));
        lane.skip();
        assert!(lane.next().is_none() && !lane.end(), "a read is in progress");
        assert!(!lane.end_read());
        for index in 0..2 {
            lane.read_again(lane.item(index));
        }
        assert!(lane.end() && lane.phase() == Phase::Moving);
        assert_eq!((lane.next(), lane.run(16, |_| true)), (Some((7, 100)), 1));
        lane.leave();
        assert!(lane.end() && lane.phase() == Phase::Idle);
    }

    #[test]
    #[should_panic(expected = "a lane can't go from Tail to Tail")]
    fn a_tail_is_read_once() {
        let mut lane = Lane::new();
        lane.begin_tail((0, 0));
        lane.begin_tail((0, 1));
    }
}

//! Changes of the map on their way to the log, and slots on their way back.
//!
//! A round makes changes durable: a flush covers the data that they point at, their records go to
//! the log, and a second flush covers those.
//!
//! Invariants
//! - Changes are numbered in the order in which they are published; `durable` only grows.
//! - A record is written only when a flush covers the data that it points at.
//! - A slot that was replaced is used again only when the change that replaced it is durable and no
//!   read of its page is under way.
//! - `records` never holds more than [`PENDING`], what fills under way will publish included.

use alloc::collections::VecDeque;

use hostftl_format::scrambler::{RECORDS, Record};

use super::layout::PENDING_PAGES;
use crate::planted::{Bug, planted};

/// Records that may wait for the log.
pub(super) const PENDING: usize = PENDING_PAGES as usize * RECORDS;
/// Slots that may wait to be used again.
const RETIRING: usize = 1 << 16;

/// How far a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// There is none.
    Idle,
    /// The data of the changes before `upto` becomes durable.
    Data {
        /// One past the last change that counts.
        upto: u64,
    },
    /// It is durable; the records are written when the ring has room.
    Ready {
        /// As above.
        upto: u64,
    },
    /// The records of the changes before `upto` are being written.
    Writing {
        /// As above.
        upto: u64,
    },
    /// They are written and become durable.
    Log {
        /// As above.
        upto: u64,
    },
}

/// A slot that waits to be used again.
#[derive(Clone, Copy, Debug)]
struct Retiring {
    slot: u32,
    /// Whether it was trimmed, and not replaced.
    trims: bool,
    /// The change by which nothing needs it any more.
    number: u64,
}

#[derive(Debug)]
pub(super) struct Journal {
    /// Changes from number `durable` on, and those of the round under way before them.
    records: VecDeque<Record>,
    retiring: VecDeque<Retiring>,
    most_retiring: usize,
    promised: u32,
    /// Changes so far.
    published: u64,
    /// Changes whose records are durable.
    durable: u64,
    /// Changes that somebody waits for.
    demanded: u64,
    round: Round,
}

impl Journal {
    /// Nothing published. The device has `slots` for data.
    pub(super) fn new(slots: u64) -> Self {
        let most_retiring = slots.min(RETIRING as u64) as usize;
        Journal {
            records: VecDeque::with_capacity(PENDING),
            retiring: VecDeque::with_capacity(most_retiring),
            most_retiring,
            promised: 0,
            published: 0,
            durable: 0,
            demanded: 0,
            round: Round::Idle,
        }
    }

    /// Bytes that it takes.
    pub(super) fn memory(slots: u64) -> u64 {
        let retiring = slots.min(RETIRING as u64) * size_of::<Retiring>() as u64;
        retiring + (PENDING * size_of::<Record>()) as u64
    }

    /// Changes so far.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// Changes whose records are durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Changes that somebody waits for.
    pub(super) fn demanded(&self) -> u64 {
        self.demanded
    }

    /// The round under way.
    pub(super) fn round(&self) -> Round {
        self.round
    }

    /// The round goes on.
    ///
    /// # Panics
    /// When that is not its next stage.
    pub(super) fn go(&mut self, next: Round) {
        let early = planted(Bug::MapBeforeData);
        let fits = match (self.round, next) {
            (Round::Idle, Round::Data { upto }) => upto == self.published,
            (Round::Idle, Round::Ready { .. }) => early,
            (Round::Data { upto }, Round::Ready { upto: next }) => upto == next,
            // Of what is ready as many records are written as fit.
            (Round::Ready { upto }, Round::Writing { upto: next }) => next <= upto,
            (Round::Writing { upto }, Round::Log { upto: next }) => upto == next,
            _ => false,
        };
        assert!(fits, "a round that is {:?} can't be {next:?} next", self.round);
        self.round = next;
    }

    /// Whether so many slots can be replaced, by so many changes.
    pub(super) fn has_room(&self, slots: u32, changes: u32) -> bool {
        let promised = self.promised as usize;
        self.retiring.len() + promised + slots as usize <= self.most_retiring
            && self.records.len() + promised + changes as usize <= PENDING
    }

    /// The most slots that one change may replace.
    pub(super) fn most_at_once(&self) -> u64 {
        self.most_retiring as u64 / 4
    }

    /// A fill will publish at most so many changes.
    pub(super) fn promise(&mut self, changes: u32) {
        self.promised += changes;
    }

    /// A fill that promised so many is about to publish.
    pub(super) fn keep_promise(&mut self, changes: u32) {
        self.promised -= changes;
    }

    /// The next change replaces a slot, or trims it.
    pub(super) fn retire(&mut self, slot: u32, trims: bool) {
        assert!(self.retiring.len() < self.most_retiring, "room for replaced slots was checked");
        self.retiring.push_back(Retiring { slot, trims, number: self.published + 1 });
    }

    /// Logical slots lie in these slots now.
    pub(super) fn publish_write(&mut self, logical: u32, slot: u32, count: u32) {
        self.publish(Record { logical, slot: Some(slot), count });
    }

    /// Logical slots lie nowhere now.
    pub(super) fn publish_trim(&mut self, logical: u32, count: u32) {
        self.publish(Record { logical, slot: None, count });
    }

    fn publish(&mut self, record: Record) {
        assert!(self.records.len() < PENDING, "room for records was checked");
        self.records.push_back(record);
        self.published += 1;
    }

    /// Somebody waits until the changes before `mark` are durable.
    pub(super) fn demand(&mut self, mark: u64) {
        self.demanded = self.demanded.max(mark);
    }

    /// Whether it is time for a round.
    pub(super) fn wants_round(&self) -> bool {
        let pressed = self.records.len() >= RECORDS || self.retiring.len() * 2 > self.most_retiring;
        self.round == Round::Idle
            && self.published > self.durable
            && (self.demanded > self.durable || pressed)
    }

    /// Records of the changes before `upto` that wait, oldest first.
    pub(super) fn records(&self, upto: u64) -> impl Iterator<Item = &Record> {
        self.records.iter().take((upto - self.durable) as usize)
    }

    /// The round is over: the changes before its end are durable.
    ///
    /// # Panics
    /// When its records are not written.
    pub(super) fn settle(&mut self) {
        let Round::Log { upto } = self.round else {
            unreachable!("a round ends when its records are durable")
        };
        self.round = Round::Idle;
        self.records.drain(..(upto - self.durable) as usize);
        self.durable = upto;
    }

    /// Whether slots wait to be used again.
    pub(super) fn is_retiring(&self) -> bool {
        !self.retiring.is_empty()
    }

    /// How many do.
    pub(super) fn retiring(&self) -> usize {
        self.retiring.len()
    }

    /// The slot that may be used again, if its page is not read, and whether it was trimmed.
    pub(super) fn next_retired(&self, early: bool) -> Option<(u32, bool)> {
        let Retiring { slot, trims, number } = *self.retiring.front()?;
        (number <= self.durable || early).then_some((slot, trims))
    }

    /// It is used again.
    pub(super) fn release_next(&mut self) {
        self.retiring.pop_front();
    }
}

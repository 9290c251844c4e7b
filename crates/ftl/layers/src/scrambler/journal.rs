//! Changes of the map that wait for the log, and replaced slots that wait for reuse.
//!
//! A round makes changes durable: a flush covers the data that they point at, their records are
//! written to the log, and a second flush covers the records.
//!
//! Invariants
//! - Changes are numbered in the order in which they are published; `durable` only grows.
//! - A record is written only after a flush has covered the data that it points at.
//! - A replaced slot is reused only after the change that replaced it is durable, and while no read
//!   of its page is in progress.
//! - `records` never exceeds [`PENDING`], including the records that fills in progress will
//!   publish.

use alloc::collections::VecDeque;

use hostftl_format::scrambler::{RECORDS, Record};

use super::layout::PENDING_PAGES;
use crate::planted::{Bug, planted};

/// Maximum number of records that wait for the log.
pub(super) const PENDING: usize = PENDING_PAGES as usize * RECORDS;
/// Maximum number of slots that wait for reuse.
const RETIRING: usize = 1 << 16;

/// The stage of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// No round is in progress.
    Idle,
    /// The data of the changes before `upto` is being flushed.
    Data {
        /// One past the last change of the round.
        upto: u64,
    },
    /// The data is durable; the records are written when the ring has room.
    Ready {
        /// One past the last change of the round.
        upto: u64,
    },
    /// The records of the changes before `upto` are being written.
    Writing {
        /// One past the last change of the round.
        upto: u64,
    },
    /// The records are being flushed.
    Log {
        /// One past the last change of the round.
        upto: u64,
    },
}

/// A slot that waits for reuse.
#[derive(Clone, Copy, Debug)]
struct Retiring {
    slot: u32,
    /// Whether it was trimmed, and not replaced.
    trims: bool,
    /// Number of the change that released it.
    number: u64,
}

/// Changes and slots that wait for durability.
#[derive(Debug)]
pub(super) struct Journal {
    /// Records of the changes from `durable` on, the oldest first.
    records: VecDeque<Record>,
    retiring: VecDeque<Retiring>,
    most_retiring: usize,
    promised: u32,
    /// Number of changes so far.
    published: u64,
    /// Number of changes whose records are durable.
    durable: u64,
    /// Number of changes that a request waits for.
    demanded: u64,
    round: Round,
}

impl Journal {
    /// Creates an empty journal for a device with `slots` slots of data.
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

    /// Returns the bytes of memory.
    pub(super) fn memory(slots: u64) -> u64 {
        let retiring = slots.min(RETIRING as u64) * size_of::<Retiring>() as u64;
        retiring + (PENDING * size_of::<Record>()) as u64
    }

    /// Returns the number of changes so far.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// Returns the number of changes whose records are durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the number of changes that a request waits for.
    pub(super) fn demanded(&self) -> u64 {
        self.demanded
    }

    /// Returns the round in progress.
    pub(super) fn round(&self) -> Round {
        self.round
    }

    /// Changes to the next stage of the round.
    ///
    /// # Panics
    /// If the transition is not allowed.
    pub(super) fn go(&mut self, next: Round) {
        let early = planted(Bug::MapBeforeData);
        let fits = match (self.round, next) {
            (Round::Idle, Round::Data { upto }) => upto == self.published,
            (Round::Idle, Round::Ready { .. }) => early,
            (Round::Data { upto }, Round::Ready { upto: next }) => upto == next,
            // If the ring is nearly full, only the oldest records of the round are written.
            (Round::Ready { upto }, Round::Writing { upto: next }) => next <= upto,
            (Round::Writing { upto }, Round::Log { upto: next }) => upto == next,
            _ => false,
        };
        assert!(fits, "a round can't go from {:?} to {next:?}", self.round);
        self.round = next;
    }

    /// Returns whether there is room for `slots` replaced slots and `changes` changes.
    pub(super) fn has_room(&self, slots: u32, changes: u32) -> bool {
        let promised = self.promised as usize;
        self.retiring.len() + promised + slots as usize <= self.most_retiring
            && self.records.len() + promised + changes as usize <= PENDING
    }

    /// Returns the maximum number of slots that one change may replace.
    pub(super) fn most_at_once(&self) -> u64 {
        self.most_retiring as u64 / 4
    }

    /// Reserves room for the changes of a fill.
    pub(super) fn promise(&mut self, changes: u32) {
        self.promised += changes;
    }

    /// Releases the room of a fill that is about to publish.
    pub(super) fn keep_promise(&mut self, changes: u32) {
        self.promised -= changes;
    }

    /// Notes that the next change replaces a slot, or trims it.
    pub(super) fn retire(&mut self, slot: u32, trims: bool) {
        assert!(self.retiring.len() < self.most_retiring, "space for replaced slots was checked");
        self.retiring.push_back(Retiring { slot, trims, number: self.published + 1 });
    }

    /// Publishes that logical slots are stored in `count` slots from `slot` on.
    pub(super) fn publish_write(&mut self, logical: u32, slot: u32, count: u32) {
        self.publish(Record { logical, slot: Some(slot), count });
    }

    /// Publishes that logical slots are unmapped.
    pub(super) fn publish_trim(&mut self, logical: u32, count: u32) {
        self.publish(Record { logical, slot: None, count });
    }

    fn publish(&mut self, record: Record) {
        assert!(self.records.len() < PENDING, "space for records was checked");
        self.records.push_back(record);
        self.published += 1;
    }

    /// Requests that the changes before `mark` become durable.
    pub(super) fn demand(&mut self, mark: u64) {
        self.demanded = self.demanded.max(mark);
    }

    /// Returns whether a round is due.
    pub(super) fn wants_round(&self) -> bool {
        let pressed = self.records.len() >= RECORDS || self.retiring.len() * 2 > self.most_retiring;
        self.round == Round::Idle
            && self.published > self.durable
            && (self.demanded > self.durable || pressed)
    }

    /// Returns the waiting records of the changes before `upto`, the oldest first.
    pub(super) fn records(&self, upto: u64) -> impl Iterator<Item = &Record> {
        self.records.iter().take((upto - self.durable) as usize)
    }

    /// Ends the round: its changes are durable.
    ///
    /// # Panics
    /// If the records of the round are not written.
    pub(super) fn settle(&mut self) {
        let Round::Log { upto } = self.round else {
            unreachable!("a round ends when its records are durable")
        };
        self.round = Round::Idle;
        self.records.drain(..(upto - self.durable) as usize);
        self.durable = upto;
    }

    /// Returns whether slots wait for reuse.
    pub(super) fn is_retiring(&self) -> bool {
        !self.retiring.is_empty()
    }

    /// Returns the number of slots that wait for reuse.
    pub(super) fn retiring(&self) -> usize {
        self.retiring.len()
    }

    /// Returns the oldest waiting slot, if its change is durable, and whether it was trimmed. It
    /// may be reused if its page is not being read.
    pub(super) fn next_retired(&self, early: bool) -> Option<(u32, bool)> {
        let Retiring { slot, trims, number } = *self.retiring.front()?;
        (number <= self.durable || early).then_some((slot, trims))
    }

    /// Removes the oldest waiting slot, which is reused now.
    pub(super) fn release_next(&mut self) {
        self.retiring.pop_front();
    }
}

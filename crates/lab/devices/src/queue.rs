//! Queue of commands whose completion time is known at submission, for devices without dies.
//!
//! Invariants
//! - Commands complete in the order of their completion times. Commands with equal times complete
//!   in the order of submission.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hostftl_core::Nanos;

use hostftl_drives::Ended;
use hostftl_drives::Spent;

/// A command in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanos,
    number: u64,
    slot: u32,
    waited: Nanos,
    served: Nanos,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Due>>,
    number: u64,
}

impl Queue {
    /// Adds a command that completes at `at`, after a wait of `waited` ns and a service time of
    /// `served` ns.
    pub(crate) fn push(&mut self, at: Nanos, slot: u32, waited: Nanos, served: Nanos) {
        self.number += 1;
        self.heap.push(Reverse(Due { at, number: self.number, slot, waited, served }));
    }

    /// Returns the completion time of the next command.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }

    /// Completes the next command and returns its completion time.
    ///
    /// # Panics
    /// When the queue is empty.
    pub(crate) fn advance(&mut self, ended: &mut VecDeque<Ended>) -> Nanos {
        let Reverse(due) = self.heap.pop().expect("an event is pending");
        let spent = Spent { queue: due.waited, die: due.served, ..Spent::default() };
        ended.push_back(Ended { slot: due.slot, result: Ok(()), spent });
        due.at
    }

    /// Returns whether no command is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

//! Commands that were given an end: what a device without dies is behind its interface.
//!
//! Invariants
//! - Commands end in the order of their ends; those that end together, in the order of submission.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hostftl_core::Nanos;

use crate::model::Ended;
use crate::work::Spent;

/// A command under way, without its `Spent`, which does not decide the order.
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
    /// Adds a command that ends at `at`, after it waited and was served for so long.
    pub(crate) fn push(&mut self, at: Nanos, slot: u32, waited: Nanos, served: Nanos) {
        self.number += 1;
        self.heap.push(Reverse(Due { at, number: self.number, slot, waited, served }));
    }

    /// When the next command ends.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }

    /// Ends the next command and says when that was.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn advance(&mut self, ended: &mut VecDeque<Ended>) -> Nanos {
        let Reverse(due) = self.heap.pop().expect("there is something to wait for");
        let spent = Spent { queue: due.waited, die: due.served, ..Spent::default() };
        ended.push_back(Ended { slot: due.slot, result: Ok(()), spent });
        due.at
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

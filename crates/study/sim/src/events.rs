//! What will happen, in the order of time; what happens at one moment keeps the order of its
//! making.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use hostftl_core::Nanos;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A command of the host's own is over.
    Host(u32),
    /// The layer wanted to be woken.
    Timer,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    at: Nanos,
    seq: u64,
    event: Event,
}

impl Ord for Entry {
    /// The earliest is the greatest, as the heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.seq).cmp(&(self.at, self.seq))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The events to come.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Entry>,
    seq: u64,
}

impl Events {
    /// Adds an event.
    pub(crate) fn push(&mut self, at: Nanos, event: Event) {
        self.seq += 1;
        self.heap.push(Entry { at, seq: self.seq, event });
    }

    /// When the next one happens.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next one.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

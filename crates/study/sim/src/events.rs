//! The queue of future events in order of time. Events at the same time keep the order of their
//! creation.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use hostftl_core::Nanos;

/// An event of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A command on the host's processors completes.
    Host(u32),
    /// The layer's timer fires.
    Timer,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    at: Nanos,
    seq: u64,
    event: Event,
}

impl Ord for Entry {
    /// Orders the earliest event as the greatest, because the heap pops the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.seq).cmp(&(self.at, self.seq))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The future events.
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

    /// Returns the time of the next event.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Removes and returns the next event.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

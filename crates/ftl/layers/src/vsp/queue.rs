//! First-in, first-out queues of superpages, linked through the records. A superpage is in at most
//! one queue, and never in a queue and a victim list at the same time.

use super::pool::NONE;
use super::records::Records;

/// A queue of superpages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
    len: u32,
}

impl Queue {
    /// Creates an empty queue.
    pub(crate) const fn new() -> Self {
        Queue { first: NONE, last: NONE, len: 0 }
    }

    /// Returns the number of queued superpages.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the first superpage.
    pub(crate) fn front(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Appends a superpage.
    pub(crate) fn push(&mut self, records: &mut Records, vsp: u32) {
        records.set_next(vsp, NONE);
        records.set_prev(vsp, self.last);
        match self.last {
            NONE => self.first = vsp,
            last => records.set_next(last, vsp),
        }
        self.last = vsp;
        self.len += 1;
    }

    /// Removes and returns the first superpage.
    pub(crate) fn pop(&mut self, records: &mut Records) -> Option<u32> {
        let vsp = self.front()?;
        self.remove(records, vsp);
        Some(vsp)
    }

    /// Removes a superpage from any position.
    pub(crate) fn remove(&mut self, records: &mut Records, vsp: u32) {
        let (prev, next) = (records.prev(vsp), records.next(vsp));
        match prev {
            NONE => self.first = next,
            prev => records.set_next(prev, next),
        }
        match next {
            NONE => self.last = prev,
            next => records.set_prev(next, prev),
        }
        self.len -= 1;
    }

    /// Iterates over the queue in order.
    pub(crate) fn iter<'a>(&self, records: &'a Records) -> Iter<'a> {
        Iter { records, at: self.first, left: self.len }
    }
}

/// Iterator over a [`Queue`].
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a> {
    records: &'a Records,
    at: u32,
    left: u32,
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let vsp = self.at;
        self.left = self.left.checked_sub(1)?;
        self.at = self.records.next(vsp);
        Some(vsp)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Iter<'_> {}

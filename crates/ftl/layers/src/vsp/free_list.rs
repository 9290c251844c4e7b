//! Free superpages, in the order in which they are taken.
//!
//! After a start of a large volume most superpages have never been used. They are a range, so that
//! a start need not visit them.
//!
//! Invariants
//! - A free superpage is either in the range or in one of the queues. Those of `early` come before
//!   the range, those of `late` after it.

use core::ops::Range;

use super::queue::{Iter, Queue};
use super::records::Records;

/// The free superpages.
#[derive(Debug)]
pub(super) struct FreeList {
    early: Queue,
    fresh: Range<u32>,
    /// Whether the range is taken from its end.
    backwards: bool,
    late: Queue,
}

impl FreeList {
    /// Creates an empty list.
    pub(super) const fn new() -> Self {
        FreeList { early: Queue::new(), fresh: 0..0, backwards: false, late: Queue::new() }
    }

    /// Returns the number of superpages.
    pub(super) fn len(&self) -> usize {
        self.early.len() + self.fresh.len() + self.late.len()
    }

    /// Appends a superpage.
    pub(super) fn push(&mut self, records: &mut Records, vsp: u32) {
        self.late.push(records, vsp);
    }

    /// Appends a range of superpages, once.
    pub(super) fn push_range(&mut self, fresh: Range<u32>, backwards: bool) {
        assert!(self.fresh.is_empty() && self.early.len() == 0, "a range is added once");
        self.early = core::mem::replace(&mut self.late, Queue::new());
        (self.fresh, self.backwards) = (fresh, backwards);
    }

    /// Removes and returns the first superpage.
    pub(super) fn pop(&mut self, records: &mut Records) -> Option<u32> {
        let fresh = &mut self.fresh;
        let early = self.early.pop(records);
        early
            .or_else(|| if self.backwards { fresh.next_back() } else { fresh.next() })
            .or_else(|| self.late.pop(records))
    }

    /// Removes a superpage that is in a queue, where no range was added.
    pub(super) fn remove(&mut self, records: &mut Records, vsp: u32) {
        assert!(self.early.len() == 0, "all superpages are in one queue");
        self.late.remove(records, vsp);
    }

    /// Iterates over the list in order.
    pub(super) fn iter<'a>(&self, records: &'a Records) -> Free<'a> {
        Free {
            early: self.early.iter(records),
            fresh: self.fresh.clone(),
            backwards: self.backwards,
            late: self.late.iter(records),
        }
    }
}

/// Iterator over a [`FreeList`].
#[derive(Clone, Debug)]
pub(crate) struct Free<'a> {
    early: Iter<'a>,
    fresh: Range<u32>,
    backwards: bool,
    late: Iter<'a>,
}

impl Iterator for Free<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let fresh = &mut self.fresh;
        let early = self.early.next();
        early
            .or_else(|| if self.backwards { fresh.next_back() } else { fresh.next() })
            .or_else(|| self.late.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.early.len() + self.fresh.len() + self.late.len();
        (len, Some(len))
    }
}

impl ExactSizeIterator for Free<'_> {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_range_is_taken_between_the_queues() {
        for (backwards, order) in [(false, [7, 2, 4, 5, 0, 1]), (true, [7, 2, 5, 4, 0, 1])] {
            let (mut list, mut records) = (FreeList::new(), Records::new(8));
            list.push(&mut records, 7);
            list.push(&mut records, 2);
            list.push_range(4..6, backwards);
            list.push(&mut records, 0);
            list.push(&mut records, 1);
            assert_eq!(list.iter(&records).collect::<Vec<_>>(), order);
            assert_eq!((list.len(), list.iter(&records).len()), (6, 6));
            assert_eq!(order.map(Some), [(); 6].map(|()| list.pop(&mut records)));
            assert_eq!(list.pop(&mut records), None);
        }
    }
}

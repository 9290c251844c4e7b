//! Queues of superpages, first in, first out, linked through the pool: a superpage is in one at
//! most, and in no list of victims meanwhile.

use super::pool::{NONE, Pool};

/// A queue.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    first: u32,
    last: u32,
    len: u32,
}

impl Queue {
    /// Nobody waits.
    pub const fn new() -> Self {
        Queue { first: NONE, last: NONE, len: 0 }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first.
    pub fn front(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Puts a superpage at the end.
    pub fn push(&mut self, pool: &mut Pool, vsp: u32) {
        pool.records.set_next(vsp, NONE);
        pool.records.set_prev(vsp, self.last);
        match self.last {
            NONE => self.first = vsp,
            last => pool.records.set_next(last, vsp),
        }
        self.last = vsp;
        self.len += 1;
    }

    /// Takes the first.
    pub fn pop(&mut self, pool: &mut Pool) -> Option<u32> {
        let vsp = self.front()?;
        self.remove(pool, vsp);
        Some(vsp)
    }

    /// Takes one that waits.
    pub fn remove(&mut self, pool: &mut Pool, vsp: u32) {
        let (prev, next) = (pool.records.prev(vsp), pool.records.next(vsp));
        match prev {
            NONE => self.first = next,
            prev => pool.records.set_next(prev, next),
        }
        match next {
            NONE => self.last = prev,
            next => pool.records.set_prev(next, prev),
        }
        self.len -= 1;
    }

    /// All of them, in order.
    pub fn iter<'a>(&self, pool: &'a Pool) -> Iter<'a> {
        Iter { pool, at: self.first, left: self.len }
    }
}

/// See [`Queue::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    pool: &'a Pool,
    at: u32,
    left: u32,
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let vsp = self.at;
        self.left = self.left.checked_sub(1)?;
        self.at = self.pool.records.next(vsp);
        Some(vsp)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Iter<'_> {}

//! What a server has completed and not yet flushed: it may lose that when it dies.
//!
//! Invariants
//! - Writes that overlap are never on their way at the same time, so the order here is the order on
//!   the server.
//! - A write leaves the list only when a flush has covered it.

use std::collections::VecDeque;

use crate::transfer::{Call, NO_FILE, Transfer};

/// From here on the client flushes by itself, in bytes.
pub(super) const FLUSH_AT: u64 = 32 << 20;
/// From here on writes wait for that flush, in bytes.
pub(super) const FULL_AT: u64 = 64 << 20;
/// What an entry costs beside its data, in bytes.
pub(super) const ENTRY: u64 = 128;

/// What was written.
#[derive(Debug)]
pub(crate) enum Kept {
    /// These bytes.
    Bytes { offset: u64, bytes: Box<[u8]> },
    /// Zeros.
    Zeros { offset: u64, len: u64 },
}

impl Kept {
    /// What sends it again. The entry stays where it is on the heap meanwhile.
    pub(crate) fn transfer(&self) -> Transfer {
        match self {
            Kept::Zeros { offset, len } => Transfer::reset(0, NO_FILE, *offset, *len),
            Kept::Bytes { offset, bytes } => {
                let len = bytes.len() as u64;
                let mut transfer = Transfer::new(0, NO_FILE, Call::Write, *offset, len);
                transfer.push(bytes.as_ptr().cast_mut(), bytes.len());
                transfer
            }
        }
    }

    /// Memory that it takes.
    fn cost(&self) -> u64 {
        match self {
            Kept::Bytes { bytes, .. } => ENTRY + bytes.len() as u64,
            Kept::Zeros { .. } => ENTRY,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Unflushed {
    list: VecDeque<Kept>,
    /// The number of the first entry.
    first: u64,
    cost: u64,
}

impl Unflushed {
    /// Takes in what was completed just now.
    pub(super) fn push(&mut self, kept: Kept) {
        self.cost += kept.cost();
        self.list.push_back(kept);
    }

    /// The number of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.first + self.list.len() as u64
    }

    /// A flush is over that was sent when the next entry had the number `covers`.
    pub(super) fn flushed(&mut self, covers: u64) {
        while self.first < covers {
            let gone = self.list.pop_front().expect("a flush covers what there was");
            self.cost -= gone.cost();
            self.first += 1;
        }
    }

    /// Memory that it takes, in bytes.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// All entries in order; the list is empty then.
    pub(super) fn take(&mut self) -> VecDeque<Kept> {
        self.first = self.next();
        self.cost = 0;
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_was_there_when_it_was_sent() {
        let mut unflushed = Unflushed::default();
        let zeros = |offset| Kept::Zeros { offset, len: 512 };
        unflushed.push(zeros(0));
        unflushed.push(Kept::Bytes { offset: 512, bytes: vec![1; 512].into() });
        let covers = unflushed.next();
        unflushed.push(zeros(1024));
        unflushed.flushed(covers);
        assert_eq!(unflushed.cost(), ENTRY);
        unflushed.flushed(covers);
        let left = unflushed.take();
        assert!(
            matches!(left.iter().collect::<Vec<_>>()[..], [Kept::Zeros { offset: 1024, .. }]),
            "{left:?}"
        );
        assert_eq!((unflushed.cost(), unflushed.next()), (0, 3));
    }
}

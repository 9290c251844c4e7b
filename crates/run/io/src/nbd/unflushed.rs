//! Writes that a server completed and did not flush. It may lose them when it crashes.
//!
//! Invariants
//! - Overlapping writes are never in flight together, so the order of this list is that of the
//!   server.
//! - A write is removed only when a flush has covered it.

use std::collections::VecDeque;

use crate::transfer::{Call, NO_FILE, Transfer};

/// Memory in bytes from which the client flushes by itself.
pub(super) const FLUSH_AT: u64 = 32 << 20;
/// Memory in bytes from which writes wait for that flush.
pub(super) const FULL_AT: u64 = 64 << 20;
/// Memory of an entry without its data, in bytes.
pub(super) const ENTRY: u64 = 128;

/// Completed write.
#[derive(Debug)]
pub(crate) enum CompletedWrite {
    /// Data.
    Bytes { offset: u64, bytes: Box<[u8]> },
    /// Zeros.
    Zeros { offset: u64, len: u64 },
}

impl CompletedWrite {
    /// Returns a transfer that repeats the write. The entry's heap memory must not move meanwhile.
    pub(crate) fn transfer(&self) -> Transfer {
        match self {
            CompletedWrite::Zeros { offset, len } => Transfer::reset(0, NO_FILE, *offset, *len),
            CompletedWrite::Bytes { offset, bytes } => {
                let len = bytes.len() as u64;
                let mut transfer = Transfer::new(0, NO_FILE, Call::Write, *offset, len);
                transfer.push(bytes.as_ptr().cast_mut(), bytes.len());
                transfer
            }
        }
    }

    /// Returns the memory that the entry takes, in bytes.
    fn cost(&self) -> u64 {
        match self {
            CompletedWrite::Bytes { bytes, .. } => ENTRY + bytes.len() as u64,
            CompletedWrite::Zeros { .. } => ENTRY,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// Entries in the order of their completion.
    list: VecDeque<CompletedWrite>,
    /// Number of the first entry.
    first: u64,
    cost: u64,
}

impl Unflushed {
    /// Adds a completed write.
    pub(super) fn push(&mut self, kept: CompletedWrite) {
        self.cost += kept.cost();
        self.list.push_back(kept);
    }

    /// Returns the number of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.first + self.list.len() as u64
    }

    /// Removes the writes covered by a flush that was sent when the next entry had the number
    /// `covers`.
    pub(super) fn flushed(&mut self, covers: u64) {
        // Another flush may have covered some of them already.
        while self.first < covers {
            let flushed = self.list.pop_front().expect("a flush covers the listed writes");
            self.cost -= flushed.cost();
            self.first += 1;
        }
    }

    /// Returns the memory of all entries in bytes.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// Takes all entries in order. The list is empty afterwards.
    pub(super) fn take(&mut self) -> VecDeque<CompletedWrite> {
        // Numbers continue, so that an earlier flush does not cover later writes.
        self.first = self.next();
        self.cost = 0;
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_writes_completed_before_it() {
        let mut unflushed = Unflushed::default();
        let zeros = |offset| CompletedWrite::Zeros { offset, len: 512 };
        unflushed.push(zeros(0));
        unflushed.push(CompletedWrite::Bytes { offset: 512, bytes: vec![1; 512].into() });
        let covers = unflushed.next();
        unflushed.push(zeros(1024));
        unflushed.flushed(covers);
        assert_eq!(unflushed.cost(), ENTRY);
        unflushed.flushed(covers);
        let left = unflushed.take();
        assert!(
            matches!(
                left.iter().collect::<Vec<_>>()[..],
                [CompletedWrite::Zeros { offset: 1024, .. }]
            ),
            "{left:?}"
        );
        assert_eq!((unflushed.cost(), unflushed.next()), (0, 3));
    }
}

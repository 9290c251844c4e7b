//! When writes are answered from the write buffer, and flushes after it.
//!
//! Invariants
//! - A write is answered when what was given to the flash up to it, and is not programmed, fits the
//!   half of the buffer that is for that; the other half is for what waits to be merged.
//! - A flush is answered when all that was given to the flash before it is programmed. Each flush
//!   begins an epoch, and programs count for the epoch in which they began.

use std::collections::VecDeque;

use hostftl_core::Nanos;

/// A command that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub slot: u32,
    pub since: Nanos,
    /// Sectors that were issued before it, or the epoch that it ends.
    until: u64,
}

#[derive(Debug)]
pub(super) struct Acks {
    /// Sectors of the buffer that programs may hold.
    limit: u64,
    issued: u64,
    released: u64,
    writes: VecDeque<Waiting>,
    /// Programs under way of each epoch since the oldest that is not over.
    epochs: VecDeque<u32>,
    oldest: u64,
    flushes: VecDeque<Waiting>,
}

impl Acks {
    pub(super) fn new(limit: u64) -> Self {
        let mut epochs = VecDeque::with_capacity(256);
        epochs.push_back(0);
        Acks {
            limit,
            issued: 0,
            released: 0,
            writes: VecDeque::with_capacity(256),
            epochs,
            oldest: 0,
            flushes: VecDeque::with_capacity(256),
        }
    }

    /// A program that holds so many sectors begins; gives its epoch.
    #[inline]
    pub(super) fn issue(&mut self, held: u32) -> u32 {
        self.issued += u64::from(held);
        *self.epochs.back_mut().expect("there is an epoch") += 1;
        self.oldest as u32 + self.epochs.len() as u32 - 1
    }

    /// A program is over.
    #[inline]
    pub(super) fn release(&mut self, held: u32, epoch: u32) {
        self.released += u64::from(held);
        let at = epoch.wrapping_sub(self.oldest as u32);
        self.epochs[at as usize] -= 1;
        while self.epochs.len() > 1 && self.epochs[0] == 0 {
            self.epochs.pop_front();
            self.oldest += 1;
        }
    }

    /// Whether a write can be answered at once; if not, it waits.
    pub(super) fn write(&mut self, slot: u32, since: Nanos) -> bool {
        let until = self.issued;
        if self.writes.is_empty() && until - self.released <= self.limit {
            return true;
        }
        self.writes.push_back(Waiting { slot, since, until });
        false
    }

    /// Whether a flush can be answered at once; if not, it waits.
    pub(super) fn flush(&mut self, slot: u32, since: Nanos) -> bool {
        if self.epochs.iter().all(|&programs| programs == 0) {
            return true;
        }
        let until = self.oldest + self.epochs.len() as u64 - 1;
        self.flushes.push_back(Waiting { slot, since, until });
        self.epochs.push_back(0);
        false
    }

    /// A command that need not wait any longer.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        if let Some(&write) = self.writes.front()
            && write.until.saturating_sub(self.released) <= self.limit
        {
            return self.writes.pop_front();
        }
        self.flushes.pop_front_if(|flush| flush.until < self.oldest)
    }

    /// Whether nothing waits and nothing is held.
    pub(super) fn idle(&self) -> bool {
        self.writes.is_empty() && self.flushes.is_empty() && self.issued == self.released
    }
}

//! Acknowledgement of writes from the write buffer, and of flushes.
//!
//! Invariants
//! - A write is acknowledged when all sectors issued up to it and not yet programmed fit into half
//!   of the buffer. The other half holds partial units that wait to be merged.
//! - A flush completes when everything issued to the flash before it is programmed. Each flush
//!   begins an epoch, and a program belongs to the epoch in which it was issued.

use std::collections::VecDeque;

use hostftl_core::Nanos;

/// A command that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub slot: u32,
    pub since: Nanos,
    /// Sectors that were issued before a write, or the epoch that a flush ends.
    until: u64,
}

#[derive(Debug)]
pub(super) struct Acks {
    /// Sectors of the buffer that programs may hold.
    limit: u64,
    issued: u64,
    released: u64,
    writes: VecDeque<Waiting>,
    /// Programs in progress in each epoch, from the oldest unfinished epoch on.
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

    /// Records the start of a program that holds `held` sectors of the buffer. Returns its epoch.
    #[inline]
    pub(super) fn issue(&mut self, held: u32) -> u32 {
        self.issued += u64::from(held);
        *self.epochs.back_mut().expect("there is an epoch") += 1;
        self.oldest as u32 + self.epochs.len() as u32 - 1
    }

    /// Records the end of a program.
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

    /// Returns whether a write can be acknowledged at once. Otherwise it waits.
    pub(super) fn write(&mut self, slot: u32, since: Nanos) -> bool {
        let until = self.issued;
        if self.writes.is_empty() && until - self.released <= self.limit {
            return true;
        }
        self.writes.push_back(Waiting { slot, since, until });
        false
    }

    /// Returns whether a flush can be completed at once. Otherwise it waits.
    pub(super) fn flush(&mut self, slot: u32, since: Nanos) -> bool {
        if self.epochs.iter().all(|&programs| programs == 0) {
            return true;
        }
        let until = self.oldest + self.epochs.len() as u64 - 1;
        self.flushes.push_back(Waiting { slot, since, until });
        self.epochs.push_back(0);
        false
    }

    /// Returns the next command that no longer has to wait.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        if let Some(&write) = self.writes.front()
            && write.until.saturating_sub(self.released) <= self.limit
        {
            return self.writes.pop_front();
        }
        self.flushes.pop_front_if(|flush| flush.until < self.oldest)
    }

    /// Returns whether no command waits and no program holds sectors.
    pub(super) fn idle(&self) -> bool {
        self.writes.is_empty() && self.flushes.is_empty() && self.issued == self.released
    }
}

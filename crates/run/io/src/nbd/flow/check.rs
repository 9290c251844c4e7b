//! Comparison of the server's data with the expected data where late writes may have changed it.
//!
//! A check reads every known range in order and rewrites those that differ. If it rewrote any, it
//! flushes and starts again. A check is due when a flush covers data that was not compared, and
//! when the time for a late write has passed.

use std::time::Instant;

use hostftl_core::DeviceError;

use super::super::item::{Item, Origin};
use super::{Flow, PAUSE};
use crate::transfer::{Call, NO_FILE, Transfer};

/// Maximum length of a read in bytes.
const LONGEST: u32 = 1 << 20;
/// Number of repetitions after which the server is considered unable to store its data.
const MOST: u32 = 8;

/// Check in progress, and the flushes that wait for a check.
#[derive(Debug, Default)]
pub(super) struct Check {
    round: Option<Round>,
    /// Flushes that end with the current check.
    held: Vec<Item>,
    /// Flushes that end with the next check.
    next: Vec<Item>,
    /// Earliest time of the next check after a failed one, if no flush requires it.
    again_from: Option<Instant>,
}

#[derive(Debug)]
struct Round {
    begun: Instant,
    /// Number of the last change when the check began.
    changes: u64,
    /// Position up to which the ranges are compared, in bytes.
    cursor: u64,
    /// Whether the check rewrote data since it last started.
    repaired: bool,
    /// Number of repetitions.
    times: u32,
}

impl Check {
    /// Holds a flush that the server completed until the next check has ended.
    pub(super) fn hold(&mut self, flush: Item) {
        self.next.push(flush);
    }

    /// Stops the check after the connection is lost. Returns the flushes that must be repeated.
    pub(super) fn stop(&mut self) -> impl Iterator<Item = Item> {
        self.round = None;
        std::mem::take(&mut self.held).into_iter().chain(std::mem::take(&mut self.next))
    }

    /// Returns the flushes that are late, or all of them.
    pub(super) fn take_late(&mut self, late: Option<Instant>) -> impl Iterator<Item = Item> {
        let mut taken = Vec::new();
        for list in [&mut self.held, &mut self.next] {
            taken.extend(list.extract_if(.., |item| late.is_none_or(|now| item.deadline <= now)));
        }
        taken.into_iter()
    }
}

impl Flow {
    /// Starts a check if one is due.
    pub(super) fn begin_check(&mut self) {
        // Repeated writes must be complete before a comparison.
        if self.check.round.is_some() || self.again > 0 {
            return;
        }
        let begun = Instant::now();
        let may = self.check.again_from.is_none_or(|from| from <= begun);
        if self.check.next.is_empty() && !(may && self.late_writes.has_ended(begun)) {
            return;
        }
        self.check.held = std::mem::take(&mut self.check.next);
        let changes = self.late_writes.changes();
        self.check.round = Some(Round { begun, changes, cursor: 0, repaired: false, times: 0 });
        self.check_next();
    }

    /// Starts the next step of the check.
    fn check_next(&mut self) {
        let Some(round) = self.check.round.as_mut() else { return };
        let most = self.longest.min(LONGEST);
        if let Some((offset, len)) = self.late_writes.next(round.cursor, most.into()) {
            round.cursor = offset + len;
            let mut bytes = vec![0; len as usize].into_boxed_slice();
            let mut read = Transfer::new(0, NO_FILE, Call::Read, offset, len);
            read.push(bytes.as_mut_ptr(), bytes.len());
            self.queue_first(read, Origin::Check(bytes));
        } else if round.repaired {
            self.queue_first(Transfer::sync(0, NO_FILE), Origin::Seal);
        } else {
            self.end_check(Ok(()));
        }
    }

    /// Queues a transfer first: nothing else starts before it, so its range does not change.
    fn queue_first(&mut self, transfer: Transfer, origin: Origin) {
        let deadline = Instant::now() + self.timeout;
        self.waiting.push_front(Item::new(transfer, origin, deadline));
    }

    /// Processes the server's data in the range that ends at byte `end`.
    pub(super) fn compare_range(
        &mut self,
        end: u64,
        bytes: &[u8],
        result: Result<(), DeviceError>,
    ) {
        if result.is_err() {
            return self.end_check(result);
        }
        match self.late_writes.repair(end - bytes.len() as u64, bytes) {
            Some(right) => self.queue_first(right.transfer(), Origin::Repair(right)),
            None => self.check_next(),
        }
    }

    /// Processes the end of a rewrite.
    pub(super) fn repaired(&mut self, result: Result<(), DeviceError>) {
        if result.is_err() {
            return self.end_check(result);
        }
        if let Some(round) = self.check.round.as_mut() {
            round.repaired = true;
        }
        self.check_next();
    }

    /// Processes the end of the flush after rewrites.
    pub(super) fn sealed(&mut self, result: Result<(), DeviceError>) {
        let Some(round) = self.check.round.as_mut() else { return };
        round.times += 1;
        if result.is_err() || round.times == MOST {
            return self.end_check(Err(DeviceError::Media));
        }
        // A late write may have arrived after the comparison, so all ranges are compared again.
        (round.cursor, round.repaired) = (0, false);
        self.check_next();
    }

    fn end_check(&mut self, result: Result<(), DeviceError>) {
        let Some(round) = self.check.round.take() else { return };
        // A failed check is not repeated at once.
        self.check.again_from = result.is_err().then(|| Instant::now() + PAUSE);
        if result.is_ok() {
            self.late_writes.compared(round.changes, round.begun);
        }
        let held = std::mem::take(&mut self.check.held);
        self.over.extend(held.into_iter().map(|item| (item, result)));
    }
}

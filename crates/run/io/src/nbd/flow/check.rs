//! Comparing what the server has with what it should have, where ghosts may have changed it.
//!
//! A check reads every range that is known one after the other and writes what is not right. If it
//! wrote anything it flushes and begins anew. It is due when a flush covers something that was not
//! compared, and when the time of a ghost is over.

use std::time::Instant;

use hostftl_core::DeviceError;

use super::super::item::{Item, Origin};
use super::{Flow, PAUSE};
use crate::transfer::{Call, NO_FILE, Transfer};

/// The longest read, in bytes.
const LONGEST: u32 = 1 << 20;
/// How often a check begins anew before the server counts as one that can't hold what it has.
const MOST: u32 = 8;

/// The check that is under way, and the flushes that wait for one.
#[derive(Debug, Default)]
pub(super) struct Check {
    round: Option<Round>,
    /// Flushes that are over with this check.
    held: Vec<Item>,
    /// Flushes that are over with the next check.
    next: Vec<Item>,
    /// After a failure: when to try again for ghosts whose time is over.
    again_from: Option<Instant>,
}

#[derive(Debug)]
struct Round {
    begun: Instant,
    /// The last change when it began.
    changes: u64,
    /// All before this byte was compared.
    cursor: u64,
    mended: bool,
    /// How often it began anew.
    times: u32,
}

impl Check {
    /// The server has flushed; the flush is over when the check that begins next is.
    pub(super) fn hold(&mut self, flush: Item) {
        self.next.push(flush);
    }

    /// The connection is gone: the flushes that have to be made again.
    pub(super) fn stop(&mut self) -> impl Iterator<Item = Item> {
        self.round = None;
        std::mem::take(&mut self.held).into_iter().chain(std::mem::take(&mut self.next))
    }

    /// The flushes that are late, or all of them.
    pub(super) fn give_up(&mut self, late: Option<Instant>) -> impl Iterator<Item = Item> {
        let mut gone = Vec::new();
        for list in [&mut self.held, &mut self.next] {
            gone.extend(list.extract_if(.., |item| late.is_none_or(|now| item.deadline <= now)));
        }
        gone.into_iter()
    }
}

impl Flow {
    /// Begins a check if one is due.
    pub(super) fn begin_check(&mut self) {
        if self.check.round.is_some() || self.again > 0 {
            return;
        }
        let begun = Instant::now();
        let may = self.check.again_from.is_none_or(|from| from <= begun);
        if self.check.next.is_empty() && !(may && self.ghosts.has_ended(begun)) {
            return;
        }
        self.check.held = std::mem::take(&mut self.check.next);
        let changes = self.ghosts.changes();
        self.check.round = Some(Round { begun, changes, cursor: 0, mended: false, times: 0 });
        self.go_on();
    }

    /// The next step of the check.
    fn go_on(&mut self) {
        let Some(round) = self.check.round.as_mut() else { return };
        let most = self.longest.min(LONGEST);
        if let Some((offset, len)) = self.ghosts.next(round.cursor, most.into()) {
            round.cursor = offset + len;
            let mut bytes = vec![0; len as usize].into_boxed_slice();
            let mut read = Transfer::new(0, NO_FILE, Call::Read, offset, len);
            read.push(bytes.as_mut_ptr(), bytes.len());
            self.go_first(read, Origin::Check(bytes));
        } else if round.mended {
            self.go_first(Transfer::sync(0, NO_FILE), Origin::Seal);
        } else {
            self.end_check(Ok(()));
        }
    }

    /// Nothing begins before this, so what it is about stays as it is.
    fn go_first(&mut self, transfer: Transfer, origin: Origin) {
        let deadline = Instant::now() + self.timeout;
        self.waiting.push_front(Item::new(transfer, origin, deadline));
    }

    /// The server has these bytes before byte `end`.
    pub(super) fn looked(&mut self, end: u64, bytes: &[u8], result: Result<(), DeviceError>) {
        if result.is_err() {
            return self.end_check(result);
        }
        match self.ghosts.mend(end - bytes.len() as u64, bytes) {
            Some(right) => self.go_first(right.transfer(), Origin::Mend(right)),
            None => self.go_on(),
        }
    }

    /// The server has taken what is right.
    pub(super) fn mended(&mut self, result: Result<(), DeviceError>) {
        if result.is_err() {
            return self.end_check(result);
        }
        if let Some(round) = self.check.round.as_mut() {
            round.mended = true;
        }
        self.go_on();
    }

    /// The server has flushed what was mended.
    pub(super) fn sealed(&mut self, result: Result<(), DeviceError>) {
        let Some(round) = self.check.round.as_mut() else { return };
        round.times += 1;
        if result.is_err() || round.times == MOST {
            return self.end_check(Err(DeviceError::Media));
        }
        (round.cursor, round.mended) = (0, false);
        self.go_on();
    }

    fn end_check(&mut self, result: Result<(), DeviceError>) {
        let Some(round) = self.check.round.take() else { return };
        self.check.again_from = result.is_err().then(|| Instant::now() + PAUSE);
        if result.is_ok() {
            self.ghosts.compared(round.changes, round.begun);
        }
        let held = std::mem::take(&mut self.check.held);
        self.over.extend(held.into_iter().map(|item| (item, result)));
    }
}

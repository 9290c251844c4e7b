//! Acknowledgement log: acknowledged writes in memory that outlives the process, until a flush
//! makes them durable. The next server of the volume applies them (`serve --ack memfd`).
//!
//! Each write, trim and zeroing is logged before the layer gets it. The memory is a file on a
//! tmpfs, so no process has to hold it open. It is as volatile as the machine's memory.
//!
//! # Invariants
//! - The layer applies overlapping changes in the order of the log: a change waits for the replies
//!   to earlier ones that it overlaps.
//! - Entries are freed only when the reply to a flush reports success. The flush covers all entries
//!   up to the first one that had no reply when the flush was sent.
//! - A change whose reply is an error is not applied again.

pub(crate) mod entry;
mod folder;
mod put;
mod ring;

use std::collections::BTreeMap;

use self::entry::Kind;
use self::ring::Ring;

pub(crate) use self::folder::{PreviousLog, forget, forget_run, make, refuse_newer, tidy};
pub(crate) use self::put::put_through;

/// Acknowledgement log of the current run.
#[derive(Debug)]
pub(crate) struct AckLog {
    ring: Ring,
    /// Changes without a reply of the layer: the position and the range in bytes.
    flying: BTreeMap<u64, (u64, u64)>,
    /// Whether a flush for the log is in flight, and whether the last one failed.
    flushes: bool,
    failed: bool,
}

/// A change of the volume that is about to go to the layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// Kind of the change.
    pub kind: Kind,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes.
    pub bytes: u64,
    /// Data of a write, as long as its range; otherwise empty.
    pub data: &'a [u8],
}

/// Whether the layer may get a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The change is logged at this position.
    Kept(u64),
    /// The change has to wait for a reply to an earlier one.
    Waits,
    /// The layer has to flush first, to free space in the log.
    Flush,
    /// The log is full and a flush frees nothing, or the memory can't be written.
    Refused,
}

/// Action on the log when a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogAction {
    /// None.
    None,
    /// The change is logged at this position.
    Kept(u64),
    /// A flush that covers the entries before this position, and whether it was for the log.
    Covers(u64, bool),
}

impl AckLog {
    fn new(ring: Ring) -> Self {
        AckLog { ring, flying: BTreeMap::new(), flushes: false, failed: false }
    }

    /// Logs a change, if it may start now.
    pub(crate) fn enter(&mut self, change: &Change<'_>) -> Admission {
        let Change { kind, offset, bytes, data } = *change;
        let (begin, end) = (offset, offset + bytes);
        if self.flying.values().any(|&(from, to)| from < end && begin < to) {
            return Admission::Waits;
        }
        // A flush frees space only if the oldest entry has its reply.
        let helps = self.covers() > self.ring.tail() && !self.flushes;
        if !self.ring.fits(data.len() as u64) {
            // A failed flush refuses one change; the next change tries another flush.
            return match (helps, std::mem::take(&mut self.failed)) {
                (true, false) => self.want_flush(),
                (true, true) => Admission::Refused,
                (false, failed) => {
                    self.failed = failed;
                    Admission::Waits
                }
            };
        }
        // Flush early, so that changes rarely wait for space.
        if helps && !self.failed && self.ring.is_half_full() {
            return self.want_flush();
        }
        match self.ring.put(kind, offset, bytes, data) {
            Ok(place) => {
                // Registered by position, so that the first key is the oldest unanswered change.
                self.flying.insert(place, (begin, end));
                Admission::Kept(place)
            }
            Err(_) => Admission::Refused,
        }
    }

    fn want_flush(&mut self) -> Admission {
        self.flushes = true;
        Admission::Flush
    }

    /// Returns the position up to which all changes have a reply: a flush that is sent now makes
    /// them durable.
    pub(crate) fn covers(&self) -> u64 {
        self.flying.first_key_value().map_or(self.ring.head(), |(place, _)| *place)
    }

    /// Records the reply of the layer to the change at `place`.
    pub(crate) fn answered(&mut self, place: u64, is_ok: bool) {
        if !is_ok {
            // If the update fails, the change is applied again. That is allowed: a failed change
            // may have taken effect.
            self.ring.void(place).ok();
        }
        let was_there = self.flying.remove(&place).is_some();
        assert!(was_there, "one answer for each change");
    }

    /// Records the reply to a flush that covers the entries before `place`. `wanted` means that it
    /// was for the log and not for a client.
    pub(crate) fn flushed(&mut self, place: u64, wanted: bool, is_ok: bool) {
        if wanted {
            (self.flushes, self.failed) = (false, !is_ok);
        }
        if is_ok {
            self.failed = false;
            // Entries that can't be freed remain, and are applied once more than necessary.
            self.ring.free(place).ok();
        }
    }

    /// Removes the log after a clean stop of the volume.
    pub(crate) fn remove(self) {
        std::fs::remove_file(self.ring.path()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Creates a log with space for `blocks` entries of a block each.
    fn ack_log(folder: &Path, blocks: u64) -> AckLog {
        let (volume, boot, room) = ([1; 16], [2; 16], blocks * (4096 + entry::HEAD as u64));
        let label = entry::Label { volume, run: 1, boot, room, tail: 0 };
        AckLog::new(Ring::create(&folder.join("a.stash"), label).unwrap())
    }

    fn write(block: u64) -> Change<'static> {
        Change { kind: Kind::Write, offset: block * 4096, bytes: 4096, data: &[0; 4096] }
    }

    /// Logs a write of a block, and records its reply.
    fn put(ack_log: &mut AckLog, block: u64) {
        let Admission::Kept(place) = ack_log.enter(&write(block)) else { panic!("there is room") };
        ack_log.answered(place, true);
    }

    #[test]
    fn an_overlapping_request_waits_for_the_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut ack_log = ack_log(folder.path(), 64);
        let Admission::Kept(first) = ack_log.enter(&write(5)) else { panic!("there is room") };
        let trim = Change { kind: Kind::Trim, offset: 0, bytes: 1 << 20, data: &[] };
        assert_eq!(ack_log.enter(&trim), Admission::Waits);
        assert_eq!(ack_log.enter(&write(5)), Admission::Waits);
        assert!(matches!(ack_log.enter(&write(6)), Admission::Kept(_)), "that is beside it");
        ack_log.answered(first, true);
        assert!(matches!(ack_log.enter(&write(5)), Admission::Kept(_)));
    }

    #[test]
    fn a_flush_frees_writes_answered_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut ack_log = ack_log(folder.path(), 64);
        put(&mut ack_log, 1);
        let Admission::Kept(second) = ack_log.enter(&write(2)) else { panic!("there is room") };
        put(&mut ack_log, 3);
        let covers = ack_log.covers();
        assert_eq!(covers, second, "the second has no answer, so what follows it stays");
        ack_log.answered(second, true);
        ack_log.flushed(covers, false, false);
        assert_eq!(ack_log.ring.tail(), 0, "a flush that failed frees nothing");
        ack_log.flushed(covers, false, true);
        assert_eq!(ack_log.ring.tail(), second);
        ack_log.flushed(ack_log.covers(), false, true);
        assert_eq!(ack_log.ring.tail(), ack_log.ring.head());
    }

    #[test]
    fn a_flush_starts_at_half_and_writes_wait_only_in_a_full_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut ack_log = ack_log(folder.path(), 8);
        (0..5).for_each(|block| put(&mut ack_log, block));
        assert_eq!(ack_log.enter(&write(5)), Admission::Flush, "more than half is used");
        let covers = ack_log.covers();
        (5..8).for_each(|block| put(&mut ack_log, block));
        assert_eq!(ack_log.enter(&write(8)), Admission::Waits, "the flush is in flight");
        ack_log.flushed(covers, true, true);
        assert!(matches!(ack_log.enter(&write(8)), Admission::Kept(_)));
    }

    #[test]
    fn when_flushes_fail_a_full_log_refuses_and_tries_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut ack_log = ack_log(folder.path(), 4);
        (0..3).for_each(|block| put(&mut ack_log, block));
        assert_eq!(ack_log.enter(&write(3)), Admission::Flush);
        ack_log.flushed(ack_log.covers(), true, false);
        put(&mut ack_log, 3);
        assert_eq!(ack_log.enter(&write(4)), Admission::Refused, "no flush makes room");
        assert_eq!(ack_log.enter(&write(4)), Admission::Flush, "another one may");
        ack_log.flushed(ack_log.covers(), true, true);
        put(&mut ack_log, 4);
    }

    #[test]
    fn a_full_log_waits_for_its_oldest_unanswered_entry() {
        let folder = tempfile::tempdir().unwrap();
        let mut ack_log = ack_log(folder.path(), 3);
        let Admission::Kept(oldest) = ack_log.enter(&write(0)) else { panic!("there is room") };
        (1..3).for_each(|block| put(&mut ack_log, block));
        assert_eq!(ack_log.enter(&write(3)), Admission::Waits, "a flush would free nothing");
        ack_log.answered(oldest, true);
        assert_eq!(ack_log.enter(&write(3)), Admission::Flush);
    }
}

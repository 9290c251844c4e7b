//! Answered writes in memory that outlives the process, until a flush made them durable: the next
//! server of the volume finds them there (`serve --ack memfd`).
//!
//! Each write, trim and zeroing is put here before the layer gets it. The memory is a file on a
//! tmpfs, so that nobody has to hold it open. It is as volatile as the machine's memory is.
//!
//! Invariants
//! - The layer does overlapping changes in the order of the stash: one waits until those before it
//!   are answered.
//! - What a flush covers is freed only when its answer says that it is durable: what was answered
//!   before the flush was sent, as far as everything before that was.
//! - A change whose answer is an error is not put through again.

pub(crate) mod entry;
mod folder;
mod put;
mod ring;

use std::collections::BTreeMap;

use self::entry::Kind;
use self::ring::Ring;

pub(crate) use self::folder::{Left, forget, forget_run, make, refuse_newer, tidy};
pub(crate) use self::put::put_through;

/// See the module text.
#[derive(Debug)]
pub(crate) struct Stash {
    ring: Ring,
    /// What the layer has and has not answered: its place, and its range in bytes.
    flying: BTreeMap<u64, (u64, u64)>,
    /// Whether a flush that the stash wants is under way, and whether the last one failed.
    flushes: bool,
    failed: bool,
}

/// A change of the volume that is about to go to the layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// What it does.
    pub kind: Kind,
    /// The first byte of its range.
    pub offset: u64,
    /// The length of its range in bytes.
    pub bytes: u64,
    /// The data of a write, as long as its range; empty for others.
    pub data: &'a [u8],
}

/// Whether the layer may have a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// It is kept at this place.
    Kept(u64),
    /// Something has to be answered first.
    Waits,
    /// The layer has to flush first, for room.
    Flush,
    /// There is no room, and no flush makes any; or the memory can't be written.
    Refused,
}

/// What has to be done with the stash when a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nothing.
    None,
    /// It is kept at this place.
    Kept(u64),
    /// A flush that covers what is before this place, and whether the stash wanted it.
    Covers(u64, bool),
}

impl Stash {
    fn of(ring: Ring) -> Self {
        Stash { ring, flying: BTreeMap::new(), flushes: false, failed: false }
    }

    /// Keeps a change, if it may begin now.
    pub(crate) fn enter(&mut self, change: &Change<'_>) -> Entrance {
        let Change { kind, offset, bytes, data } = *change;
        let (begin, end) = (offset, offset + bytes);
        if self.flying.values().any(|&(from, to)| from < end && begin < to) {
            return Entrance::Waits;
        }
        // A flush frees something only when what is oldest is answered.
        let helps = self.covers() > self.ring.tail() && !self.flushes;
        if !self.ring.fits(data.len() as u64) {
            return match (helps, std::mem::take(&mut self.failed)) {
                (true, false) => self.want_flush(),
                (true, true) => Entrance::Refused,
                (false, failed) => {
                    self.failed = failed;
                    Entrance::Waits
                }
            };
        }
        if helps && !self.failed && self.ring.is_half_full() {
            return self.want_flush();
        }
        match self.ring.put(kind, offset, bytes, data) {
            Ok(place) => {
                self.flying.insert(place, (begin, end));
                Entrance::Kept(place)
            }
            Err(_) => Entrance::Refused,
        }
    }

    fn want_flush(&mut self) -> Entrance {
        self.flushes = true;
        Entrance::Flush
    }

    /// The place up to which all is answered: what a flush makes durable that is sent now.
    pub(crate) fn covers(&self) -> u64 {
        self.flying.first_key_value().map_or(self.ring.head(), |(place, _)| *place)
    }

    /// The layer answered the change at `place`, perhaps with an error.
    pub(crate) fn answered(&mut self, place: u64, is_ok: bool) {
        if !is_ok {
            // If that can't be noted, it is put through again: it may have happened anyway.
            self.ring.void(place).ok();
        }
        let was_there = self.flying.remove(&place).is_some();
        assert!(was_there, "one answer for each change");
    }

    /// The answer to a flush that covers what is before `place`, and that the stash `wanted`, or a
    /// client.
    pub(crate) fn flushed(&mut self, place: u64, wanted: bool, is_ok: bool) {
        if wanted {
            (self.flushes, self.failed) = (false, !is_ok);
        }
        if is_ok {
            self.failed = false;
            // What can't be freed stays, and is put through once more than needed.
            self.ring.free(place).ok();
        }
    }

    /// The volume was stopped clean: nothing of this is needed any more.
    pub(crate) fn remove(self) {
        std::fs::remove_file(self.ring.path()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A stash with room for so many entries of a block.
    fn stash(folder: &Path, blocks: u64) -> Stash {
        let (volume, boot, room) = ([1; 16], [2; 16], blocks * (4096 + entry::HEAD as u64));
        let label = entry::Label { volume, run: 1, boot, room, tail: 0 };
        Stash::of(Ring::create(&folder.join("a.stash"), label).unwrap())
    }

    fn write(block: u64) -> Change<'static> {
        Change { kind: Kind::Write, offset: block * 4096, bytes: 4096, data: &[0; 4096] }
    }

    /// Lets a write of a block in, and answers it.
    fn put(stash: &mut Stash, block: u64) {
        let Entrance::Kept(place) = stash.enter(&write(block)) else { panic!("there is room") };
        stash.answered(place, true);
    }

    #[test]
    fn what_overlaps_a_change_under_way_waits_for_its_answer() {
        let folder = tempfile::tempdir().unwrap();
        let mut stash = stash(folder.path(), 64);
        let Entrance::Kept(first) = stash.enter(&write(5)) else { panic!("there is room") };
        let trim = Change { kind: Kind::Trim, offset: 0, bytes: 1 << 20, data: &[] };
        assert_eq!(stash.enter(&trim), Entrance::Waits);
        assert_eq!(stash.enter(&write(5)), Entrance::Waits);
        assert!(matches!(stash.enter(&write(6)), Entrance::Kept(_)), "that is beside it");
        stash.answered(first, true);
        assert!(matches!(stash.enter(&write(5)), Entrance::Kept(_)));
    }

    #[test]
    fn a_flush_frees_what_was_answered_before_it_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let mut stash = stash(folder.path(), 64);
        put(&mut stash, 1);
        let Entrance::Kept(second) = stash.enter(&write(2)) else { panic!("there is room") };
        put(&mut stash, 3);
        let covers = stash.covers();
        assert_eq!(covers, second, "the second has no answer, so what follows it stays");
        stash.answered(second, true);
        stash.flushed(covers, false, false);
        assert_eq!(stash.ring.tail(), 0, "a flush that failed frees nothing");
        stash.flushed(covers, false, true);
        assert_eq!(stash.ring.tail(), second);
        stash.flushed(stash.covers(), false, true);
        assert_eq!(stash.ring.tail(), stash.ring.head());
    }

    #[test]
    fn a_flush_is_wanted_at_half_and_writes_wait_for_it_only_when_all_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let mut stash = stash(folder.path(), 8);
        (0..5).for_each(|block| put(&mut stash, block));
        assert_eq!(stash.enter(&write(5)), Entrance::Flush, "more than half is used");
        let covers = stash.covers();
        (5..8).for_each(|block| put(&mut stash, block));
        assert_eq!(stash.enter(&write(8)), Entrance::Waits, "the flush is under way");
        stash.flushed(covers, true, true);
        assert!(matches!(stash.enter(&write(8)), Entrance::Kept(_)));
    }

    #[test]
    fn when_flushes_fail_a_full_stash_refuses_and_tries_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut stash = stash(folder.path(), 4);
        (0..3).for_each(|block| put(&mut stash, block));
        assert_eq!(stash.enter(&write(3)), Entrance::Flush);
        stash.flushed(stash.covers(), true, false);
        put(&mut stash, 3);
        assert_eq!(stash.enter(&write(4)), Entrance::Refused, "no flush makes room");
        assert_eq!(stash.enter(&write(4)), Entrance::Flush, "another one may");
        stash.flushed(stash.covers(), true, true);
        put(&mut stash, 4);
    }

    #[test]
    fn a_full_stash_whose_oldest_entry_has_no_answer_waits_for_that() {
        let folder = tempfile::tempdir().unwrap();
        let mut stash = stash(folder.path(), 3);
        let Entrance::Kept(oldest) = stash.enter(&write(0)) else { panic!("there is room") };
        (1..3).for_each(|block| put(&mut stash, block));
        assert_eq!(stash.enter(&write(3)), Entrance::Waits, "a flush would free nothing");
        stash.answered(oldest, true);
        assert_eq!(stash.enter(&write(3)), Entrance::Flush);
    }
}

//! What the host published and no record has: a list of notes, in the order of publication.
//!
//! Invariants
//! - There are at most [`MOST`] notes.
//! - All publications that no record has and that may be lost with their rows are noted, but for
//!   those up to `unlisted`.

use alloc::collections::VecDeque;

/// Publications that are remembered for the next record.
const MOST: usize = 4096;

/// Something that the host published, and that no record has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub row: u8,
    pub item: u32,
    pub stamp: u64,
}

#[derive(Debug)]
pub(super) struct Notes {
    list: VecDeque<Note>,
    /// Notes up to this were given up, because they were too many for a record.
    unlisted: u64,
}

impl Notes {
    /// None; room is needed only where there is a journal.
    pub(super) fn new(is_used: bool) -> Self {
        let room = if is_used { MOST } else { 0 };
        Notes { list: VecDeque::with_capacity(room), unlisted: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether one more has no room.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() == MOST
    }

    /// One of them.
    pub(super) fn at(&self, index: u32) -> Note {
        self.list[index as usize]
    }

    /// One more.
    pub(super) fn push(&mut self, note: Note) {
        assert!(!self.is_full(), "room for notes was made");
        self.list.push_back(note);
    }

    /// Whether all publications from an order on are noted.
    pub(super) fn has_all_from(&self, order: u64) -> bool {
        order > self.unlisted
    }

    /// Forgets those behind the first `from` that are not wanted.
    pub(super) fn forget(&mut self, from: usize, is_wanted: impl Fn(&Note) -> bool) {
        let mut at = 0;
        self.list.retain(|note| {
            at += 1;
            at <= from || is_wanted(note)
        });
    }

    /// When forgetting made little room there are too many for a record: those behind the first
    /// `from` are given up, which are publications up to `clock`.
    pub(super) fn give_up(&mut self, from: usize, clock: u64) {
        if self.list.len() > MOST / 2 {
            self.list.truncate(from);
            self.unlisted = clock;
        }
    }

    /// A record has the first so many.
    pub(super) fn recorded(&mut self, count: u32) {
        self.list.drain(..count as usize);
    }

    /// Rows are sealed for all of them.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }
}

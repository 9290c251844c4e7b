//! Publications of the host that no record has, as a list of notes in the order of publication.
//!
//! Invariants
//! - There are at most [`MOST`] notes.
//! - All publications that no record has and that could be lost with their stripes are noted,
//!   except those up to `unlisted`.

use alloc::collections::VecDeque;

/// Maximum number of notes.
const MOST: usize = 4096;

/// Publication of the host that no record has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub stripe: u8,
    pub item: u32,
    pub stamp: u64,
}

#[derive(Debug)]
pub(super) struct Notes {
    list: VecDeque<Note>,
    /// Publications up to this order were dropped, because they were too many for a record.
    unlisted: u64,
}

impl Notes {
    /// Returns an empty list; only a volume with a journal needs memory for it.
    pub(super) fn new(is_used: bool) -> Self {
        let room = if is_used { MOST } else { 0 };
        Notes { list: VecDeque::with_capacity(room), unlisted: 0 }
    }

    /// Returns the number of notes.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether the list is full.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() == MOST
    }

    /// Returns a note.
    pub(super) fn at(&self, index: u32) -> Note {
        self.list[index as usize]
    }

    /// Adds a note.
    pub(super) fn push(&mut self, note: Note) {
        assert!(!self.is_full(), "space for notes was reserved");
        self.list.push_back(note);
    }

    /// Returns whether all publications from an order on are noted.
    pub(super) fn has_all_from(&self, order: u64) -> bool {
        order > self.unlisted
    }

    /// Drops unwanted notes, except the first `from`.
    pub(super) fn forget(&mut self, from: usize, is_wanted: impl Fn(&Note) -> bool) {
        let mut at = 0;
        self.list.retain(|note| {
            at += 1;
            at <= from || is_wanted(note)
        });
    }

    /// Drops all notes except the first `from` if more than half of the list is in use. These are
    /// publications up to `clock`, and too many for a record.
    pub(super) fn drop_excess(&mut self, from: usize, clock: u64) {
        if self.list.len() > MOST / 2 {
            self.list.truncate(from);
            self.unlisted = clock;
        }
    }

    /// Removes the first `count` notes, which a record has.
    pub(super) fn recorded(&mut self, count: u32) {
        self.list.drain(..count as usize);
    }

    /// Drops all notes, because stripes are sealed for them.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }
}

//! Conditions for the reuse of segments without valid data, and counts of their use.
//!
//! Invariants
//! - One root is in progress at a time.

#[derive(Debug, Default)]
pub(crate) struct Reuse {
    /// Roots started so far.
    roots: u64,
    is_rooting: bool,
    /// Number of events that may make a segment free.
    changes: u64,
    /// Value of `changes` when the fast path was entered.
    unchanged_at: u64,
    /// Segments opened for data in this life.
    opened: u64,
}

impl Reuse {
    /// Returns the number of roots started so far.
    pub(crate) fn roots(&self) -> u64 {
        self.roots
    }

    /// Notes the start of a root. Segments that are empty now become free when it is durable.
    pub(crate) fn root_begun(&mut self) {
        assert!(!self.is_rooting, "one root at a time");
        self.roots += 1;
        self.is_rooting = true;
    }

    /// Notes that the root in progress is durable.
    pub(crate) fn root_durable(&mut self) {
        self.is_rooting = false;
        self.changes += 1;
    }

    /// Returns whether a root is durable that was started after the first `roots` roots.
    pub(crate) fn is_behind_root(&self, roots: u64) -> bool {
        // Conservative: while a root is in progress, an earlier one may satisfy the condition
        // already.
        roots < self.roots && !self.is_rooting
    }

    /// Counts a segment that was opened, for data or for images of the map.
    pub(super) fn note_opened(&mut self, is_for_data: bool) {
        self.opened += u64::from(is_for_data);
        self.change();
    }

    /// Returns the number of segments opened for data in this life.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// Counts an event that may make an empty segment reusable.
    pub(crate) fn change(&mut self) {
        self.changes += 1;
    }

    /// Returns the number of these events.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns whether there was no such event since [`Reuse::mark_unchanged`].
    pub(crate) fn is_unchanged(&self) -> bool {
        self.unchanged_at == self.changes
    }

    /// Marks the point from which events count.
    pub(crate) fn mark_unchanged(&mut self) {
        self.unchanged_at = self.changes;
    }
}

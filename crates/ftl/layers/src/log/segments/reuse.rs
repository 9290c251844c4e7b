//! When a segment in which nothing is live may be used again.
//!
//! Invariants
//! - One root is under way at a time.

#[derive(Debug, Default)]
pub(crate) struct Reuse {
    /// Roots begun so far.
    roots: u64,
    is_rooting: bool,
    /// Counts what may make a segment free.
    changes: u64,
    /// What that was when the engine became calm.
    unchanged_at: u64,
}

impl Reuse {
    /// Roots begun so far.
    pub(crate) fn roots(&self) -> u64 {
        self.roots
    }

    /// A root is begun: what is empty now is free when it is durable.
    pub(crate) fn root_begun(&mut self) {
        assert!(!self.is_rooting, "one root is under way at a time");
        self.roots += 1;
        self.is_rooting = true;
    }

    /// The root that was begun last is durable.
    pub(crate) fn root_durable(&mut self) {
        self.is_rooting = false;
        self.changes += 1;
    }

    /// Whether a root is durable that was begun after so many.
    pub(crate) fn is_behind_root(&self, roots: u64) -> bool {
        roots < self.roots && !self.is_rooting
    }

    /// Something happened for which an empty segment may be out of use.
    pub(crate) fn change(&mut self) {
        self.changes += 1;
    }

    /// Counts these changes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether there was no such change since [`Reuse::mark_unchanged`].
    pub(crate) fn is_unchanged(&self) -> bool {
        self.unchanged_at == self.changes
    }

    /// From now on changes count.
    pub(crate) fn mark_unchanged(&mut self) {
        self.unchanged_at = self.changes;
    }
}

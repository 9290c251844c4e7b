//! Durability requests: the marks that must become durable, and how soon.

use super::log::Mark;

/// The pending durability requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DurabilityRequests {
    soon: Mark,
    eventual: Mark,
    log_write: bool,
}

impl DurabilityRequests {
    /// Returns the mark that must become durable soon; stages are closed for it.
    pub(crate) fn soon(&self) -> Mark {
        self.soon
    }

    /// Returns the mark that should become durable once it has settled anyway.
    pub(crate) fn eventual(&self) -> Mark {
        self.eventual
    }

    /// Requests that `mark` becomes durable soon.
    pub(crate) fn request_soon(&mut self, mark: Mark) {
        self.soon = self.soon.max(mark);
    }

    /// Requests that `mark` becomes durable once it has settled anyway.
    pub(crate) fn request_eventually(&mut self, mark: Mark) {
        self.eventual = self.eventual.max(mark);
    }

    /// Returns whether a part waits for the next log write, regardless of its coverage.
    pub(crate) fn wants_log_write(&self) -> bool {
        self.log_write
    }

    /// Requests another log write, without which the caller can't proceed.
    pub(crate) fn request_log_write(&mut self) {
        self.log_write = true;
    }

    /// Notes that a log write was composed.
    pub(crate) fn log_write_composed(&mut self) {
        self.log_write = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_never_withdrawn() {
        let (early, late) =
            (Mark { stamp: 1, ..Mark::default() }, Mark { stamp: 2, pos: 3, direct: 0 });
        let mut requests = DurabilityRequests::default();
        requests.request_soon(late);
        requests.request_soon(early);
        requests.request_eventually(early);
        assert_eq!((requests.soon(), requests.eventual()), (late, early));
        requests.request_log_write();
        assert!(requests.wants_log_write());
        requests.log_write_composed();
        assert!(!requests.wants_log_write());
    }
}

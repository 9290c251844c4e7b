//! Whether collection gains any room. Where some media can't be read, what lies there stays, and
//! may leave too little room for the rest: collection would copy that for ever, and wear the
//! devices.
//!
//! A victim gains a 64th of what it has room for at least, but what is copied may pack worse than
//! before. So collection gives up when it has copied all that is live twice and gained less than a
//! 64th of that, and tries again when something died, or the devices changed. Until then writes are
//! refused. Where all can be read collection gains something in the end, however slowly, for what
//! is live is bounded: there it never gives up.

use crate::log::segments::LEVELS;

/// So often is all copied before collection is judged.
const TURNS: u64 = 2;

/// See the module text. All in bytes.
#[derive(Debug, Default)]
pub(super) struct Effort {
    /// What was copied, and what the host took of the room that was gained.
    copied: u64,
    taken: u64,
    /// What was free at the beginning, or less.
    free: u64,
    /// What was live when collection gave up.
    gave_up: Option<u64>,
}

impl Effort {
    /// Collection copied so much.
    pub(super) fn copied(&mut self, bytes: u64) {
        self.copied += bytes;
    }

    /// The host took so much.
    pub(super) fn taken(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// A victim was gone through: so much is free and live by now, in segments of `segment` bytes.
    /// Whether some media can't be read is asked only when nothing was gained.
    pub(super) fn judge(
        &mut self,
        (free, live): (u64, u64),
        segment: u64,
        is_unreadable: impl FnOnce() -> bool,
    ) {
        let enough = TURNS * live.max(u64::from(LEVELS) * segment);
        if self.copied < enough {
            return;
        }
        let gained = self.taken + free.saturating_sub(self.free);
        let futile = gained < enough / u64::from(LEVELS) && is_unreadable();
        let gave_up = futile.then_some(live);
        *self = Effort { free, gave_up, ..Effort::default() };
    }

    /// Whether collection has given up. It tries again when a segment's worth of what was live
    /// died.
    pub(super) fn gave_up(&mut self, live: u64, segment: u64) -> bool {
        if self.gave_up.is_some_and(|was| live + segment <= was) {
            self.begin_again();
        }
        self.gave_up.is_some()
    }

    /// Room may be gained that could not be.
    pub(super) fn begin_again(&mut self) {
        *self = Effort { free: self.free, ..Effort::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: u64 = 1 << 30;
    const SEGMENT: u64 = 1 << 20;

    #[test]
    fn it_gives_up_when_all_was_copied_twice_and_nothing_gained() {
        let mut it = Effort::default();
        it.copied(2 * LIVE - 1);
        it.judge((0, LIVE), SEGMENT, || true);
        assert!(!it.gave_up(LIVE, SEGMENT));
        it.copied(1);
        it.judge((LIVE / 100, LIVE), SEGMENT, || true);
        assert!(it.gave_up(LIVE, SEGMENT) && it.gave_up(LIVE - SEGMENT + 1, SEGMENT));
        assert!(!it.gave_up(LIVE - SEGMENT, SEGMENT), "a segment's worth died");
    }

    #[test]
    fn what_the_host_took_was_gained_and_so_is_what_is_free() {
        let judged = |taken, free| {
            let mut it = Effort::default();
            it.copied(2 * LIVE);
            it.taken(taken);
            it.judge((free, LIVE), SEGMENT, || true);
            it.gave_up(LIVE, SEGMENT)
        };
        assert!(!judged(LIVE / 32, 0) && !judged(LIVE / 64, LIVE / 64));
        assert!(judged(LIVE / 32 - 1, 0));
    }

    #[test]
    fn where_all_can_be_read_it_goes_on() {
        let mut it = Effort::default();
        it.copied(2 * LIVE);
        it.judge((0, LIVE), SEGMENT, || false);
        assert!(!it.gave_up(LIVE, SEGMENT));
    }

    #[test]
    fn on_other_devices_it_tries_again() {
        let mut it = Effort::default();
        it.copied(2 * LIVE);
        it.judge((0, LIVE), SEGMENT, || true);
        it.begin_again();
        assert!(!it.gave_up(LIVE, SEGMENT));
    }
}

//! How much the clients of an export may ask in a second.
//!
//! Invariants
//! - Requests are booked one behind the other, so that all clients of an export share its limit in
//!   the order in which they come.
//! - Over any time the requests that were let through cost at most that time and [`AHEAD`], and one
//!   request.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How much may come at once after a while of silence: what this much time allows.
const AHEAD: Duration = Duration::from_millis(100);

/// What the clients of an export may ask in a second, all together; none is as much as they like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests of all kinds.
    pub requests: Option<u64>,
    /// Bytes read and written.
    pub bytes: Option<u64>,
}

/// Says for how long a request has to wait.
#[derive(Debug)]
pub(crate) struct Throttle {
    limits: Limits,
    /// Up to when the limit is used.
    booked: Mutex<Instant>,
}

impl Throttle {
    /// # Panics
    /// When a limit is zero, under which nothing would ever be done.
    pub(crate) fn new(limits: Limits) -> Self {
        let Limits { requests, bytes } = limits;
        assert!(requests != Some(0) && bytes != Some(0), "a limit lets something through");
        Throttle { limits, booked: Mutex::new(Instant::now()) }
    }

    /// Whether there is anything to wait for at any time.
    pub(crate) fn is_free(&self) -> bool {
        self.limits == Limits::default()
    }

    /// Books a request that moves `bytes` bytes at the time `now`: how long it waits before it is
    /// done.
    pub(crate) fn book(&self, bytes: u64, now: Instant) -> Duration {
        let mut booked = self.booked.lock().unwrap_or_else(PoisonError::into_inner);
        // What was not used is gone, but for a little.
        let from = (*booked).max(now.checked_sub(AHEAD).unwrap_or(now));
        *booked = from + self.cost(bytes);
        from.saturating_duration_since(now)
    }

    fn cost(&self, bytes: u64) -> Duration {
        let share = |limit: Option<u64>, of: u64| {
            let nanos = |limit| u128::from(of) * 1_000_000_000 / u128::from(limit);
            limit.map_or(0, nanos)
        };
        let nanos = share(self.limits.requests, 1).max(share(self.limits.bytes, bytes));
        Duration::from_nanos(nanos.min(u128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(requests: Option<u64>, bytes: Option<u64>) -> Throttle {
        Throttle::new(Limits { requests, bytes })
    }

    /// How many requests of `bytes` bytes are done in `seconds` when they come as fast as may be.
    fn done(throttle: &Throttle, bytes: u64, seconds: u64) -> u64 {
        let begun = Instant::now();
        let (mut now, mut count) = (begun, 0);
        loop {
            now += throttle.book(bytes, now);
            if now > begun + Duration::from_secs(seconds) {
                return count;
            }
            count += 1;
        }
    }

    #[test]
    fn the_tighter_limit_counts() {
        // A tenth of a second comes at once, and the first one is free.
        let count = done(&throttle(Some(100), None), 4096, 10);
        assert!((1000..=1011).contains(&count), "{count}");
        let count = done(&throttle(Some(100), Some(4096 * 10)), 4096, 10);
        assert!((100..=102).contains(&count), "{count}");
        let count = done(&throttle(Some(100), Some(1 << 30)), 4096, 10);
        assert!((1000..=1011).contains(&count), "{count}");
    }

    #[test]
    fn silence_is_not_saved_up() {
        let throttle = throttle(Some(100), None);
        let begun = Instant::now();
        let late = begun + Duration::from_secs(1000);
        let at_once = (0..1000).filter(|_| throttle.book(0, late).is_zero()).count();
        assert!((10..=11).contains(&at_once), "{at_once}");
    }

    #[test]
    fn what_has_no_limit_never_waits() {
        let throttle = throttle(None, None);
        assert!(throttle.is_free());
        let now = Instant::now();
        assert!((0..1000).all(|_| throttle.book(u64::MAX, now).is_zero()));
    }

    #[test]
    fn limits_at_their_ends_are_taken() {
        let slow = throttle(Some(1), Some(1));
        let now = Instant::now();
        slow.book(u64::from(u32::MAX), now);
        assert!(slow.book(1, now) > Duration::from_secs(u64::from(u32::MAX) - 1));
        let fast = throttle(Some(u64::MAX), None);
        assert!(fast.book(1, Instant::now()).is_zero());
    }
}

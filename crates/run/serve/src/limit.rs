//! Rate limits for the clients of an export.
//!
//! A request pays for its bytes in instalments of at most [`INSTALMENT`] bytes. An instalment is
//! paid when its turn comes. A client that disconnects therefore consumes only the instalments that
//! it has waited for, and short requests of other clients run between the instalments of a long
//! one.
//!
//! Invariants
//! - Instalments are paid in the order of their announcement. A withdrawn instalment costs nothing.
//! - Over any period, the cost of paid instalments is at most that period plus [`AHEAD`] plus one
//!   instalment.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Burst after an idle period: the amount that the limit allows in this time.
const AHEAD: Duration = Duration::from_millis(100);
/// Bytes that are paid for at once, at most.
const INSTALMENT: u64 = 1 << 20;
/// Interval at which a waiting client is checked for disconnection.
const STEP: Duration = Duration::from_millis(50);

/// Limits per second for all clients of an export together; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests of all kinds per second.
    pub requests: Option<u64>,
    /// Bytes read and written per second.
    pub bytes: Option<u64>,
}

/// Throttle of an export, shared by its clients.
#[derive(Debug)]
pub(crate) struct Throttle {
    limits: Limits,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Time up to which the limit is used.
    used: Instant,
    /// Waiting instalments, by ascending number.
    waiting: BTreeSet<u64>,
    next: u64,
}

impl State {
    /// Returns the start time of the next instalment. Unused time expires, except for [`AHEAD`].
    fn from(&self, now: Instant) -> Instant {
        self.used.max(now.checked_sub(AHEAD).unwrap_or(now))
    }

    /// Queues an instalment behind those that wait, and returns its number.
    fn announce(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number);
        number
    }

    /// Pays the instalment `number` if its turn has come. Otherwise returns the minimum time to
    /// wait, if it is known.
    fn pay(&mut self, number: u64, cost: Duration, now: Instant) -> Result<(), Option<Duration>> {
        if self.waiting.first() != Some(&number) {
            return Err(None);
        }
        let from = self.from(now);
        if from > now {
            return Err(Some(from - now));
        }
        self.used = from + cost;
        self.withdraw(number);
        Ok(())
    }

    fn withdraw(&mut self, number: u64) {
        self.waiting.remove(&number);
    }
}

impl Throttle {
    /// # Panics
    /// When a limit is zero, under which nothing would ever be done.
    pub(crate) fn new(limits: Limits) -> Self {
        let Limits { requests, bytes } = limits;
        assert!(requests != Some(0) && bytes != Some(0), "a limit lets something through");
        let state = State { used: Instant::now(), waiting: BTreeSet::new(), next: 0 };
        Throttle { limits, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Returns whether there is no limit.
    pub(crate) fn is_free(&self) -> bool {
        self.limits == Limits::default()
    }

    /// Waits until a request of `bytes` bytes is paid for; returns false when `gives_up` returned
    /// true before that. Calls `waits` once, before the first wait.
    pub(crate) fn pay(
        &self,
        bytes: u64,
        waits: impl FnOnce(),
        mut gives_up: impl FnMut() -> bool,
    ) -> bool {
        let (mut left, mut requests, mut waits) = (bytes, 1, Some(waits));
        loop {
            let part = left.min(INSTALMENT);
            let cost = self.cost(requests, part);
            let mut is_over = || {
                waits.take().into_iter().for_each(|waits| waits());
                gives_up()
            };
            if !self.pay_instalment(cost, &mut is_over) {
                return false;
            }
            (left, requests) = (left - part, 0);
            if left == 0 {
                return true;
            }
        }
    }

    fn pay_instalment(&self, cost: Duration, is_over: &mut impl FnMut() -> bool) -> bool {
        let mut state = self.lock();
        let number = state.announce();
        while let Err(wait) = state.pay(number, cost, Instant::now()) {
            // The check takes a system call, so the lock is released for it.
            drop(state);
            let over = is_over();
            state = self.lock();
            if over {
                state.withdraw(number);
                drop(state);
                self.changed.notify_all();
                return false;
            }
            let most = wait.map_or(STEP, |wait| wait.min(STEP));
            let waited = self.changed.wait_timeout(state, most);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let others = !state.waiting.is_empty();
        drop(state);
        if others {
            self.changed.notify_all();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cost(&self, requests: u64, bytes: u64) -> Duration {
        let share = |limit: Option<u64>, amount: u64| {
            let nanos = |limit| u128::from(amount) * 1_000_000_000 / u128::from(limit);
            limit.map_or(0, nanos)
        };
        let nanos = share(self.limits.requests, requests).max(share(self.limits.bytes, bytes));
        Duration::from_nanos(nanos.min(u128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(requests: Option<u64>, bytes: Option<u64>) -> Throttle {
        Throttle::new(Limits { requests, bytes })
    }

    /// Returns the number of requests of `bytes` bytes that pass in `seconds` at the maximum rate.
    fn done(throttle: &Throttle, bytes: u64, seconds: u64) -> u64 {
        let begun = Instant::now();
        let (mut now, mut count) = (begun, 0);
        let mut state = throttle.lock();
        loop {
            let (number, cost) = (state.announce(), throttle.cost(1, bytes));
            while let Err(wait) = state.pay(number, cost, now) {
                now += wait.expect("nothing else waits");
            }
            if now > begun + Duration::from_secs(seconds) {
                return count;
            }
            count += 1;
        }
    }

    #[test]
    fn the_tighter_limit_counts() {
        // The burst of a tenth of a second and the first request come in addition.
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
        let late = Instant::now() + Duration::from_secs(1000);
        let (mut state, cost) = (throttle.lock(), throttle.cost(1, 0));
        let mut is_paid = |_: &u32| {
            let number = state.announce();
            state.pay(number, cost, late).is_ok()
        };
        let at_once = (0..1000).take_while(|number| is_paid(number)).count();
        assert!((10..=11).contains(&at_once), "{at_once}");
    }

    #[test]
    fn a_disconnected_client_releases_its_reservation() {
        let throttle = throttle(None, Some(1));
        let (now, mut state) = (Instant::now(), throttle.lock());
        let first = state.announce();
        let cost = throttle.cost(1, 1);
        assert_eq!(state.pay(first, cost, now + AHEAD), Ok(()));
        let gone: Vec<u64> = (0..20).map(|_| state.announce()).collect();
        let stays = state.announce();
        let later = now + Duration::from_secs(3);
        assert_eq!(state.pay(stays, cost, later), Err(None), "it is not its turn");
        gone.into_iter().for_each(|number| state.withdraw(number));
        assert_eq!(state.pay(stays, cost, later), Ok(()));
    }

    #[test]
    fn an_abandoned_wait_passes_to_the_next_client() {
        let throttle = throttle(Some(1), Some(1));
        assert!(throttle.pay(1, || {}, || true), "the first one does not wait");
        let mut has_waited = false;
        assert!(!throttle.pay(32 << 20, || has_waited = true, || true));
        assert!(has_waited && throttle.lock().waiting.is_empty());
    }

    #[test]
    fn a_long_request_is_paid_in_instalments() {
        let throttle = throttle(None, Some(u64::MAX));
        assert!(throttle.pay(10 * INSTALMENT + 1, || {}, || false));
        assert_eq!(throttle.lock().next, 11);
    }

    #[test]
    fn unlimited_exports_never_wait() {
        let throttle = throttle(None, None);
        assert!(throttle.is_free());
        assert!((0..1000).all(|_| throttle.cost(1, u64::MAX).is_zero()));
    }

    #[test]
    fn limits_at_their_ends_are_taken() {
        let slow = throttle(Some(1), Some(1)).cost(1, u64::from(u32::MAX));
        assert!(slow > Duration::from_secs(u64::from(u32::MAX) - 1));
        assert!(throttle(Some(u64::MAX), None).cost(1, 4096).is_zero());
    }
}

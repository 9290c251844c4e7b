//! Little's law: the average number of requests in progress is the rate times the mean latency, for
//! any queue.

use hostftl_core::Nanos;

use crate::error::Violation;

/// Relative tolerance between the two sides.
const TOLERANCE: f64 = 0.01;

/// Both sides of the law, measured independently.
#[derive(Clone, Copy, Debug)]
pub struct Little {
    start: Nanos,
    last: Nanos,
    /// Integral of the number of requests in progress over time, in requests × ns.
    area: u128,
    /// Sum of all latencies, in ns.
    time: u128,
    ended: u64,
}

impl Little {
    /// Creates an empty measurement that starts at `now`.
    pub fn new(now: Nanos) -> Self {
        Little { start: now, last: now, area: 0, time: 0, ended: 0 }
    }

    /// Records that `under_way` requests were in progress from the previous call until `now`.
    pub fn note(&mut self, now: Nanos, under_way: u64) {
        self.area += u128::from(under_way) * u128::from(now - self.last);
        self.last = now;
    }

    /// Records a request with a latency of `took` ns.
    pub fn took(&mut self, took: Nanos) {
        self.time += u128::from(took);
        self.ended += 1;
    }

    /// Returns the average number of requests in progress.
    pub fn average(&self) -> f64 {
        self.area as f64 / (self.last - self.start) as f64
    }

    /// Returns the mean latency, in ns.
    pub fn mean(&self) -> f64 {
        self.time as f64 / self.ended as f64
    }

    /// Checks the law.
    ///
    /// # Errors
    /// Both sides, if they differ by more than 1 %.
    pub fn check(&self) -> Result<(), Violation> {
        let span = (self.last - self.start) as f64;
        if span == 0.0 || self.ended == 0 {
            return Ok(());
        }
        let rate = self.ended as f64 / span;
        let (l, lw) = (self.average(), rate * self.mean());
        if (l - lw).abs() <= TOLERANCE * l { Ok(()) } else { Err(Violation::Little { l, lw }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_holds_for_a_queue_and_fails_for_a_lost_request() {
        let mut little = Little::new(100);
        little.note(100, 0);
        little.note(150, 1);
        little.took(50);
        little.note(160, 0);
        assert_eq!(little.check(), Ok(()));
        little.note(260, 1);
        assert!(matches!(little.check(), Err(Violation::Little { .. })));
    }
}

//! Rate of background work during host I/O: a configured percentage of the unthrottled rate.
//!
//! Work is done in units, such as a stripe, and several units may be in flight. The interval
//! between two unit starts is the unthrottled time of a unit divided by the percentage. So the work
//! never starves, however busy the host is.
//!
//! The unthrottled rate is measured from the time of as many units as may be in flight. Units
//! during host I/O are not measured: they are throttled, and the devices are slower because of the
//! host, so the rate would drop further and further. But host I/O may never pause, and a device may
//! become slower for good. Some units are therefore a *probe* that is not throttled, for at most
//! 1/400 of the time. A faster probe counts like any other measurement, a slower one only little.

use hostftl_core::{AdminOutcome, Nanos, Refusal};

/// Idle time of the host, in nanoseconds, after which background work is no longer throttled.
const QUIET: Nanos = 50_000_000;
/// Minimum time between two probes in nanoseconds, and as a multiple of the duration of a probe.
const PROBE_EVERY: Nanos = 1_000_000_000;
const PROBE_REST: u64 = 400;
/// Divisor of a difference when the rate is updated, and when a probe is slower.
const WEIGHT: u64 = 8;
const SLOW_WEIGHT: u64 = 64;

#[derive(Debug)]
pub(super) struct BackgroundRate {
    percent: u8,
    /// Number of units that may be in flight, over which the rate is measured.
    span: u32,
    /// Time of the last host request.
    asked: Option<Nanos>,
    /// Start time of the last unit, or its due time if it was only a little late, and the interval
    /// to the next start.
    begun: Nanos,
    wait: Nanos,
    /// Remaining units of the probe, and the time when the last probe started.
    free: u32,
    probed: Nanos,
    /// Recent time per 4 KiB, in nanoseconds; `None` before the first measurement.
    usual: Option<u64>,
    /// Units in flight.
    under_way: u32,
    /// Start of the current measurement, and the units and 4 KiB pages completed since.
    since: Nanos,
    units: u32,
    pages: u64,
    timing: Timing,
}

/// Meaning of the current measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    /// No host I/O: the measurement counts.
    Alone,
    /// Host I/O: the measurement counts only if there is none yet.
    Beside,
    /// Probe during host I/O; the `first` span is warm-up.
    Probe { first: bool },
}

impl BackgroundRate {
    /// Returns a throttle at `percent` of the unthrottled rate, for up to `span` units in flight.
    pub(super) fn new(percent: u8, span: usize) -> Self {
        BackgroundRate {
            percent,
            span: span as u32,
            asked: None,
            begun: 0,
            wait: 0,
            free: 0,
            probed: 0,
            usual: None,
            under_way: 0,
            since: 0,
            units: 0,
            pages: 0,
            timing: Timing::Alone,
        }
    }

    /// Changes the percentage.
    pub(super) fn change(&mut self, percent: u8) -> Result<AdminOutcome, Refusal> {
        if !(1..=100).contains(&percent) {
            return Err(Refusal::Because("a share is 1 to 100 percent"));
        }
        let was = core::mem::replace(&mut self.percent, percent);
        Ok(if was == percent { AdminOutcome::NoChange } else { AdminOutcome::Started })
    }

    /// Notes a host request at time `now`.
    #[inline]
    pub(super) fn host_asks(&mut self, now: Nanos) {
        self.asked = Some(now);
    }

    /// Returns the time when the next unit may start, or `None` if it may start now. Starts a probe
    /// when one is due.
    pub(super) fn waits(&mut self, now: Nanos) -> Option<Nanos> {
        let (idle_from, next) = (self.asked? + QUIET, self.begun + self.wait);
        if now >= idle_from {
            return None;
        }
        if self.free == 0 && now >= self.probed.saturating_add(self.rests()) {
            (self.free, self.probed) = (self.probe(), now);
            self.time_from(now, Timing::Probe { first: true });
        } else if self.timing == Timing::Alone {
            self.timing = Timing::Beside;
        }
        // Units of a probe start at once.
        (now < next && self.free == 0).then(|| idle_from.min(next))
    }

    /// Returns the unthrottled units of a probe. The first half is warm-up and is discarded.
    fn probe(&self) -> u32 {
        2 * self.span
    }

    /// Returns the minimum time between two probes.
    fn rests(&self) -> Nanos {
        // The unthrottled time of a unit; `wait` is longer by the percentage.
        let unit = self.wait / 100 * u64::from(self.percent);
        PROBE_EVERY.max(unit.saturating_mul(PROBE_REST * u64::from(self.probe())))
    }

    /// Notes the start of a unit.
    pub(super) fn begin(&mut self, now: Nanos) {
        if self.under_way == 0 {
            self.time_from(now, self.timing);
        }
        // A unit that is a little late does not delay the following ones.
        let due = self.begun + self.wait;
        self.begun = if (due..due + self.wait).contains(&now) { due } else { now };
        self.free = self.free.saturating_sub(1);
        self.under_way += 1;
    }

    /// Notes the completion of a unit of `bytes` bytes. A unit of 0 bytes is not measured.
    pub(super) fn over(&mut self, now: Nanos, bytes: u64) {
        assert!(self.under_way > 0, "a finished unit was started");
        self.under_way -= 1;
        if bytes == 0 {
            return;
        }
        let pages = (bytes / 4096).max(1);
        (self.units, self.pages) = (self.units + 1, self.pages + pages);
        if self.units == self.span || self.under_way == 0 {
            let next = self.learn((now - self.since) / self.pages);
            self.time_from(now, next);
        }
        self.wait = self.usual.unwrap_or(0) * pages * 100 / u64::from(self.percent);
    }

    /// Updates the rate with `took` nanoseconds per 4 KiB. Returns the meaning of the next
    /// measurement.
    fn learn(&mut self, took: u64) -> Timing {
        let usual = self.usual.unwrap_or(took);
        match self.timing {
            Timing::Probe { first: true } => return Timing::Probe { first: false },
            // A measurement during host I/O is only a first estimate.
            Timing::Beside if self.usual.is_some() => {}
            // The host may have caused a slow probe, so it counts less.
            Timing::Probe { .. } if took > usual => {
                self.usual = Some(usual + (took - usual) / SLOW_WEIGHT);
            }
            Timing::Alone | Timing::Beside | Timing::Probe { .. } => {
                self.usual = Some(((WEIGHT - 1) * usual + took) / WEIGHT);
            }
        }
        Timing::Alone
    }

    fn time_from(&mut self, now: Nanos, timing: Timing) {
        (self.since, self.units, self.pages, self.timing) = (now, 0, 0, timing);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use super::*;

    const SPAN: u32 = 16;

    fn unit(share: &mut BackgroundRate, begun: Nanos, over: Nanos) {
        share.begin(begun);
        share.over(over, 4096);
    }

    #[test]
    fn units_are_throttled_only_during_host_requests() {
        let mut share = BackgroundRate::new(25, SPAN as usize);
        unit(&mut share, 0, 1000);
        assert_eq!(share.waits(1000), None, "there is no host");
        share.host_asks(1000);
        unit(&mut share, 1000, 2000);
        assert_eq!(share.waits(2000), Some(5000));
        assert_eq!(share.waits(5000), None);
        // The host slows the devices down; the percentage is of their rate without it.
        unit(&mut share, 5000, 13_000);
        assert_eq!(share.waits(13_000), None, "it was slower than its share already");
        unit(&mut share, 13_000, 13_200);
        assert_eq!(share.waits(13_200), Some(17_000), "units during host I/O are not measured");
        assert_eq!(share.waits(1000 + QUIET), None, "the host is gone");
    }

    #[test]
    fn concurrent_units_are_measured_together() {
        let mut share = BackgroundRate::new(50, SPAN as usize);
        (0..SPAN).for_each(|_| share.begin(0));
        for _ in 0..4 * SPAN {
            let now = share.begun + 1000;
            share.over(now, 4096);
            share.begin(now);
        }
        share.host_asks(share.begun);
        let begun = share.begun;
        assert_eq!(share.waits(begun), Some(begun + 2000), "one is over each 1000 ns");
        share.over(begun, 0);
        assert_eq!(share.waits(begun), Some(begun + 2000), "nothing was done in no time");
    }

    /// Works during host I/O for `long` nanoseconds. Each unit takes 16 µs. Returns the number of
    /// units started.
    fn work(share: &mut BackgroundRate, from: Nanos, long: Nanos) -> u64 {
        let (mut ends, mut begun) = (VecDeque::new(), 0);
        for now in (from..from + long).step_by(500) {
            share.host_asks(now);
            while ends.front().is_some_and(|end| *end <= now) {
                ends.pop_front();
                share.over(now, 4096);
            }
            while ends.len() < SPAN as usize && share.waits(now).is_none() {
                share.begin(now);
                ends.push_back(now + 16_000);
                begun += 1;
            }
        }
        begun
    }

    #[test]
    fn the_rate_remains_known_under_long_host_load() {
        let mut share = BackgroundRate::new(25, SPAN as usize);
        // 16 units in 16 µs are one per microsecond, and a quarter of these is allowed.
        for second in 0..5 {
            let begun = work(&mut share, second * 1_000_000_000, 1_000_000_000);
            assert!((240_000..265_000).contains(&begun), "{begun} in second {second}");
        }
    }

    /// The host makes units take four times as long; the percentage is of the rate without it.
    #[test]
    fn a_slower_device_under_load_does_not_reduce_the_share() {
        let mut share = BackgroundRate::new(25, SPAN as usize);
        for at in 0..10 {
            unit(&mut share, at * 1000, (at + 1) * 1000);
        }
        let second = 1_000_000_000;
        for at in 3..10 {
            share.host_asks(at * second);
            assert_eq!(share.waits(at * second), None, "a probe, or due");
            unit(&mut share, at * second, at * second + 4000);
            assert!(share.usual < Some(1500), "{:?} after {at} s", share.usual);
        }
    }
}

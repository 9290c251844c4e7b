//! How fast work in the background goes beside a host: at a share of the rate that it has when
//! nothing holds it back.
//!
//! Work is done in units, such as a row, several of which may be under way at once. A unit begins
//! no sooner after the one before than a share of the rate of late allows. So the work never
//! starves, however busy the host is.
//!
//! The rate is known from how long it took until so many units were over. Beside a host units say
//! nothing of it: what holds them back, and a device that is slower for the host's sake, would make
//! the share smaller and smaller. But a host may stay, and a device may become slower for good: so
//! every now and then some units are a *probe*, which nothing holds back, for a four-hundredth of
//! the time at most. A faster one counts as any other unit does, a slower one only little.

use hostftl_core::{Answer, Nanos, Refusal};

use crate::log::layout::LANES;

/// So long after its last request the host is gone, and the work goes as fast as it can.
const QUIET: Nanos = 50_000_000;
/// Units in whose time the rate is taken, when several are under way at once.
const SPAN: u32 = LANES as u32;
/// Units that are not held back so that the rate is known: while the first of them are done it is
/// not what it is later.
const PROBE: u32 = 2 * SPAN;
/// How often that is done at most, in nanoseconds, and how many times as long as a probe takes.
const PROBE_EVERY: Nanos = 1_000_000_000;
const PROBE_REST: u64 = 400;
/// So much of a difference counts when the rate is learned, and when a probe is slower.
const WEIGHT: u64 = 8;
const SLOW_WEIGHT: u64 = 64;

#[derive(Debug)]
pub(super) struct Share {
    percent: u8,
    /// When the host asked for something last.
    asked: Option<Nanos>,
    /// When a unit was begun last, or should have been, and how long after that the next may begin.
    begun: Nanos,
    wait: Nanos,
    /// Units that may still begin at once, and since when they may.
    free: u32,
    probed: Nanos,
    /// The time of late for 4 KiB, in nanoseconds; none before a unit was timed.
    usual: Option<u64>,
    /// Units under way.
    under_way: u32,
    /// What is timed: since when, and the units that were over since, with 4 KiB each.
    since: Nanos,
    units: u32,
    pages: u64,
    timing: Timing,
}

/// What the units that are timed say of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    /// All: there was no host.
    Alone,
    /// Nothing: there was one.
    Beside,
    /// Some are not held back so that the rate is known: the first of these say nothing yet.
    Probe { first: bool },
}

impl Share {
    /// So much of the best rate, in percent.
    pub(super) fn new(percent: u8) -> Self {
        Share {
            percent,
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

    /// Another share.
    pub(super) fn change(&mut self, percent: u8) -> Result<Answer, Refusal> {
        if !(1..=100).contains(&percent) {
            return Err(Refusal::Because("a share is 1 to 100 percent"));
        }
        let was = core::mem::replace(&mut self.percent, percent);
        Ok(if was == percent { Answer::WasSo } else { Answer::Begun })
    }

    /// The host asks for something.
    #[inline]
    pub(super) fn host_asks(&mut self, now: Nanos) {
        self.asked = Some(now);
    }

    /// When the next unit may begin; none when that is now.
    pub(super) fn waits(&mut self, now: Nanos) -> Option<Nanos> {
        let (gone, next) = (self.asked? + QUIET, self.begun + self.wait);
        if now >= gone {
            return None;
        }
        if self.free == 0 && now >= self.probed.saturating_add(self.rests()) {
            (self.free, self.probed) = (PROBE, now);
            self.time_from(now, Timing::Probe { first: true });
        } else if self.timing == Timing::Alone {
            self.timing = Timing::Beside;
        }
        (now < next && self.free == 0).then(|| gone.min(next))
    }

    /// How long after a probe the next one comes.
    fn rests(&self) -> Nanos {
        let unit = self.wait / 100 * u64::from(self.percent);
        PROBE_EVERY.max(unit.saturating_mul(PROBE_REST * u64::from(PROBE)))
    }

    /// A unit begins.
    pub(super) fn begin(&mut self, now: Nanos) {
        if self.under_way == 0 {
            self.time_from(now, self.timing);
        }
        // One that is a little late does not make the next ones late.
        let due = self.begun + self.wait;
        self.begun = if (due..due + self.wait).contains(&now) { due } else { now };
        self.free = self.free.saturating_sub(1);
        self.under_way += 1;
    }

    /// A unit of so many bytes is over; one of none says nothing of the rate.
    pub(super) fn over(&mut self, now: Nanos, bytes: u64) {
        assert!(self.under_way > 0, "a unit that is over was begun");
        self.under_way -= 1;
        if bytes == 0 {
            return;
        }
        let pages = (bytes / 4096).max(1);
        (self.units, self.pages) = (self.units + 1, self.pages + pages);
        if self.units == SPAN || self.under_way == 0 {
            let next = self.learn((now - self.since) / self.pages);
            self.time_from(now, next);
        }
        self.wait = self.usual.unwrap_or(0) * pages * 100 / u64::from(self.percent);
    }

    /// 4 KiB took so long. What the next units say.
    fn learn(&mut self, took: u64) -> Timing {
        let usual = self.usual.unwrap_or(took);
        match self.timing {
            Timing::Probe { first: true } => return Timing::Probe { first: false },
            Timing::Beside if self.usual.is_some() => {}
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

    fn unit(share: &mut Share, begun: Nanos, over: Nanos) {
        share.begin(begun);
        share.over(over, 4096);
    }

    #[test]
    fn beside_a_host_a_unit_begins_when_the_share_allows_and_else_at_once() {
        let mut share = Share::new(25);
        unit(&mut share, 0, 1000);
        assert_eq!(share.waits(1000), None, "there is no host");
        share.host_asks(1000);
        unit(&mut share, 1000, 2000);
        assert_eq!(share.waits(2000), Some(5000));
        assert_eq!(share.waits(5000), None);
        // The host makes the devices slow; the share is of what they can do alone.
        unit(&mut share, 5000, 13_000);
        assert_eq!(share.waits(13_000), None, "it was slower than its share already");
        unit(&mut share, 13_000, 13_200);
        assert_eq!(share.waits(13_200), Some(17_000), "units beside a host say nothing");
        assert_eq!(share.waits(1000 + QUIET), None, "the host is gone");
    }

    #[test]
    fn the_rate_of_units_that_are_under_way_together_is_that_of_all_of_them() {
        let mut share = Share::new(50);
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

    /// Work for so long beside a host; each unit takes 16 µs, as many as are under way. How many
    /// units were begun.
    fn work(share: &mut Share, from: Nanos, long: Nanos) -> u64 {
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
    fn the_rate_is_known_still_when_the_host_has_been_there_for_long() {
        let mut share = Share::new(25);
        // Sixteen in 16 µs are one in a microsecond, and a quarter of these is allowed.
        for second in 0..5 {
            let begun = work(&mut share, second * 1_000_000_000, 1_000_000_000);
            assert!((240_000..265_000).contains(&begun), "{begun} in second {second}");
        }
    }

    /// The host makes units take four times as long: the share is of what the devices do alone.
    #[test]
    fn a_device_that_is_slower_beside_a_host_makes_the_share_no_smaller() {
        let mut share = Share::new(25);
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

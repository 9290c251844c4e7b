//! How fast work in the background goes beside a host: at a share of the rate that it has when the
//! devices are its alone.
//!
//! Work is done in units, such as a row, several of which may be under way at once. The best rate
//! of late is known from how long it took until so many were over; a unit begins no sooner after
//! the one before than a share of that rate allows. So the work never starves, however busy the
//! host is, and a device that is slower for the host's sake makes no difference.

use hostftl_core::{Answer, Nanos, Refusal};

use crate::log::layout::LANES;

/// So long after its last request the host is gone, and the work goes as fast as it can.
const QUIET: Nanos = 50_000_000;
/// The share that is usual, in percent.
pub const USUAL: u8 = 30;
/// Units in whose time the rate is taken, when several are under way at once.
const SPAN: u32 = LANES as u32;

/// See the module text.
#[derive(Debug)]
pub struct Share {
    percent: u8,
    /// When the host asked for something last.
    asked: Option<Nanos>,
    /// When a unit was begun last, and how long after that the next may begin.
    begun: Nanos,
    wait: Nanos,
    /// The least time of late for 4 KiB, in nanoseconds; none before a unit was timed.
    least: Option<u64>,
    /// Units under way.
    under_way: u32,
    /// What is timed: since when, and the units that were over since, with 4 KiB each.
    since: Nanos,
    units: u32,
    pages: u64,
}

impl Share {
    /// So much of the best rate, in percent.
    pub fn new(percent: u8) -> Self {
        Share {
            percent,
            asked: None,
            begun: 0,
            wait: 0,
            least: None,
            under_way: 0,
            since: 0,
            units: 0,
            pages: 0,
        }
    }

    /// Another share.
    ///
    /// # Errors
    /// When it is none.
    pub fn change(&mut self, percent: u8) -> Result<Answer, Refusal> {
        if !(1..=100).contains(&percent) {
            return Err(Refusal::Because("a share is 1 to 100 percent"));
        }
        let was = core::mem::replace(&mut self.percent, percent);
        Ok(if was == percent { Answer::WasSo } else { Answer::Begun })
    }

    /// The host asks for something.
    #[inline]
    pub fn host_asks(&mut self, now: Nanos) {
        self.asked = Some(now);
    }

    /// When the next unit may begin; none when that is now.
    pub fn waits(&self, now: Nanos) -> Option<Nanos> {
        let (gone, next) = (self.asked? + QUIET, self.begun + self.wait);
        (now < gone && now < next).then(|| gone.min(next))
    }

    /// A unit begins.
    pub fn begin(&mut self, now: Nanos) {
        if self.under_way == 0 {
            self.time_from(now);
        }
        self.begun = now;
        self.under_way += 1;
    }

    /// A unit of so many bytes is over; one of none says nothing of the rate.
    pub fn over(&mut self, now: Nanos, bytes: u64) {
        assert!(self.under_way > 0, "a unit that is over was begun");
        self.under_way -= 1;
        if bytes == 0 {
            return;
        }
        let pages = (bytes / 4096).max(1);
        (self.units, self.pages) = (self.units + 1, self.pages + pages);
        if self.units == SPAN || self.under_way == 0 {
            let took = (now - self.since) / self.pages;
            // What was best is forgotten little by little: a device may become slower for good.
            self.least = Some(self.least.map_or(took, |least| (least + least / 64 + 1).min(took)));
            self.time_from(now);
        }
        let least = self.least.unwrap_or(0);
        self.wait = least * pages * 100 / u64::from(self.percent);
    }

    fn time_from(&mut self, now: Nanos) {
        (self.since, self.units, self.pages) = (now, 0, 0);
    }
}

#[cfg(test)]
mod tests {
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
        unit(&mut share, 13_000, 13_500);
        assert_eq!(share.waits(13_500), Some(15_000));
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
}

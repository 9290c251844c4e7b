//! How fast work in the background goes beside a host: at a share of the rate that it has when the
//! devices are its alone.
//!
//! Work is done in units, such as a row. The best rate of late is known from how long units took; a
//! unit begins no sooner after the one before than a share of that rate allows. So the work never
//! starves, however busy the host is, and a device that is slower for the host's sake makes no
//! difference.

use hostftl_core::{Answer, Nanos, Refusal};

/// So long after its last request the host is gone, and the work goes as fast as it can.
const QUIET: Nanos = 50_000_000;
/// The share that is usual, in percent.
pub const USUAL: u8 = 30;

/// See the module text.
#[derive(Debug)]
pub struct Share {
    percent: u8,
    /// When the host asked for something last.
    asked: Option<Nanos>,
    /// When the next unit may begin.
    next: Nanos,
    /// The least time of late for 4 KiB, in nanoseconds; none before a unit was timed.
    least: Option<u64>,
}

impl Share {
    /// So much of the best rate, in percent.
    pub fn new(percent: u8) -> Self {
        Share { percent, asked: None, next: 0, least: None }
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
        let gone = self.asked? + QUIET;
        (now < gone && now < self.next).then(|| gone.min(self.next))
    }

    /// A unit of so many bytes is over.
    pub fn over(&mut self, begun: Nanos, now: Nanos, bytes: u64) {
        let pages = (bytes / 4096).max(1);
        let took = (now - begun) / pages;
        // What was best is forgotten little by little: a device may become slower for good.
        let least = self.least.map_or(took, |least| (least + least / 64 + 1).min(took));
        self.least = Some(least);
        self.next = begun + least * pages * 100 / u64::from(self.percent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_a_host_a_unit_begins_when_the_share_allows_and_else_at_once() {
        let mut share = Share::new(25);
        share.over(0, 1000, 4096);
        assert_eq!(share.waits(1000), None, "there is no host");
        share.host_asks(1000);
        share.over(1000, 2000, 4096);
        assert_eq!(share.waits(2000), Some(5000));
        assert_eq!(share.waits(5000), None);
        // The host makes the devices slow; the share is of what they can do alone.
        share.over(5000, 13_000, 4096);
        assert_eq!(share.waits(13_000), None, "it was slower than its share already");
        share.over(13_000, 13_500, 4096);
        assert_eq!(share.waits(13_500), Some(15_000));
        assert_eq!(share.waits(1000 + QUIET), None, "the host is gone");
    }
}

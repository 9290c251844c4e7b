//! How full a volume is, and when it will be.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hostftl_core::Gauges;
use serde::{Deserialize, Serialize};

/// Of what is used, in percent: from here on events tell of it, once for each.
const THRESHOLDS: [u64; 4] = [80, 90, 95, 99];
/// And from here on somebody should do something.
const NEEDS_HAND: u64 = 90;
/// So much less must be used before a threshold is told again.
const SLACK: u64 = 3;
/// How often is looked, and over which time the growth is taken.
const EVERY: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// How full a volume is. Lengths are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Space {
    /// What the host has written and not trimmed, zeros apart.
    pub logical_bytes: u64,
    /// What that takes on the devices, without parity.
    pub physical_bytes: u64,
    /// What can be written before anything must be collected.
    pub free_bytes: u64,
    /// What collection could gain: its debt.
    pub stale_bytes: u64,
    /// What was compressed since the start over what became of it; none before anything was.
    pub compression_ratio: Option<f64>,
    /// Blocks of zeros that came since the start: they take no room.
    pub zero_blocks: u64,
    /// Reads that were mended from parity.
    pub repaired: u64,
    /// Blocks that nothing can bring back.
    pub beyond_repair: u64,
    /// What of `physical_bytes` lies where a device is missing: the next loss would take it along.
    #[serde(default)]
    pub exposed_bytes: u64,
    /// What of it lies where more is missing than parity makes up for: up to so much can't be read
    /// until a device comes back.
    #[serde(default)]
    pub unreadable_bytes: u64,
    /// What has to be trimmed before what is exposed can be rebuilt on the devices that are left; 0
    /// where room is not what is missing.
    #[serde(default)]
    pub excess_bytes: u64,
    /// How many more devices the volume can do without now.
    #[serde(default)]
    pub may_lose: u32,
    /// Devices that count as missing there: they are failing, or have damage that is not repaired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<u8>,
    /// How large `physical_bytes` may become before writes are refused; none where the volume
    /// exports no more than fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// When it will be, at the rate at which it has grown of late; none while it does not grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_in_seconds: Option<u64>,
}

impl Space {
    pub(crate) fn of(gauges: &Gauges) -> Self {
        let Gauges { packed_from, packed_into, .. } = *gauges;
        Space {
            logical_bytes: gauges.mapped,
            physical_bytes: gauges.live,
            free_bytes: gauges.free,
            stale_bytes: gauges.stale,
            compression_ratio: (packed_into > 0).then(|| packed_from as f64 / packed_into as f64),
            zero_blocks: gauges.zeros,
            repaired: gauges.repaired,
            beyond_repair: gauges.beyond_repair,
            exposed_bytes: gauges.exposed,
            unreadable_bytes: gauges.unreadable,
            excess_bytes: gauges.excess,
            may_lose: gauges.may_lose,
            damaged: (0..16).filter(|device| gauges.damaged >> device & 1 == 1).collect(),
            capacity_bytes: Some(gauges.most_live).filter(|most| *most > 0),
            full_in_seconds: None,
        }
    }

    /// How much of the capacity is used, in percent.
    pub fn used_percent(&self) -> Option<u64> {
        self.capacity_bytes.map(|most| self.physical_bytes * 100 / most)
    }

    /// What somebody should do about it.
    pub(crate) fn need(&self) -> Option<String> {
        let used = self.used_percent().filter(|used| *used >= NEEDS_HAND)?;
        Some(format!("{used} % of the room is used: trim, or writes will be refused at 100 %"))
    }
}

/// How what is held grows, and what was told of it.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    /// What was held at each of some times, oldest first.
    held: VecDeque<(Instant, u64)>,
    /// The threshold that was passed last, in percent.
    passed: u64,
}

impl Filling {
    /// What is held now; the threshold that was passed since the last look, if one was.
    pub(crate) fn look(&mut self, live: u64, most: u64, now: Instant) -> Option<u64> {
        if self.held.back().is_none_or(|(at, _)| now - *at >= EVERY) {
            self.held.push_back((now, live));
        }
        while self.held.front().is_some_and(|(at, _)| now - *at > DAY) {
            self.held.pop_front();
        }
        let used = (live * 100).checked_div(most)?;
        let new = THRESHOLDS.into_iter().rev().find(|it| used >= *it).unwrap_or(0);
        // What goes down a little, and up again, is told once.
        let was = self.passed;
        let stays = new < was && used + SLACK > was;
        self.passed = if stays { was } else { new };
        (self.passed > was).then_some(used)
    }

    /// In how many seconds `most` will be held, when it grows as it has.
    pub(crate) fn full_in(&self, live: u64, most: u64, now: Instant) -> Option<u64> {
        let (begin, before) = *self.held.front()?;
        let seconds = (now - begin).as_secs_f64();
        // Within a moment everything grows without bounds, or not at all.
        let is_long = now - begin >= EVERY;
        let grown = live.checked_sub(before).filter(|grown| *grown > 0 && is_long)?;
        let left = most.checked_sub(live)?;
        Some((left as f64 * seconds / grown as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_is_told_once_until_there_is_clearly_room_again() {
        let (mut filling, now) = (Filling::default(), Instant::now());
        let told: Vec<_> = [10, 79, 80, 85, 79, 80, 91, 99, 70, 81]
            .into_iter()
            .filter_map(|live| filling.look(live, 100, now))
            .collect();
        assert_eq!(told, [80, 91, 99, 81]);
        assert_eq!(filling.look(500, 0, now), None, "it exports no more than fits");
    }

    #[test]
    fn when_it_is_full_follows_from_the_last_day() {
        let (mut filling, begin) = (Filling::default(), Instant::now());
        let at = |hours: u64| begin + Duration::from_secs(hours * 3600);
        assert_eq!(filling.full_in(0, 1000, at(0)), None);
        filling.look(100, 1000, at(0));
        filling.look(100, 1000, at(20));
        assert_eq!(filling.full_in(100, 1000, at(20)), None, "it does not grow");
        filling.look(200, 1000, at(30));
        assert_eq!(filling.full_in(200, 1000, at(30)), Some(80 * 3600));
        let mut new = Filling::default();
        new.look(0, 1000, begin);
        assert_eq!(new.full_in(500, 1000, begin + EVERY / 2), None, "too short to tell");
    }
}

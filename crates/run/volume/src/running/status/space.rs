//! Space accounting of a volume, and the time until it is full.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hostftl_core::Gauges;
use serde::{Deserialize, Serialize};

/// Fill levels in percent that raise an event, once each.
const THRESHOLDS: [u64; 4] = [80, 90, 95, 99];
/// Fill level in percent that is a problem.
const NEEDS_HAND: u64 = 90;
/// Drop in percent that re-arms a threshold.
const SLACK: u64 = 3;
/// Sampling interval, and the period over which growth is measured.
const EVERY: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// Space of a volume. `physical_bytes`, `reclaimable_bytes`, `free_bytes`, `parity_bytes` and
/// `reserved_bytes` add up to the size of the data devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Space {
    /// Valid data as the host sees it, without zero blocks.
    pub logical_bytes: u64,
    /// Valid data as stored on the devices, compressed and without parity.
    pub physical_bytes: u64,
    /// Free space before the next garbage collection, without parity.
    pub free_bytes: u64,
    /// Invalid data that garbage collection can reclaim.
    pub reclaimable_bytes: u64,
    /// Parity or mirror copies of the three above, when the devices are filled.
    #[serde(default)]
    pub parity_bytes: u64,
    /// Remaining capacity: metadata, open segments and the reserve of garbage collection.
    #[serde(default)]
    pub reserved_bytes: u64,
    /// Compression ratio since the start; absent before the first compressed block.
    pub compression_ratio: Option<f64>,
    /// Zero blocks written since the start; they use no space.
    pub zero_blocks: u64,
    /// Reads repaired from parity.
    pub repaired_reads: u64,
    /// Blocks that cannot be reconstructed.
    pub lost_blocks: u64,
    /// Part of `physical_bytes` that lacks redundancy: another device failure could destroy it.
    #[serde(default)]
    pub degraded_bytes: u64,
    /// Part of `physical_bytes` in segments that lack more chunks than parity can reconstruct. At
    /// most this much is unreadable until a device returns.
    #[serde(default)]
    pub unreadable_bytes: u64,
    /// Amount to trim before the degraded data fits on the remaining devices; 0 if it fits.
    #[serde(default)]
    pub trim_required_bytes: u64,
    /// Number of further device failures without data loss.
    #[serde(default)]
    pub failures_tolerated: u32,
    /// Devices counted as failed: failing, or with unrepaired damage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged_devices: Vec<u8>,
    /// Limit of `physical_bytes` above which writes are refused; absent unless overcommitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Time until that limit at the recent growth; absent while the volume does not grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_in_seconds: Option<u64>,
}

impl Space {
    pub(crate) fn from_gauges(gauges: &Gauges) -> Self {
        let Gauges { packed_from, packed_into, .. } = *gauges;
        Space {
            logical_bytes: gauges.mapped,
            physical_bytes: gauges.valid,
            free_bytes: gauges.free,
            reclaimable_bytes: gauges.stale,
            parity_bytes: 0,
            reserved_bytes: 0,
            compression_ratio: (packed_into > 0).then(|| packed_from as f64 / packed_into as f64),
            zero_blocks: gauges.zeros,
            repaired_reads: gauges.repaired,
            lost_blocks: gauges.beyond_repair,
            degraded_bytes: gauges.exposed,
            unreadable_bytes: gauges.unreadable,
            trim_required_bytes: gauges.excess,
            failures_tolerated: gauges.may_lose,
            damaged_devices: gauges.damaged.iter().collect(),
            capacity_bytes: Some(gauges.valid_limit).filter(|most| *most > 0),
            full_in_seconds: None,
        }
    }

    /// Splits the rest of `raw` bytes on `devices` devices, of which `parity` hold parity, into
    /// parity and reserves.
    pub(super) fn set_capacity(&mut self, raw: u64, devices: u64, parity: u64) {
        let data = self.physical_bytes + self.reclaimable_bytes + self.free_bytes;
        let rest = raw.saturating_sub(data);
        // Each stripe has `devices - parity` chunks of data.
        let copies = (data * parity).checked_div(devices.saturating_sub(parity)).unwrap_or(0);
        self.parity_bytes = copies.min(rest);
        self.reserved_bytes = rest - self.parity_bytes;
    }

    /// Returns how much of the capacity is used, in percent.
    pub fn used_percent(&self) -> Option<u64> {
        self.capacity_bytes.map(|most| self.physical_bytes * 100 / most)
    }

    /// Returns the problem of a nearly full volume.
    pub(crate) fn need(&self) -> Option<String> {
        let used = self.used_percent().filter(|used| *used >= NEEDS_HAND)?;
        Some(format!(
            "{used} % of the capacity is used; trim, or add a device: writes fail at 100 %"
        ))
    }
}

/// Growth of the stored data, and the thresholds reported so far.
#[derive(Debug, Default)]
pub(crate) struct FillLevel {
    /// Samples of the stored bytes, oldest first.
    held: VecDeque<(Instant, u64)>,
    /// Last threshold that was passed, in percent.
    passed: u64,
}

impl FillLevel {
    /// Adds a sample. Returns the fill level if a threshold was passed since the last one.
    pub(crate) fn sample(&mut self, live: u64, most: u64, now: Instant) -> Option<u64> {
        // At most one sample a minute, so a day has a bounded number.
        if self.held.back().is_none_or(|(at, _)| now - *at >= EVERY) {
            self.held.push_back((now, live));
        }
        while self.held.front().is_some_and(|(at, _)| now - *at > DAY) {
            self.held.pop_front();
        }
        let used = (live * 100).checked_div(most)?;
        let new = THRESHOLDS.into_iter().rev().find(|it| used >= *it).unwrap_or(0);
        // Hysteresis: a small drop and rise reports a threshold once.
        let was = self.passed;
        let stays = new < was && used + SLACK > was;
        self.passed = if stays { was } else { new };
        (self.passed > was).then_some(used)
    }

    /// Returns the seconds until `most` bytes are stored, at the recent growth.
    pub(crate) fn full_in(&self, live: u64, most: u64, now: Instant) -> Option<u64> {
        let (begin, before) = *self.held.front()?;
        let seconds = (now - begin).as_secs_f64();
        // Growth over less than a sampling interval is noise.
        let is_long = now - begin >= EVERY;
        let grown = live.checked_sub(before).filter(|grown| *grown > 0 && is_long)?;
        // Above the limit, writes fail already.
        let left = most.checked_sub(live)?;
        Some((left as f64 * seconds / grown as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_is_reported_once_with_hysteresis() {
        let (mut fill_level, now) = (FillLevel::default(), Instant::now());
        let warnings: Vec<_> = [10, 79, 80, 85, 79, 80, 91, 99, 70, 81]
            .into_iter()
            .filter_map(|live| fill_level.sample(live, 100, now))
            .collect();
        assert_eq!(warnings, [80, 91, 99, 81]);
        assert_eq!(fill_level.sample(500, 0, now), None, "it exports no more than fits");
    }

    #[test]
    fn the_parts_of_the_capacity_add_up() {
        let space = |free_bytes| Space {
            physical_bytes: 500,
            reclaimable_bytes: 100,
            free_bytes,
            ..Space::default()
        };
        for (free, devices, parity, expected) in [
            (300, 4, 1, (300, 100)),
            (300, 4, 2, (400, 0)),
            (700, 4, 0, (0, 0)),
            (0, 2, 1, (600, 100)),
        ] {
            let mut space = space(free);
            space.set_capacity(1300, devices, parity);
            assert_eq!((space.parity_bytes, space.reserved_bytes), expected, "{devices}+{parity}");
        }
        let mut missing = space(300);
        missing.set_capacity(400, 1, 1);
        assert_eq!((missing.parity_bytes, missing.reserved_bytes), (0, 0));
    }

    #[test]
    fn the_time_until_full_follows_from_the_last_day() {
        let (mut fill_level, begin) = (FillLevel::default(), Instant::now());
        let at = |hours: u64| begin + Duration::from_secs(hours * 3600);
        assert_eq!(fill_level.full_in(0, 1000, at(0)), None);
        fill_level.sample(100, 1000, at(0));
        fill_level.sample(100, 1000, at(20));
        assert_eq!(fill_level.full_in(100, 1000, at(20)), None, "it does not grow");
        fill_level.sample(200, 1000, at(30));
        assert_eq!(fill_level.full_in(200, 1000, at(30)), Some(80 * 3600));
        let mut new = FillLevel::default();
        new.sample(0, 1000, begin);
        assert_eq!(new.full_in(500, 1000, begin + EVERY / 2), None, "too short to tell");
    }
}

//! Valid grains of segments: the free space that results, and the counts at the time of the last
//! root, for its image of them.

use hostftl_format::log::{GRAIN, Place};

use super::{Segments, State, grains};
use crate::planted::{Bug, planted};

/// Bound of the grains of a segment, even on sixteen devices.
const MOST_GRAINS: u32 = 1 << 31;

impl Segments {
    /// Returns the valid bytes, the bytes for which free segments have space, and the bytes that
    /// garbage collection could free.
    pub(crate) fn space(&self) -> (u64, u64, u64) {
        let (grain, widest) = (u64::from(GRAIN), u64::from(self.rooms[usize::from(self.width)]));
        let empty = self.empty.iter().map(|empty| empty.segment);
        let free = if self.free.is_uneven() {
            let opens = |at: u32| usize::from(self.list[at as usize].widths.opens);
            self.free.to_open().chain(empty).map(|at| u64::from(self.rooms[opens(at)])).sum()
        } else {
            u64::from(self.free() + self.empty()) * widest
        };
        let stale = self.full.room.saturating_sub(self.full.grains);
        (self.total * grain, free * grain, stale * grain)
    }

    /// Returns the valid grains of all segments.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the valid bytes of the segments that are `wanted`.
    pub(crate) fn valid_bytes_in(&self, wanted: impl Fn(u32) -> bool) -> u64 {
        let list =
            self.list.iter().zip(0..).filter(|(it, segment)| it.valid > 0 && wanted(*segment));
        list.map(|(it, _)| u64::from(it.valid) * u64::from(GRAIN)).sum()
    }

    /// Returns the valid bytes of the flawed segments that are `wanted`.
    pub(crate) fn flawed_bytes_in(&self, wanted: impl Fn(u32) -> bool) -> u64 {
        match self.flawed() {
            0 => 0,
            _ => self.valid_bytes_in(|segment| self.is_flawed(segment) && wanted(segment)),
        }
    }

    /// Returns the valid grains of host data at the start of the last root.
    pub(crate) fn count(&self, segment: u32) -> u32 {
        let it = &self.list[segment as usize];
        if it.counted_at == self.reuse.roots() as u32 && !planted(Bug::CountsNotFrozen) {
            it.counted
        } else {
            it.for_data()
        }
    }

    /// Adds the count of a segment from the recovered root. Returns false if the count is
    /// impossible.
    pub(crate) fn set_count(&mut self, segment: u32, grains: u32) -> bool {
        self.claim(segment, false);
        let it = self.at(segment);
        // The root may be forged, so the sum is not trusted.
        let Some(valid) = it.valid.checked_add(grains).filter(|valid| *valid < MOST_GRAINS) else {
            return false;
        };
        it.valid = valid;
        self.total += u64::from(grains);
        true
    }

    /// Counts the record at `place` as valid.
    pub(super) fn grow(&mut self, segment: u32, place: Place) {
        let grains = grains(place.len());
        let it = self.at(segment);
        let Some(valid) = it.valid.checked_add(grains) else {
            self.disproved = Some(place.device());
            return;
        };
        it.valid = valid;
        self.total += u64::from(grains);
    }

    /// Counts the record at `place` as invalid; returns its grains. Fewer are returned only if the
    /// counts on the devices were wrong.
    pub(super) fn shrink(&mut self, segment: u32, place: Place) -> u32 {
        let it = self.at(segment);
        let grains = grains(place.len());
        // Counts come from the devices, and wrong ones must not underflow.
        let less = grains.min(it.valid);
        it.valid -= less;
        self.total -= u64::from(less);
        if less < grains {
            self.disproved = Some(place.device());
        }
        less
    }

    /// Returns the device on which wrong counts were detected, once.
    #[inline]
    pub(crate) fn take_disproved(&mut self) -> Option<u8> {
        self.disproved.take()
    }

    /// Saves the count of a segment at the start of the last root, before its first change since
    /// then.
    pub(super) fn freeze(&mut self, segment: u32) {
        let root = self.reuse.roots() as u32;
        let it = self.at(segment);
        // Only the first change since the root finds the count of that moment.
        if it.counted_at != root {
            (it.counted, it.counted_at) = (it.for_data(), root);
        }
    }

    /// Returns whether the totals of full segments match their counts.
    pub(crate) fn check(&self) -> bool {
        let full = self.list.iter().filter(|it| it.state == State::Full && !it.of_map);
        full.clone().map(|it| u64::from(it.valid)).sum::<u64>() == self.full.grains
            && full.count() as u64 == self.full.count
    }
}

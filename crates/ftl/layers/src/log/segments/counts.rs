//! Live grains of segments: what room they leave, and how many there were when the last root was
//! begun, for its image of them.

use hostftl_format::log::{GRAIN, Place};

use super::{Segments, State, grains};
use crate::planted::{Bug, planted};

/// More than any segment has, even of sixteen devices.
const MOST_GRAINS: u32 = 1 << 31;

impl Segments {
    /// Bytes that are live, for which free segments have room, and that collection could gain.
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

    /// Live grains of all segments.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that are live in the segments that are `wanted`.
    pub(crate) fn live_in(&self, wanted: impl Fn(u32) -> bool) -> u64 {
        let list =
            self.list.iter().zip(0..).filter(|(it, segment)| it.live > 0 && wanted(*segment));
        list.map(|(it, _)| u64::from(it.live) * u64::from(GRAIN)).sum()
    }

    /// Valid bytes in flawed segments of which `wanted` holds.
    pub(crate) fn live_flawed(&self, wanted: impl Fn(u32) -> bool) -> u64 {
        match self.flawed() {
            0 => 0,
            _ => self.live_in(|segment| self.is_flawed(segment) && wanted(segment)),
        }
    }

    /// Live grains of the host's data, as they were when the last root was begun.
    pub(crate) fn count(&self, segment: u32) -> u32 {
        let it = &self.list[segment as usize];
        if it.counted_at == self.reuse.roots() as u32 && !planted(Bug::CountsNotFrozen) {
            it.counted
        } else {
            it.of_data()
        }
    }

    /// Sets what [`Segments::count`] was when the root was begun that is recovered. False when no
    /// segment has so much, whatever is in it.
    pub(crate) fn set_count(&mut self, segment: u32, grains: u32) -> bool {
        self.claim(segment, false);
        let it = self.at(segment);
        let Some(live) = it.live.checked_add(grains).filter(|live| *live < MOST_GRAINS) else {
            return false;
        };
        it.live = live;
        self.total += u64::from(grains);
        true
    }

    /// The record at `place` is counted from now on.
    pub(super) fn grow(&mut self, segment: u32, place: Place) {
        let grains = grains(place.len());
        let it = self.at(segment);
        let Some(live) = it.live.checked_add(grains) else {
            self.disproved = Some(place.device());
            return;
        };
        it.live = live;
        self.total += u64::from(grains);
    }

    /// The record at `place` is not counted any more: so many grains fewer. Only where the counts
    /// on the devices are wrong these are not all that it has.
    pub(super) fn shrink(&mut self, segment: u32, place: Place) -> u32 {
        let it = self.at(segment);
        let grains = grains(place.len());
        let less = grains.min(it.live);
        it.live -= less;
        self.total -= u64::from(less);
        if less < grains {
            self.disproved = Some(place.device());
        }
        less
    }

    /// The device on which the counts were found to be wrong, once.
    #[inline]
    pub(crate) fn take_disproved(&mut self) -> Option<u8> {
        self.disproved.take()
    }

    /// Keeps what a segment had when the last root was begun.
    pub(super) fn freeze(&mut self, segment: u32) {
        let root = self.reuse.roots() as u32;
        let it = self.at(segment);
        if it.counted_at != root {
            (it.counted, it.counted_at) = (it.of_data(), root);
        }
    }

    /// Whether what is counted of full segments is what they have.
    pub(crate) fn check(&self) -> bool {
        let full = self.list.iter().filter(|it| it.state == State::Full && !it.of_map);
        full.clone().map(|it| u64::from(it.live)).sum::<u64>() == self.full.grains
            && full.count() as u64 == self.full.count
    }
}

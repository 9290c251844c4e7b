//! Capacity of segments: stripes on fewer devices have fewer data chunks.

use hostftl_core::DeviceSet;
use hostftl_format::log::GRAIN;

use super::{LEVELS, Segments, State};
use crate::log::layout::{Layout, Reserves};

impl Segments {
    /// Adds a segment to the free ones.
    pub(super) fn set_free(&mut self, segment: u32) {
        self.free.put(segment, self.list[segment as usize].widths);
    }

    /// Returns whether enough free segments can be opened on a set of devices to continue work.
    /// Fewer suffice if stripes are `already` written to this set.
    pub(crate) fn can_continue(&self, set: DeviceSet, layout: &Layout, already: bool) -> bool {
        let is_usable = |segment: &u32| layout.width_on(set, *segment) > 0;
        let usable = || self.free.all().filter(is_usable).count();
        let least = if already { self.reserves.gc_floor() + 1 } else { self.reserves.host };
        // Segments that are on all devices can always be opened.
        !self.free.is_uneven() || usable() as u32 >= least
    }

    /// Returns the grains that a segment has space for.
    pub(super) fn room(&self, segment: u32) -> u32 {
        self.rooms[usize::from(self.list[segment as usize].widths.stripes)]
    }

    /// Returns the grains of a segment that is opened now.
    pub(crate) fn grains_of_new(&self) -> u32 {
        self.rooms[usize::from(self.width)]
    }

    /// Sets the number of data chunks for stripes of segments that are opened from now on. Segments
    /// with 0 are not opened. The gain of collecting other segments changes accordingly.
    pub(crate) fn set_widths(&mut self, width: impl Fn(u32) -> u32) {
        let mut any = false;
        for segment in 0..self.list.len() as u32 {
            let new = width(segment) as u8;
            any |= core::mem::replace(&mut self.at(segment).widths.opens, new) != new;
        }
        if any {
            self.widths_changed();
        }
    }

    fn widths_changed(&mut self) {
        self.width = self.list.iter().map(|it| it.widths.opens).max().unwrap_or(0);
        let list = &self.list;
        // Whether a free segment can be opened depends on its width.
        self.free.sort(|segment| list[segment as usize].widths);
        for segment in 0..self.list.len() as u32 {
            let (level, it) = (self.level(segment), self.list[segment as usize]);
            if it.state == State::Full && level != it.level {
                self.at(segment).level = level;
                if it.may_be_victim() {
                    self.victims.valid_changed(segment, level.into(), self.now);
                }
            }
        }
        self.reuse.change();
    }

    /// Returns the grains of a segment as it is, or if it were opened now, whichever is more.
    pub(super) fn gathered(&self, segment: u32) -> u32 {
        let opens = self.list[segment as usize].widths.opens;
        self.room(segment).max(self.rooms[usize::from(opens)])
    }

    /// Returns whether a segment is below a fill level, without a division.
    pub(super) fn is_below(&self, segment: u32, level: u8) -> bool {
        let valid = u64::from(self.list[segment as usize].valid);
        let room = u64::from(self.gathered(segment));
        valid * u64::from(LEVELS) <= u64::from(level.saturating_sub(1)) * room
    }

    /// Returns the fill level of a segment, by which victims are chosen.
    pub(super) fn level(&self, segment: u32) -> u8 {
        let valid = u64::from(self.list[segment as usize].valid);
        // Data on few devices takes less space when it is moved to more.
        (valid * u64::from(LEVELS)).div_ceil(self.gathered(segment).into()).min(LEVELS.into()) as u8
    }

    /// Returns the free segments that are reserved from the host.
    pub(crate) fn reserves(&self) -> &Reserves {
        &self.reserves
    }

    /// Changes the reserves, because devices are to leave, or stay after all.
    pub(crate) fn keep(&mut self, reserves: Reserves) {
        assert_eq!(reserves.classes, self.reserves.classes, "each class has its stream");
        self.reserves = reserves;
        self.reuse.change();
    }

    /// Returns whether all valid data fits into segments on these devices and leaves the reserves
    /// free. The margin is omitted if stripes are `already` written to this set.
    pub(crate) fn fits(&self, set: DeviceSet, layout: &Layout, already: bool) -> bool {
        self.excess(set, &self.reserves, layout, already) == 0
    }

    /// Returns the valid bytes that do not fit. If not all exported blocks fit, the waste at the
    /// ends of chunks counts as lost; otherwise garbage collection would never end.
    pub(crate) fn excess(
        &self,
        set: DeviceSet,
        kept: &Reserves,
        layout: &Layout,
        already: bool,
    ) -> u64 {
        let room = Self::most_on(set, kept, layout, already);
        self.total.saturating_sub(room) * u64::from(GRAIN)
    }

    /// Returns the grains that fit.
    pub(crate) fn most_on(set: DeviceSet, kept: &Reserves, layout: &Layout, already: bool) -> u64 {
        // Hysteresis: a set of devices that is in use needs no margin.
        let margin = if already { 0 } else { layout.margin() };
        layout.valid_limit_on(set, kept.kept() + margin)
    }
}

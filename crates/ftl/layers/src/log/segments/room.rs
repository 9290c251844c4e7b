//! How much a segment has room for: rows on fewer devices have fewer chunks of data.

use hostftl_core::DeviceSet;
use hostftl_format::log::GRAIN;

use super::{LEVELS, Segments, State};
use crate::log::layout::{Layout, Reserves};

impl Segments {
    /// A segment is free.
    pub(super) fn set_free(&mut self, segment: u32) {
        self.free.put(segment, self.list[segment as usize].widths);
    }

    /// Whether enough free segments can be opened on a set of devices for what must go on; somewhat
    /// fewer are where `already` they are opened so.
    pub(crate) fn can_go_on(&self, set: DeviceSet, layout: &Layout, already: bool) -> bool {
        let is_usable = |segment: &u32| layout.width_on(set, *segment) > 0;
        let usable = || self.free.all().filter(is_usable).count();
        let least = if already { self.reserves.gc_floor() + 1 } else { self.reserves.host };
        !self.free.is_uneven() || usable() as u32 >= least
    }

    /// Grains that a segment has room for.
    pub(super) fn room(&self, segment: u32) -> u32 {
        self.rooms[usize::from(self.list[segment as usize].widths.rows)]
    }

    /// Grains that a segment has room for that is opened now.
    pub(crate) fn grains_of_new(&self) -> u32 {
        self.rooms[usize::from(self.width)]
    }

    /// Rows of segments that are opened from now on have so many data chunks, each segment its own
    /// number: what others gain when they are collected changes. Those with none are not opened.
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
        self.free.sort(|segment| list[segment as usize].widths);
        for segment in 0..self.list.len() as u32 {
            let (level, it) = (self.level(segment), self.list[segment as usize]);
            if it.state == State::Full && level != it.level {
                self.at(segment).level = level;
                if it.may_be_victim() {
                    self.victims.live_changed(segment, level.into(), self.now);
                }
            }
        }
        self.reuse.change();
    }

    /// Grains that a segment has room for, or would have if it were opened now.
    pub(super) fn gathered(&self, segment: u32) -> u32 {
        let opens = self.list[segment as usize].widths.opens;
        self.room(segment).max(self.rooms[usize::from(opens)])
    }

    /// Whether a segment is less full than a level says; no division is needed to know that.
    pub(super) fn is_below(&self, segment: u32, level: u8) -> bool {
        let live = u64::from(self.list[segment as usize].live);
        let room = u64::from(self.gathered(segment));
        live * u64::from(LEVELS) <= u64::from(level.saturating_sub(1)) * room
    }

    /// How full a segment is, as victims are told apart.
    pub(super) fn level(&self, segment: u32) -> u8 {
        let live = u64::from(self.list[segment as usize].live);
        // What lies on few devices gains when it moves to more.
        (live * u64::from(LEVELS)).div_ceil(self.gathered(segment).into()).min(LEVELS.into()) as u8
    }

    /// How many free segments are kept from the host.
    pub(crate) fn reserves(&self) -> &Reserves {
        &self.reserves
    }

    /// So many free segments are kept from the host from now on: devices are to leave, or stay.
    pub(crate) fn keep(&mut self, reserves: Reserves) {
        assert_eq!(reserves.classes, self.reserves.classes, "each class has its stream");
        self.reserves = reserves;
        self.reuse.change();
    }

    /// Whether all that is live fits into segments on these devices, and leaves what must be kept
    /// free; somewhat less does where `already` they are opened so.
    pub(crate) fn fits(&self, set: DeviceSet, layout: &Layout, already: bool) -> bool {
        self.excess(set, &self.reserves, layout, already) == 0
    }

    /// The bytes of what is live that are too many for that. Where not all that is exported has
    /// room, the ends of chunks count as lost: else collection would go on for ever.
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

    /// The grains that have room then.
    pub(crate) fn most_on(set: DeviceSet, kept: &Reserves, layout: &Layout, already: bool) -> u64 {
        let margin = if already { 0 } else { 2 + layout.segments / 32 };
        layout.most_live_on(set, kept.kept() + margin)
    }
}

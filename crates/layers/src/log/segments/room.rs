//! How much a segment has room for: rows on fewer devices have fewer chunks of data.

use hostftl_format::log::GRAIN;

use super::{LEVELS, Segments, State};
use crate::log::layout::{Layout, Reserves};

impl Segments {
    /// Grains that a segment has room for.
    pub(super) fn room(&self, segment: u32) -> u32 {
        self.rooms[usize::from(self.list[segment as usize].width)]
    }

    /// Grains that a segment has room for that is opened now.
    pub fn grains_of_new(&self) -> u32 {
        self.rooms[usize::from(self.width)]
    }

    /// Rows of segments that are opened from now on have so many data chunks: what others gain
    /// when they are collected changes.
    pub fn set_width(&mut self, width: u32) {
        if usize::from(self.width) == width as usize {
            return;
        }
        self.width = width as u8;
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

    /// How full a segment is, as victims are told apart.
    pub(super) fn level(&self, segment: u32) -> u8 {
        let live = u64::from(self.list[segment as usize].live);
        // What lies on few devices gains when it moves to more.
        let room = self.room(segment).max(self.rooms[usize::from(self.width)]);
        (live * u64::from(LEVELS)).div_ceil(room.into()).min(LEVELS.into()) as u8
    }

    /// How many free segments are kept from the host.
    pub fn reserves(&self) -> &Reserves {
        &self.reserves
    }

    /// So many free segments are kept from the host from now on: devices are to leave, or stay.
    pub fn keep(&mut self, reserves: Reserves) {
        assert_eq!(reserves.classes, self.reserves.classes, "each class has its stream");
        self.reserves = reserves;
        self.reuse.change();
    }

    /// Whether all that is live fits into segments whose rows have so many data chunks, and leaves
    /// what must be kept free; somewhat less does where `already` they are opened so.
    pub fn fits(&self, width: u32, layout: &Layout, already: bool) -> bool {
        self.excess(width, &self.reserves, layout, already) == 0
    }

    /// The bytes of what is live that are too many for that. Where not all that is exported has
    /// room, the ends of chunks count as lost: else collection would go on for ever.
    pub fn excess(&self, width: u32, kept: &Reserves, layout: &Layout, already: bool) -> u64 {
        let room = Self::most_in(width, kept, layout, already);
        self.total.saturating_sub(room) * u64::from(GRAIN)
    }

    /// The grains that have room then.
    pub fn most_in(width: u32, kept: &Reserves, layout: &Layout, already: bool) -> u64 {
        let margin = if already { 0 } else { 2 + layout.segments / 32 };
        let may = layout.segments.saturating_sub(kept.kept() + margin);
        layout.most_live_in(may, width)
    }
}

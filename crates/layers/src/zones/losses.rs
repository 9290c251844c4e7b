//! What collection can't find or read: blocks in strips whose tail is lost, and lost blocks.
//!
//! Invariants
//! - A block is given up only when it was read alone and the device said that it can't give it.
//! - That it is lost is listed in a row, as a trim is: the line with that row stays until a root
//!   begins behind it.

use hostftl_core::{Event, SECTORS_PER_BLOCK};
use hostftl_format::zones::{ENTRIES, Kind};

use super::Engine;
use super::collect::Phase;
use super::map::At;
use super::ops::Cx;

/// Map entries that are looked at in one go.
const SEARCHED: u64 = 16_384;

impl Engine {
    /// Looks on through the map for blocks of the victim that no tail told of; false when it has
    /// seen all of it.
    pub(super) fn search(&mut self, cx: &mut Cx) -> bool {
        let (victim, from) = (self.victim(), self.collection.searched);
        let end = self.map.len().min(from + SEARCHED);
        let lane = &mut self.collection.lanes[0];
        (lane.phase, lane.cursor) = (Phase::Moving, 0);
        lane.items.clear();
        let mut block = from;
        while block < end && lane.items.len() < ENTRIES {
            if let At::Media(place) = self.map.get(block)
                && self.layout.line(self.layout.segment_of(place)) == victim
            {
                lane.items.push((block, place));
            }
            block += 1;
        }
        self.collection.searched = block;
        cx.touch((block - from) as usize);
        from < self.map.len()
    }

    /// The page that a row took for a block is something else.
    pub(super) fn unlist(&mut self, row: u16, slot: u32, kind: Kind) {
        let mut entries = self.rows.at_mut(row).entries.iter_mut();
        let entry = entries.find(|it| it.kind == Kind::Data && it.value == slot);
        entry.expect("the block was listed").kind = kind;
    }

    /// A block that was to move into a page of a row can't be read.
    pub(super) fn lose(&mut self, block: u64, row: u16, slot: u32, cx: &mut Cx) {
        self.unlist(row, slot, Kind::Lost);
        self.rows.at_mut(row).has_trim = true;
        let old = self.map.set(block, At::Lost);
        self.forget(old);
        cx.touch(1);
        cx.tell(Event::Lost { sectors: SECTORS_PER_BLOCK });
    }
}

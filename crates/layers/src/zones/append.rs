//! Into the row that is filled: taking room, listing blocks, pointing the map at them.

use hostftl_core::{Cause, SECTORS_PER_BLOCK};
use hostftl_format::zones::{ENTRIES, Entry, Kind};

use super::Engine;
use super::map::At;
use super::ops::Cx;
use crate::planted::{Bug, planted};

/// Room for the host.
pub const HOST: usize = 0;
/// Room for what collection moves.
pub const GC: usize = 1;

impl Engine {
    /// Takes up to `want` pages of the row that is filled: the row, the first page, how many.
    /// `None` when there is no room now.
    pub(super) fn take(&mut self, who: usize, want: u32) -> Option<(u16, u32, u32)> {
        for _ in 0..2 {
            let row = self.fill(who)?;
            let it = self.rows.at(row);
            let room = (ENTRIES - it.entries.len()) as u32;
            let count = want.min(self.layout.strip_blocks() - it.slots).min(room);
            if count > 0 {
                let count = count.min(self.quota(who).saturating_sub(it.taken[who]));
                if count == 0 {
                    return None;
                }
                let it = self.rows.at_mut(row);
                it.slots += count;
                it.taken[who] += count;
                it.pending += count;
                return Some((row, it.slots - count, count));
            }
            self.rows.close();
        }
        None
    }

    /// The row that is filled; opens one when there is none.
    fn fill(&mut self, who: usize) -> Option<u16> {
        if let Some(row) = self.rows.filling() {
            return Some(row);
        }
        let floor = if who == HOST { self.layout.reserve * self.layout.row_strips() } else { 0 };
        let short = self.space() <= i64::from(floor);
        if self.durability.is_full() || short && !(who == HOST && self.lent && self.open_room() > 0)
        {
            return None;
        }
        let row = self.rows.idle()?;
        self.rows.open(row, self.durability.open());
        Some(row)
    }

    /// Strips that rows can still be sent to, beyond those in memory.
    pub(super) fn space(&self) -> i64 {
        self.open_room() + self.lines.spare_strips()
    }

    /// Those of them that are in open lines.
    fn open_room(&self) -> i64 {
        i64::from(self.lines.open_strips()) - self.rows.unplaced()
    }

    /// Lets the host fill what is open, because nothing else can be done for a write that waits:
    /// what is dead in an open line can be collected only when it is full. True when that is new.
    pub(super) fn lend_open_strips(&mut self, cx: &mut Cx) -> bool {
        let waits = cx.requests().first_write().is_some();
        let lends = waits && self.layout.wide && !self.lent && self.open_room() > 0;
        self.lent |= lends;
        lends
    }

    /// Lists a block in a page of a row.
    pub(super) fn list_block(&mut self, row: u16, slot: u32, block: u64, cause: Cause) {
        let it = self.rows.at_mut(row);
        it.entries.push(Entry { kind: Kind::Data, block, value: slot, crc: 0 });
        it.tally.add(cause, SECTORS_PER_BLOCK);
    }

    /// The map points at a page of a row from now on.
    pub(super) fn publish(&mut self, block: u64, row: u16, slot: u32, cx: &mut Cx) {
        let old = self.map.set(block, At::Row { row, slot: slot as u8 });
        self.forget(old);
        cx.touch(1);
    }

    /// The map no longer points there.
    pub(super) fn forget(&mut self, old: At) {
        if let At::Media(place) = old {
            let line = self.layout.line(self.layout.segment_of(place));
            self.lines.invalidate(line, self.durability.newest());
        }
    }

    /// Unmaps blocks and lists that; false when no row takes it now.
    pub(super) fn append_trim(&mut self, first: u64, blocks: u64) -> bool {
        let Some(mut row) = self.fill(HOST) else { return false };
        if self.rows.at(row).entries.len() == ENTRIES {
            self.rows.close();
            let Some(other) = self.fill(HOST) else { return false };
            row = other;
        }
        let it = self.rows.at_mut(row);
        let value = if planted(Bug::ZonesTrimInMemory) { 0 } else { blocks as u32 };
        it.entries.push(Entry { kind: Kind::Trim, block: first, value, crc: 0 });
        it.has_trim = true;
        self.durability.note_host(it.seq);
        for block in first..first + blocks {
            let old = self.map.set(block, At::Nowhere);
            self.forget(old);
        }
        true
    }
}

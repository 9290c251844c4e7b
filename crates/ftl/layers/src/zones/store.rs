//! Store: the map, the rows in memory, and the lines on the medium. A block takes a page of the
//! current row, is published there, and is written with its row.
//!
//! Invariants
//! - Everything that changes when a block is published changes here: the map, the line of its old
//!   place, and its new row.
//! - The host opens no row while only the reserve is free, unless nothing else makes progress.
//! - The map points into a row until its strip can be read.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, Event, Gather, Payload, Piece, SECTORS_PER_BLOCK};
use hostftl_format::zones::{self, ENTRIES, Entry, Holds, Kind};

use super::durability::Durability;
use super::layout::Layout;
use super::lines::{Lines, Who};
use super::map::{At, Map};
use super::ops::{Cx, Op, fail};
use super::params::Params;
use super::row::{Phase, Row};
use super::rows::Rows;
use super::strips::{Draft, Strips};
use crate::planted::{Bug, planted};

/// Blocks of the volume, in memory and on the medium.
#[derive(Debug)]
pub(super) struct Store {
    pub map: Map,
    pub lines: Lines,
    pub durability: Durability,
    pub strips: Strips,
    layout: Layout,
    rows: Rows,
    /// Front of the next row.
    next_front: u32,
    /// Whether the host may fill open lines although few lines are free.
    lends: bool,
}

impl Store {
    /// Creates an empty store; `buffers` become the rows.
    pub(super) fn new(layout: &Layout, params: Params, buffers: Vec<Payload>) -> Self {
        let rows = layout.rows() as usize;
        Store {
            map: Map::new(layout),
            lines: Lines::new(layout, params),
            durability: Durability::new(rows),
            strips: Strips::new(layout),
            layout: *layout,
            rows: Rows::new(rows, buffers),
            next_front: 0,
            lends: false,
        }
    }

    /// Returns the last row that was opened.
    pub(super) fn newest(&self) -> u64 {
        self.durability.newest()
    }

    /// Returns a row.
    pub(super) fn row(&self, row: u16) -> &Row {
        self.rows.at(row)
    }

    /// Returns the buffer of a row.
    pub(super) fn buffer(&mut self, row: u16) -> &mut Payload {
        self.rows.buffer(row)
    }

    /// Returns a view to its row.
    pub(super) fn repay(&mut self, piece: Piece) {
        self.rows.repay(piece);
    }

    /// Returns the first row that is not written, or the next row.
    pub(super) fn first_unwritten(&self) -> u64 {
        let unwritten =
            |row: &Row| !matches!(row.phase(), Phase::Idle | Phase::Written | Phase::Draining);
        let rows = self.rows.iter().map(|(_, row)| row).filter(|row| unwritten(row));
        rows.map(|row| row.seq).min().unwrap_or(self.newest() + 1)
    }

    /// Returns the device block of a page of a row, once the row is written.
    pub(super) fn device_block(&self, row: u16, slot: u8) -> Option<u64> {
        let row = self.rows.at(row);
        let place = || self.layout.place(row.segment, row.strip, slot.into());
        (row.phase() == Phase::Written).then(place)
    }

    /// Takes up to `want` pages of the current row. Returns the row, the first page and the number
    /// of pages, or `None` if there is no room now.
    pub(super) fn take(&mut self, who: Who, want: u32) -> Option<(u16, u32, u32)> {
        // The second attempt is for the next row, if the current one is full.
        for _ in 0..2 {
            let row = self.fill(who)?;
            let it = self.rows.at(row);
            // Trims take entries of the tail without taking pages.
            let room = (ENTRIES - it.entries.len()) as u32;
            let count = want.min(self.layout.strip_blocks() - it.slots).min(room);
            if count > 0 {
                let taken = it.taken[who as usize];
                // The quota of this row is used up; the next row has a new one.
                let count = count.min(self.quota(who).saturating_sub(taken));
                if count == 0 {
                    return None;
                }
                let it = self.rows.at_mut(row);
                it.slots += count;
                it.taken[who as usize] += count;
                it.pending += count;
                return Some((row, it.slots - count, count));
            }
            self.rows.close();
        }
        None
    }

    /// Returns the pages of a row that the host or collection may take. While a victim is being
    /// collected, the share of the host shrinks with the number of free lines.
    fn quota(&self, who: Who) -> u32 {
        let all = self.layout.strip_blocks();
        if who == Who::Collection || self.lines.victim().is_none() {
            return all;
        }
        let line = u64::from(self.layout.row_strips());
        let floor = u64::from(self.layout.reserve) * line;
        let free = u64::try_from(self.lines.spare_strips().max(0)).unwrap_or(0);
        // The share falls from a whole row, at two lines above the reserve, to a single page.
        let above = free.saturating_sub(floor).min(2 * line);
        let share = u64::from(all) * above / (2 * line);
        (share as u32).max(1)
    }

    /// Returns the current row, and opens one if there is none.
    fn fill(&mut self, who: Who) -> Option<u16> {
        if let Some(row) = self.rows.filling() {
            return Some(row);
        }
        let of_host = who == Who::Host;
        let floor = if of_host { self.layout.reserve * self.layout.row_strips() } else { 0 };
        // Acknowledged rows must find a place, so a row is opened only if there is a strip for it.
        let short = self.space() <= i64::from(floor);
        let lends = of_host && self.lends && self.open_room() > 0;
        if self.durability.is_full() || short && !lends {
            return None;
        }
        let row = self.rows.idle()?;
        self.rows.open(row, self.durability.open());
        Some(row)
    }

    /// Returns the number of strips that can still be written, without those taken by rows in
    /// memory.
    pub(super) fn space(&self) -> i64 {
        self.open_room() + self.lines.spare_strips()
    }

    /// Returns the part of [`Store::space`] that is in open lines.
    fn open_room(&self) -> i64 {
        i64::from(self.lines.open_strips()) - self.rows.unplaced()
    }

    /// Lets the host fill open lines, because nothing else helps a waiting write: invalid blocks of
    /// an open line can be collected only when it is full. Returns whether this is new.
    pub(super) fn lend_open_strips(&mut self) -> bool {
        let lends = self.layout.wide && !self.lends && self.open_room() > 0;
        self.lends |= lends;
        lends
    }

    /// Restricts the host to its share again, when a collection starts.
    pub(super) fn end_lending(&mut self) {
        self.lends = false;
    }

    /// Lists blocks in `count` taken pages of a row, from `slot` on.
    pub(super) fn list(
        &mut self,
        row: u16,
        slot: u32,
        blocks: impl Iterator<Item = u64>,
        count: u32,
        cause: Cause,
    ) {
        let it = self.rows.at_mut(row);
        for (slot, block) in (slot..slot + count).zip(blocks) {
            it.entries.push(Entry { kind: Kind::Data, block, value: slot, crc: 0 });
            it.tally.add(cause, SECTORS_PER_BLOCK);
        }
    }

    /// Notes that the data of `count` pages of a row is there, or will not come.
    pub(super) fn filled(&mut self, row: u16, count: u32) {
        let it = self.rows.at_mut(row);
        it.pending = it.pending.checked_sub(count).expect("pages are filled once");
    }

    /// Points the map at a page of a row.
    pub(super) fn publish(&mut self, block: u64, (row, slot): (u16, u32), cx: &mut Cx) {
        let old = self.map.set(block, At::Row { row, slot: slot as u8 });
        self.invalidate(old);
        cx.touch(1);
    }

    /// Notes that a row has data of the host.
    pub(super) fn note_host(&mut self, row: u16) {
        self.durability.note_host(self.rows.at(row).seq);
    }

    /// Counts an old place as invalid.
    fn invalidate(&mut self, old: At) {
        if let At::Media(place) = old {
            let line = self.layout.line(self.layout.segment_at(place));
            self.lines.invalidate(line, self.durability.newest());
        }
    }

    /// Changes the kind of the entry for a page of a row.
    pub(super) fn unlist(&mut self, row: u16, slot: u32, kind: Kind) {
        let mut entries = self.rows.at_mut(row).entries.iter_mut();
        let entry = entries.find(|it| it.kind == Kind::Data && it.value == slot);
        entry.expect("the block was listed").kind = kind;
    }

    /// Marks a block as lost that collection could not read.
    pub(super) fn lose(&mut self, block: u64, (row, slot): (u16, u32), cx: &mut Cx) {
        self.unlist(row, slot, Kind::Lost);
        // The line is kept like one with a trim: no valid block records the loss.
        self.rows.at_mut(row).has_trim = true;
        let old = self.map.set(block, At::Lost);
        self.invalidate(old);
        cx.touch(1);
        cx.report(Event::Lost { sectors: SECTORS_PER_BLOCK });
    }

    /// Unmaps blocks and lists the trim in a row. Returns false if no row takes it now.
    pub(super) fn trim(&mut self, first: u64, blocks: u64) -> bool {
        let Some(mut row) = self.fill(Who::Host) else { return false };
        // The tail is full although pages are left.
        if self.rows.at(row).entries.len() == ENTRIES {
            self.rows.close();
            let Some(other) = self.fill(Who::Host) else { return false };
            row = other;
        }
        let it = self.rows.at_mut(row);
        let value = if planted(Bug::ZonesTrimInMemory) { 0 } else { blocks as u32 };
        it.entries.push(Entry { kind: Kind::Trim, block: first, value, crc: 0 });
        it.has_trim = true;
        self.note_host(row);
        for block in first..first + blocks {
            let old = self.map.set(block, At::Nowhere);
            self.invalidate(old);
        }
        true
    }

    /// Closes the current row if it is full or must become durable, and sends the first ready row.
    pub(super) fn run(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        if let Some(row) = self.rows.filling() {
            let it = self.rows.at(row);
            if it.slots == self.layout.strip_blocks() || self.durability.is_wanted(it.seq) {
                self.rows.close();
                moved = true;
            }
        }
        // A row is ready when no copy or read into its pages is in flight.
        moved |= self.rows.make_ready();
        moved | self.send_first(cx)
    }

    fn send_first(&mut self, cx: &mut Cx) -> bool {
        let Some(row) = self.rows.first_ready() else { return false };
        // Some commands are left for flushes and resets.
        if cx.commands_left() < 8 {
            return false;
        }
        let of_gc = self.rows.at(row).taken[Who::Collection as usize] > 0;
        // In `rrpc`, copies go to the unit with the most free segments; rows of the host take
        // turns.
        let first =
            if of_gc && !self.layout.wide { self.lines.freest_front() } else { self.next_front };
        let who = if of_gc { Who::Collection } else { Who::Host };
        let (fronts, newest) = (self.layout.fronts, self.newest());
        // Acknowledged data may use the reserve of another unit instead of waiting.
        let placed = [who, Who::Collection].into_iter().find_map(|who| {
            (0..fronts)
                .map(|step| (first + step) % fronts)
                .find_map(|front| Some((front, self.lines.place(front as usize, newest, who)?)))
        });
        let Some((front, at)) = placed else { return false };
        self.next_front = (front + 1) % fronts;
        self.rows.send(at.0, at.1);
        self.send_row(row, at, cx);
        true
    }

    fn send_row(&mut self, row: u16, at: (u32, u32), cx: &mut Cx) {
        let (newest, blocks) = (self.newest(), self.layout.strip_blocks());
        let it = self.rows.at_mut(row);
        let mut meta = it.tail.take().expect("a sent stripe has its tail");
        for (index, entry) in it.entries.iter().enumerate() {
            zones::put_entry(&mut meta.pages_mut()[0], index, entry);
        }
        // Set when the row is sent: the line must not be reset before replay starts after this row.
        if it.has_trim {
            self.lines.at_mut(self.layout.line(at.0)).note_trim(it.seq);
        }
        let (slots, seq, entries, mut tally) = (it.slots, it.seq, it.entries.len(), it.tally);
        tally.add(Cause::Map, SECTORS_PER_BLOCK);
        let mut body = Gather::new();
        if slots > 0 {
            body.push(Piece::Data(self.rows.buffer(row).view(0, Row::byte(slots))));
        }
        if slots < blocks {
            body.push(Piece::Zeros(Row::byte(blocks - slots)));
        }
        let holds = Holds::Blocks;
        let draft = Draft { body, meta, entries, holds, seq, newest, tally, placement: 0 };
        let command = self.strips.program(at, draft, &self.lines, cx);
        cx.submit(Op::Row { row }, command);
    }

    /// Completes the program of a row.
    pub(super) fn row_done(
        &mut self,
        row: u16,
        (command, result): (Command, Result<(), DeviceError>),
        cx: &mut Cx,
    ) {
        let Command::Program { gather, .. } = command else { unreachable!("a completed program") };
        for piece in gather {
            match piece {
                Piece::Meta { buf, .. } => self.rows.at_mut(row).tail = Some(buf),
                piece => self.rows.repay(piece),
            }
        }
        let it = self.rows.at(row);
        let (seq, segment, strip) = (it.seq, it.segment, it.strip);
        self.lines.chunks_mut().sent(segment, strip, result.is_err());
        match result {
            Ok(()) => {
                self.rows.at_mut(row).go(Phase::Written);
                self.durability.written(seq);
            }
            Err(DeviceError::Media) => {
                // The segment is out of use, so the row goes to another one under the same number.
                self.rows.send_again(row);
                self.lines.lose_segment(segment, cx);
                self.lines.row_over(self.layout.line(segment), self.newest());
            }
            Err(error) => return fail(error, cx),
        }
        self.retire(segment, cx);
    }

    /// Points the map at the medium for all readable rows of a segment.
    pub(super) fn retire(&mut self, segment: u32, cx: &mut Cx) {
        let hidden = if planted(Bug::ZonesReadTooEarly) { 0 } else { self.layout.unreadable() };
        let readable = self.lines.chunk(segment).readable(hidden);
        for row in 0..self.layout.rows() as u16 {
            let it = self.rows.at(row);
            // Until the strip is readable, reads are served from the buffer of the row.
            let is_here = it.phase() == Phase::Written && it.segment == segment;
            if is_here && it.strip < readable {
                self.retire_row(row, cx);
            }
        }
    }

    fn retire_row(&mut self, row: u16, cx: &mut Cx) {
        let it = self.rows.at_mut(row);
        it.go(Phase::Draining);
        let line = self.layout.line(it.segment);
        for entry in &it.entries {
            // A block that was written or trimmed again is no longer in this row.
            let here = At::Row { row, slot: entry.value as u8 };
            if entry.kind == Kind::Data && self.map.get(entry.block) == here {
                let place = self.layout.place(it.segment, it.strip, entry.value);
                self.map.set(entry.block, At::Media(place));
                self.lines.add_valid(line);
            }
        }
        cx.touch(it.entries.len());
        self.lines.row_over(line, self.durability.newest());
    }

    /// Discards the payloads at a power cut.
    pub(super) fn void(&mut self) {
        self.rows.void();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::cx::trial;
    use crate::zones::lines::tests::free_lines;

    fn store() -> Store {
        let (layout, lines) = free_lines();
        Store { lines, ..Store::new(&layout, Params::default(), Vec::new()) }
    }

    #[test]
    fn published_blocks_replace_older_ones() {
        let mut store = store();
        let place = store.layout.place(store.layout.segment(5, 1), 3, 2);
        store.map.set(7, At::Media(place));
        store.lines.at_mut(5).add_valid();
        let (row, slot, count) = store.take(Who::Host, 40).expect("there is room");
        assert_eq!((slot, count), (0, store.layout.strip_blocks()), "a row has no more");
        store.list(row, slot, 7.., 2, Cause::Host);
        store.filled(row, count);
        trial(|cx| store.publish(7, (row, slot), cx));
        assert_eq!(store.map.get(7), At::Row { row, slot: 0 });
        assert_eq!(store.lines.at(5).valid(), 0);
        assert_eq!((store.device_block(row, 0), store.first_unwritten()), (None, 1));
    }

    #[test]
    fn a_trim_is_listed_in_the_row_and_unmaps_the_block() {
        let mut store = store();
        store.map.set(9, At::Lost);
        assert!(store.trim(8, 4));
        assert_eq!(store.map.get(9), At::Nowhere);
        let row = store.row(store.rows.filling().expect("a stripe is being filled"));
        let entry = row.entries[0];
        assert_eq!((entry.kind, entry.block, entry.value), (Kind::Trim, 8, 4));
        assert!(row.has_trim);
    }

    #[test]
    #[should_panic(expected = "pages are filled once")]
    fn pages_are_filled_once() {
        let mut store = store();
        let (row, _, count) = store.take(Who::Host, 3).expect("there is room");
        store.filled(row, count);
        store.filled(row, count);
    }
}

//! Into the open rows: taking room, and pointing the map at what came.
//!
//! Rows are replayed in the order in which they were sealed, so a row must not list what a row that
//! was sealed before it has a newer version of. Each item therefore knows its heir: the row that
//! took its block over while this one was still open.

use hostftl_format::log::{GRAIN, Kind, Place};

use crate::planted::{Bug, planted};

use crate::log::Engine;
use crate::log::journal::ring::segments_for;
use crate::log::layout::{At, ROWS};
use crate::log::ops::Cx;
use crate::log::row::streams::{COPIES, MAP, is_of_host};
use crate::log::row::{DEAD, Item, NO_HEIR, Phase, Row};

/// Who wants room, and where.
#[derive(Clone, Copy, Debug)]
pub struct To {
    stream: u8,
    /// Whether it is a copy, not the host's.
    pub copy: bool,
}

/// Where a stream goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    /// Where the next row begins; `None` before the first segment.
    pub next: Option<At>,
    /// The segment that follows.
    pub ahead: Option<u32>,
    /// The row that is filled.
    pub filling: Option<u8>,
}

impl Engine {
    /// Where a write of a block goes.
    pub(in crate::log) fn to_write(&self, block: u64) -> To {
        let old = self.pages.map().place(block);
        let segment = (!old.is_nowhere()).then(|| self.layout.segment_of(old.byte()));
        To { stream: self.segments.stream_of_write(segment), copy: false }
    }

    /// Where a copy of what lies at `place` goes.
    pub(in crate::log) fn to_copy(&self, place: Place) -> To {
        let segment = self.layout.segment_of(place.byte());
        To { stream: self.segments.stream_of_copy(segment), copy: true }
    }

    /// Where recovery puts what only the journal has.
    pub(in crate::log) fn to_restore(&self) -> To {
        To { stream: self.segments.stream_of_write(None), copy: true }
    }

    /// Whether what wants room must leave the segments that are left to copies.
    fn must_wait(&self, to: To) -> bool {
        let shared = !to.copy && !self.segments.uses(COPIES);
        shared && self.segments.free() < self.layout.reserve
    }

    /// The row that takes `len` bytes, and where in it. `None` when there is none now.
    fn take_room(&mut self, to: To, len: u32, cx: &mut Cx) -> Option<(u8, u8, u32)> {
        if self.must_wait(to) {
            return None;
        }
        for _ in 0..2 {
            let row = match self.streams[to.stream as usize].filling {
                Some(row) => row,
                None => self.open_row(to, cx)?,
            };
            if let Some((chunk, byte)) = self.rows[row as usize].take(len) {
                return Some((row, chunk, byte));
            }
            self.close(row, cx);
        }
        None
    }

    /// No more goes into a row.
    pub(in crate::log) fn close(&mut self, row: u8, cx: &mut Cx) {
        cx.disturb();
        let it = &mut self.rows[row as usize];
        it.go(Phase::Closed);
        self.active |= 1 << row;
        let (stream, at, sectors) = (it.stream, it.at, it.sectors(&self.layout, 0));
        self.streams[stream as usize].filling = None;
        self.advance(stream, at, sectors);
    }

    /// Free segments that collection may not open. Those that are kept for what only the journal
    /// has are not needed while it has nothing, but for the rows that the host's segment takes.
    fn copies_floor(&self) -> u32 {
        let (least, most) = (self.layout.restore_floor(), self.layout.gc_floor());
        match self.all_durable(self.durability.host()) {
            true => most.min(least + segments_for(self.layout.slots, self.layout.slots)),
            false => most,
        }
    }

    fn open_row(&mut self, to: To, cx: &mut Cx) -> Option<u8> {
        let stream = to.stream;
        let others = if is_of_host(stream) { MAP - COPIES } else { COPIES };
        let held =
            |row: &&Row| row.phase() != Phase::Idle && is_of_host(row.stream) == is_of_host(stream);
        if self.rows.iter().filter(held).count() + usize::from(others) >= ROWS {
            return None; // The other streams must be able to go on.
        }
        let row = self.rows.iter().position(|row| row.phase() == Phase::Idle)? as u8;
        let floor = match to.copy {
            true if self.recovery.is_some() => self.layout.restore_floor(),
            true => self.copies_floor(),
            false => self.layout.reserve,
        };
        let at = self.next_at(stream, floor)?;
        cx.disturb();
        let stamp = self.durability.open();
        self.segments.stamp = stamp;
        self.rows[row as usize].open(&self.layout, at, stream, stamp);
        let ahead = self.streams[stream as usize].ahead;
        self.rows[row as usize].ahead = ahead.expect("a stream knows its next segment");
        self.segments.row_opened(at.segment);
        self.streams[stream as usize].filling = Some(row);
        Some(row)
    }

    /// Where the next row of a stream begins; opens a segment when it must, and more than `floor`
    /// are free.
    pub(in crate::log) fn next_at(&mut self, stream: u8, floor: u32) -> Option<At> {
        let it = &mut self.streams[stream as usize];
        if it.next.is_none() {
            // Of the two segments that a stream holds one is always there already.
            let wanted = 1 + u32::from(it.ahead.is_none());
            if self.segments.free() < floor + wanted {
                return None;
            }
            let segment = it.ahead.take().unwrap_or_else(|| self.segments.open(stream));
            it.ahead = Some(self.segments.open(stream));
            it.next = Some(At { segment, slot: 0, sector: 0 });
        }
        let at = it.next.take().expect("there is a place now");
        Some(at)
    }

    /// A row of a stream took so much of its slot: the next begins behind it.
    pub(in crate::log) fn advance(&mut self, stream: u8, at: At, sectors: u32) {
        let next = self.layout.after(at, sectors).filter(|_| !self.devices.is_hurt(at.segment));
        self.streams[stream as usize].next = next;
        if next.is_none() {
            self.segments.leave(at.segment);
        }
    }

    /// The place of a record in a row.
    pub(in crate::log) fn place_in(
        &self,
        row: u8,
        chunk: u8,
        byte: u32,
        len: u32,
        generation: u8,
    ) -> Place {
        let it = &self.rows[row as usize];
        let device = self.layout.device(it.at.segment, it.at.slot, chunk.into());
        let first = self.layout.lba(it.at) * 512 + u64::from(byte);
        Place::new(device, first, len, generation)
    }

    /// The row in memory that has the record at `place`, with the chunk and the byte in it.
    pub(in crate::log) fn row_of(&self, place: Place) -> Option<(u8, u8, u32)> {
        let segment = self.layout.segment_of(place.byte());
        if !self.segments.has_rows(segment) {
            return None;
        }
        self.rows.iter().enumerate().find_map(|(index, row)| {
            if !row.is_buffered() || row.at.segment != segment {
                return None;
            }
            let first = self.layout.lba(row.at) * 512;
            let byte = place.byte().checked_sub(first)?;
            let slot = (row.at.segment, row.at.slot);
            let chunk = self.layout.chunk_on(slot.0, slot.1, place.device())?;
            // Behind a row that was sealed early the slot may hold the next one.
            let inside = byte < row.used[chunk as usize].into() || planted(Bug::RowOfSlot);
            inside.then_some((index as u8, chunk, byte as u32))
        })
    }

    /// What the map pointed at is no longer wanted: row `heir` has what is newer.
    fn bury(&mut self, old: Place, heir: u64) {
        if old.is_nowhere() || self.journal.is_place(old) {
            return;
        }
        let replaced = self.journal.moment();
        if let Some((row, chunk, byte)) = self.row_of(old)
            && self.rows[row as usize].is_unsealed()
            && let Some(item) = self.rows[row as usize].find(chunk, byte)
        {
            (item.heir, item.replaced) = (heir, replaced);
        }
        self.segments.kill(self.layout.segment_of(old.byte()), old);
    }

    /// A block's record is in its row, new or from another place: the map points there.
    pub(in crate::log) fn publish(&mut self, row: u8, item: u32, from: Option<Place>, cx: &mut Cx) {
        let it = &self.rows[row as usize];
        let (stamp, Item { block, place, crc, .. }) = (it.stamp, it.items[item as usize]);
        cx.touch(1);
        let segment = it.at.segment;
        if from.is_none() {
            self.note(row, item, cx);
        }
        let old = self.pages.map_mut().set(block, place, crc);
        self.segments.add(segment, place);
        let from = from.map(|place| self.layout.segment_of(place.byte()));
        self.segments.aged(segment, from);
        self.bury(old, stamp);
    }

    /// A copy is in its row: the map points there, unless it points elsewhere by now.
    pub(in crate::log) fn publish_copy(&mut self, row: u8, item: u32, from: Place, cx: &mut Cx) {
        let block = self.rows[row as usize].items[item as usize].block;
        if self.pages.map().place(block) == from || planted(Bug::CopyOverNewer) {
            self.publish(row, item, Some(from), cx);
        } else {
            self.rows[row as usize].items[item as usize].heir = DEAD;
        }
    }

    /// Lists that `blocks` blocks hold nothing any more, and unmaps them. False when there is no
    /// room for that now.
    pub(in crate::log) fn append_trim(&mut self, first: u64, blocks: u64, cx: &mut Cx) -> bool {
        let to = To { stream: self.segments.stream_of_write(None), copy: false };
        let Some((row, chunk, byte)) = self.take_room(to, 0, cx) else { return false };
        let it = &mut self.rows[row as usize];
        let item = it.push(Item {
            kind: if planted(Bug::TrimUnlisted) { Kind::Map } else { Kind::Trim },
            block: first,
            place: Place::from_bits(blocks),
            crc: 0,
            heir: NO_HEIR,
            replaced: 0,
            chunk,
            byte,
        });
        it.has_trims = true;
        let stamp = it.stamp;
        self.note(row, item, cx);
        self.durability.host_published(stamp);
        for block in first..first + blocks {
            if !self.pages.map().place(block).is_nowhere() {
                let old = self.pages.map_mut().set(block, Place::NOWHERE, 0);
                self.bury(old, stamp);
            }
        }
        true
    }

    /// Takes room for a record and notes it; the data must follow. The row and the item.
    pub(in crate::log) fn append(
        &mut self,
        to: To,
        (block, len, generation): (u64, u32, u8),
        crc: u32,
        cx: &mut Cx,
    ) -> Option<(u8, u32)> {
        if self.is_paced(to, cx) {
            return None;
        }
        let (row, chunk, byte) = self.take_room(to, len, cx)?;
        if !to.copy {
            self.pace_taken(len);
        }
        let place = self.place_in(row, chunk, byte, len, generation);
        let it = &mut self.rows[row as usize];
        let kind = Kind::Data;
        let item =
            it.push(Item { kind, block, place, crc, heir: NO_HEIR, replaced: 0, chunk, byte });
        it.placing += 1;
        it.copied[chunk as usize] += if to.copy { len.next_multiple_of(GRAIN) } else { 0 };
        Some((row, item))
    }
}

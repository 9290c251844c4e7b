//! Into the open rows: taking room, and pointing the map at what came.
//!
//! Rows are replayed in the order in which they were sealed, so a row must not list what a row that
//! was sealed before it has a newer version of. Each item therefore knows its heir: the row that
//! took its block over while this one was still open.

use hostftl_format::log::{Kind, Place};

use crate::planted::{Bug, planted};

use super::Log;
use super::layout::At;
use super::row::{DEAD, Item, NO_HEIR, Phase};

/// The stream of the host's writes.
pub const HOST: u8 = 0;
/// The stream of what collection moves.
pub const GC: u8 = 1;
/// The stream of map images.
pub const MAP: u8 = 2;

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

impl Log {
    /// The row of `stream` that takes `len` bytes, and where in it. `None` when there is none now.
    pub(super) fn take_room(&mut self, stream: u8, len: u32) -> Option<(u8, u8, u32)> {
        for _ in 0..2 {
            let row = match self.streams[stream as usize].filling {
                Some(row) => row,
                None => self.open_row(stream)?,
            };
            if let Some((chunk, byte)) = self.rows[row as usize].take(len) {
                return Some((row, chunk, byte));
            }
            self.close(row);
        }
        None
    }

    /// No more goes into a row.
    pub(super) fn close(&mut self, row: u8) {
        let it = &mut self.rows[row as usize];
        assert_eq!(it.phase, Phase::Filling, "only a row that is filled is closed");
        it.phase = Phase::Closed;
        let (stream, at, sectors) = (it.stream, it.at, it.sectors(&self.layout, 0));
        self.streams[stream as usize].filling = None;
        self.advance(stream, at, sectors);
    }

    fn open_row(&mut self, stream: u8) -> Option<u8> {
        let held = self.rows.iter().filter(|row| row.stream == stream && row.phase != Phase::Idle);
        if held.count() >= super::layout::ROWS - 2 {
            return None; // The other stream must be able to go on.
        }
        let row = self.rows.iter().position(|row| row.phase == Phase::Idle)? as u8;
        let at = self.next_at(stream)?;
        self.stamps += 1;
        self.segments.stamp = self.stamps;
        self.rows[row as usize].open(&self.layout, at, stream, self.stamps);
        let ahead = self.streams[stream as usize].ahead;
        self.rows[row as usize].ahead = ahead.expect("a stream knows its next segment");
        self.segments.row_opened(at.segment);
        self.streams[stream as usize].filling = Some(row);
        Some(row)
    }

    /// Where the next row of a stream begins; opens a segment when it must.
    pub(super) fn next_at(&mut self, stream: u8) -> Option<At> {
        let floor = match stream {
            HOST => self.layout.reserve,
            GC => self.layout.gc_floor(),
            _ => 0,
        };
        let it = &mut self.streams[stream as usize];
        if it.next.is_none() {
            // Of the two segments that a stream holds one is always there already.
            let wanted = 1 + u32::from(it.ahead.is_none());
            if self.segments.free() < floor + wanted {
                return None;
            }
            let of_map = stream == MAP;
            let segment = it.ahead.take().unwrap_or_else(|| self.segments.open(of_map));
            it.ahead = Some(self.segments.open(of_map));
            it.next = Some(At { segment, slot: 0, sector: 0 });
        }
        let at = it.next.take().expect("there is a place now");
        Some(at)
    }

    /// A row of a stream took so much of its slot: the next begins behind it.
    pub(super) fn advance(&mut self, stream: u8, at: At, sectors: u32) {
        let next = self.layout.after(at, sectors);
        self.streams[stream as usize].next = next;
        if next.is_none() {
            self.segments.leave(at.segment);
        }
    }

    /// The place of a record in a row.
    pub(super) fn place_in(
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
    pub(super) fn row_of(&self, place: Place) -> Option<(u8, u8, u32)> {
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
            let chunk = (0..row.used_chunks())
                .find(|chunk| self.layout.device(slot.0, slot.1, *chunk) == place.device())?;
            // Behind a row that was sealed early the slot may hold the next one.
            let inside = byte < row.used[chunk as usize].into() || planted(Bug::RowOfSlot);
            inside.then_some((index as u8, chunk as u8, byte as u32))
        })
    }

    /// What the map pointed at is no longer wanted: row `heir` has what is newer.
    fn bury(&mut self, old: Place, heir: u64) {
        if old.is_nowhere() {
            return;
        }
        if let Some((row, chunk, byte)) = self.row_of(old)
            && self.rows[row as usize].is_unsealed()
            && let Some(item) = self.rows[row as usize].find(chunk, byte)
        {
            item.heir = heir;
        }
        self.segments.kill(self.layout.segment_of(old.byte()), old);
    }

    /// A block's record is in its row: the map points there.
    pub(super) fn publish(&mut self, row: u8, item: u32) {
        let it = &self.rows[row as usize];
        let (stamp, Item { block, place, crc, .. }) = (it.stamp, it.items[item as usize]);
        self.touched += 1;
        let old = self.map.set(block, place, crc);
        self.segments.add(it.at.segment, place);
        self.bury(old, stamp);
    }

    /// A copy is in its row: the map points there, unless it points elsewhere by now.
    pub(super) fn publish_copy(&mut self, row: u8, item: u32, from: Place) {
        let block = self.rows[row as usize].items[item as usize].block;
        if self.map.place(block) == from || planted(Bug::CopyOverNewer) {
            self.publish(row, item);
        } else {
            self.rows[row as usize].items[item as usize].heir = DEAD;
        }
    }

    /// Lists that `blocks` blocks hold nothing any more, and unmaps them. False when there is no
    /// room for that now.
    pub(super) fn append_trim(&mut self, first: u64, blocks: u64) -> bool {
        let Some((row, chunk, byte)) = self.take_room(HOST, 0) else { return false };
        let it = &mut self.rows[row as usize];
        it.push(Item {
            kind: if planted(Bug::TrimUnlisted) { Kind::Map } else { Kind::Trim },
            block: first,
            place: Place::from_bits(blocks),
            crc: 0,
            heir: NO_HEIR,
            chunk,
            byte,
        });
        let stamp = it.stamp;
        self.host_stamp = self.host_stamp.max(stamp);
        for block in first..first + blocks {
            if !self.map.place(block).is_nowhere() {
                let old = self.map.set(block, Place::NOWHERE, 0);
                self.bury(old, stamp);
            }
        }
        true
    }

    /// Takes room for a record and notes it; the data must follow. The row and the item.
    pub(super) fn append(
        &mut self,
        stream: u8,
        (block, len, generation): (u64, u32, u8),
        crc: u32,
    ) -> Option<(u8, u32)> {
        let (row, chunk, byte) = self.take_room(stream, len)?;
        let place = self.place_in(row, chunk, byte, len, generation);
        let it = &mut self.rows[row as usize];
        let item =
            it.push(Item { kind: Kind::Data, block, place, crc, heir: NO_HEIR, chunk, byte });
        it.placing += 1;
        Some((row, item))
    }
}

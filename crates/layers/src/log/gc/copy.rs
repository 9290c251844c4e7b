//! Copies valid records of the victim to a stream of copies: checked, never unpacked.
//!
//! Invariants
//! - One batch is under way at a time; it goes from one chunk of the victim to one chunk of a row.
//! - What has the wrong checksum, and what is behind it in its batch, leaves dead room in the row.

use alloc::vec::Vec;

use hostftl_core::{Command, DeviceError, Part, Verdict};
use hostftl_format::log::seed;

use crate::log::buffers::Buffer;
use crate::log::gc::{Checked, Live};
use crate::log::map::Where;
use crate::log::ops::{Cx, Op};
use crate::log::row::DEAD;
use crate::log::{Engine, OWN_OPS};

/// The records that one command moves.
#[derive(Debug)]
pub struct Batch {
    /// Bytes in the buffers, then offsets in the views.
    parts: Vec<Part>,
    /// Each as a record of the victim's row, and as an item of the row to which it goes.
    records: Vec<(u16, u32)>,
    row: u8,
}

impl Batch {
    /// Of at most `most` records.
    pub fn new(most: u32) -> Self {
        let (parts, records) = (Vec::with_capacity(most as usize), Vec::new());
        let mut batch = Batch { parts, records, row: 0 };
        batch.records.reserve_exact(most as usize);
        batch
    }
}

impl Engine {
    /// Moves the next records, as many as lie in one chunk and go to one.
    pub(in crate::log) fn move_some(&mut self, cx: &mut Cx) -> bool {
        if self.collection.outstanding > 0 || cx.command_room() <= OWN_OPS / 2 {
            return false;
        }
        let Some(first) = self.next_live() else {
            let over = self.collection.bad == 0;
            if over && !self.tell_row(cx) {
                self.next_row(cx);
            }
            return over;
        };
        let mut next = Some(first);
        while let Some(live) = next.filter(|live| live.chunk == first.chunk) {
            if !self.take_along(live, cx) {
                break;
            }
            next = self.next_live();
        }
        let moves = !self.collection.batch.parts.is_empty();
        if moves {
            self.send_batch(first.chunk, cx);
        }
        moves
    }

    /// The next record that may still be live and is not known to be damaged.
    fn next_live(&mut self) -> Option<Live> {
        loop {
            let live = *self.collection.live.get(self.collection.cursor)?;
            let stays = match self.pages.pair(live.block) {
                Some((place, _)) => place == live.place,
                None => self.pages.map().state(self.pages.map().page_of(live.block)) != Where::Bad,
            };
            if live.state == Checked::No && stays {
                return Some(live);
            }
            self.collection.cursor += 1;
        }
    }

    /// Adds a record to the batch, and keeps its map page. False when that has to come first, or
    /// when there is no room, or not in the same chunk.
    fn take_along(&mut self, live: Live, cx: &mut Cx) -> bool {
        let (len, generation) = (live.place.len(), live.place.generation());
        let batch = &self.collection.batch;
        if !batch.parts.is_empty() && !self.rows[batch.row].continues(len) {
            return false;
        }
        if !self.pin_for_copy(live, cx) {
            return false;
        }
        let record = (live.block, len, generation);
        let Some((row, item)) = self.append(self.to_copy(live.place), record, live.crc, cx) else {
            let page = self.pages.map().page_of(live.block);
            self.pages.map_mut().unpin(page);
            return false;
        };
        let into = self.rows[row].items[item as usize].byte;
        let seed = seed(live.block, generation);
        let it = &mut self.collection;
        it.batch.row = row;
        it.batch.parts.push(Part { from: live.byte, into, len, crc: live.crc, seed });
        it.batch.records.push((it.cursor as u16, item));
        it.cursor += 1;
        cx.touch(1);
        true
    }

    /// Pins the map page of a record. False when that has to come first.
    fn pin_for_copy(&mut self, live: Live, cx: &mut Cx) -> bool {
        let page = self.pages.map().page_of(live.block);
        if self.pages.map().state(page) == Where::Here && self.pages.map_mut().pin(page, 0) {
            return true;
        }
        if self.keep_page(page, cx) != Where::Here
            || self.pages.map().place(live.block) != live.place
        {
            return false;
        }
        self.pages.map_mut().pin_again(page);
        true
    }

    fn send_batch(&mut self, chunk: u8, cx: &mut Cx) {
        let mut parts = core::mem::take(&mut self.collection.batch.parts);
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        for part in &mut parts {
            part.from -= first.from;
            part.into -= first.into;
        }
        let source = Buffer::Gc(chunk);
        let from = self.buffers.at(source).view(first.from, last.from + last.len - first.from);
        let Batch { row, ref records, .. } = self.collection.batch;
        let to = self.rows[row].items[records[0].1 as usize].chunk;
        let buffer = Buffer::row(row, to.into());
        let into = self.buffers.at(buffer).view_mut(first.into, last.into + last.len - first.into);
        self.collection.outstanding += 1;
        self.devices.submit(Op::GcMove, Command::Move { from, into, parts }, cx);
    }

    /// A batch is in its row, up to the first record that is damaged.
    pub(in crate::log) fn gc_move_done(
        &mut self,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        let Command::Move { from, into, mut parts } = command else {
            unreachable!("a move comes back")
        };
        let right = result.expect("a move in memory can't fail").bytes as usize;
        let batch = &mut self.collection.batch;
        let (row, mut records) = (batch.row, core::mem::take(&mut batch.records));
        let chunk = self.collection.live[records[0].0 as usize].chunk;
        let source = Buffer::Gc(chunk);
        self.buffers.at(source).repay(from);
        self.buffers.repay_row_mut(row, into);
        for (index, &(record, item)) in records.iter().enumerate() {
            let live = &mut self.collection.live[record as usize];
            let block = live.block;
            if index < right {
                live.state = Checked::Moved;
                let from = live.place;
                self.publish_copy(row, item, from, cx);
            } else {
                self.rows[row].items[item as usize].heir = DEAD;
            }
            let page = self.pages.map().page_of(block);
            self.pages.map_mut().unpin(page);
        }
        self.rows[row].placing -= records.len() as u32;
        if let Some(&(record, _)) = records.get(right) {
            self.found_damaged(record);
        }
        parts.clear();
        records.clear();
        self.collection.batch = Batch { parts, records, row };
        self.collection.outstanding -= 1;
    }

    /// A record is not as it should be: its chunk has to be made from the others, if it was not.
    fn found_damaged(&mut self, record: u16) {
        let it = &mut self.collection;
        let live = &mut it.live[record as usize];
        let mended = it.mended >> live.chunk & 1 == 1;
        live.state = if mended { Checked::Gone } else { Checked::Bad };
        it.bad |= u32::from(!mended) << live.chunk;
        it.flawed |= 1 << live.chunk;
        it.cursor = usize::from(record) + 1;
    }
}

//! Copies valid records of the victim to a stream of copies: checked, never unpacked.
//!
//! Invariants
//! - A lane has one batch under way at a time; it goes from one chunk of the victim to one chunk of
//!   a row, where it takes room in one go.
//! - What has the wrong checksum, and what is behind it in its batch, leaves dead room in the row.

use alloc::vec::Vec;

use hostftl_core::{Command, Part};
use hostftl_format::log::seed;

use crate::kit::shell::Ended;
use crate::log::buffers::{Buffer, Buffers};
use crate::log::gc::lane::{Checked, Lane, Live};
use crate::log::map::Where;
use crate::log::map::pages::Pages;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::output::Output;

/// The records that one command moves.
#[derive(Debug)]
pub(super) struct Batch {
    /// Bytes in the buffers, then offsets in the views.
    parts: Vec<Part>,
    /// Each as a record of the victim's row, and as an item of the row to which it goes.
    records: Vec<(u16, u32)>,
    row: u8,
}

impl Batch {
    /// Bytes of memory for each record that it may have.
    pub(super) const BYTES: u64 = (size_of::<Part>() + size_of::<(u16, u32)>()) as u64;

    /// Of at most `most` records.
    pub(super) fn new(most: u32) -> Self {
        let (parts, records) = (Vec::with_capacity(most as usize), Vec::new());
        let mut batch = Batch { parts, records, row: 0 };
        batch.records.reserve_exact(most as usize);
        batch
    }
}

/// Records that were moved: each as a record of the victim's row and as an item of its new row.
pub(super) type Records = Vec<(u16, u32)>;

impl Lane {
    /// The next record that may still be live and is not known to be damaged.
    #[inline]
    pub(crate) fn next_live(&mut self, pages: &mut Pages) -> Option<&Live> {
        let may_be_live = |live: &Live| {
            let stays = match pages.pair(live.block) {
                Some((place, _)) => place == live.place,
                None => pages.map().state(pages.map().page_of(live.block)) != Where::Bad,
            };
            live.state == Checked::No && stays
        };
        let others = self.live[self.cursor..].iter().position(may_be_live);
        self.cursor = others.map_or(self.live.len(), |others| self.cursor + others);
        self.live.get(self.cursor)
    }

    /// Whether the next records may be moved now.
    pub(crate) fn may_move(&self) -> bool {
        self.is_moving() && self.outstanding == 0
    }

    /// The row to which the batch goes, if it has anything.
    pub(crate) fn batch_row(&self) -> Option<u8> {
        (!self.batch.parts.is_empty()).then_some(self.batch.row)
    }

    /// Pins the map page of the next record, when it is not here or can't be pinned now. False when
    /// that has to come first.
    pub(crate) fn pin_for_copy(
        &mut self,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let Live { block, place, .. } = self.live[self.cursor];
        let page = mapping.pages.map().page_of(block);
        if self.keep_page(page, media, mapping, cx) != Where::Here
            || mapping.pages.map().place(block) != place
        {
            return false;
        }
        mapping.pages.map_mut().pin_again(page);
        true
    }

    /// Whether the next record lies behind the last one of the batch. Where blocks are told apart,
    /// the records of a chunk are ordered by stream before they are moved, and a block may have
    /// another stream by then.
    pub(crate) fn goes_up(&self) -> bool {
        let next = &self.live[self.cursor];
        self.batch.parts.last().is_none_or(|last| last.from < next.byte)
    }

    /// Adds the next record to the batch: it becomes an item of a row, at byte `into`.
    pub(crate) fn take(&mut self, (row, item): (u8, u32), into: u32) {
        assert!(self.batch_row().is_none_or(|it| it == row), "a batch goes to one row");
        let live = &self.live[self.cursor];
        let (len, seed) = (live.place.len(), seed(live.block, live.place.generation()));
        self.batch.row = row;
        self.batch.parts.push(Part { from: live.byte, into, len, crc: live.crc, seed });
        self.batch.records.push((self.cursor as u16, item));
        self.cursor += 1;
    }

    /// Sends the batch, which lies in a chunk of the victim's row.
    pub(crate) fn send(&mut self, chunk: u8, media: &mut Media, output: &mut Output, cx: &mut Cx) {
        let mut parts = core::mem::take(&mut self.batch.parts);
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        for part in &mut parts {
            part.from -= first.from;
            part.into -= first.into;
        }
        let from = media
            .buffers
            .at(self.source(chunk))
            .view(first.from, last.from + last.len - first.from);
        let Batch { row, ref records, .. } = self.batch;
        let to = output.rows[row].items[records[0].1 as usize].chunk;
        let buffer = Buffer::row(row, to.into());
        let into = media.buffers.at(buffer).view_mut(first.into, last.into + last.len - first.into);
        self.outstanding += 1;
        let op = Op::GcMove { lane: self.number };
        media.devices.submit(op, Command::Move { from, into, parts }, cx);
    }

    /// Where the records of a chunk lie that are not moved yet.
    fn source(&self, chunk: u8) -> Buffer {
        if self.chunks.is_rebuilt(chunk) {
            Buffer::GcSum(self.number)
        } else {
            Buffer::Gc(self.number, chunk)
        }
    }

    /// A batch is in its row, up to the first record that is damaged: the row, how many are right,
    /// and all of them.
    pub(crate) fn moved(
        &mut self,
        command: Command,
        ended: Ended,
        buffers: &mut Buffers,
    ) -> (u8, usize, Records) {
        let Command::Move { from, into, mut parts } = command else {
            unreachable!("a move comes back")
        };
        let right = ended.expect("a move in memory can't fail").bytes as usize;
        let (row, records) = (self.batch.row, core::mem::take(&mut self.batch.records));
        let chunk = self.live[usize::from(records[0].0)].chunk;
        buffers.at(self.source(chunk)).repay(from);
        buffers.repay_row_mut(row, into);
        parts.clear();
        self.batch.parts = parts;
        (row, right, records)
    }

    /// A record as it was in the victim's row; it is in its new row now when that is `right`.
    pub(crate) fn record(&mut self, record: u16, right: bool) -> Live {
        let live = &mut self.live[usize::from(record)];
        if right {
            live.state = Checked::Moved;
        }
        *live
    }

    /// A batch is over.
    pub(crate) fn batch_over(&mut self, right: usize, mut records: Records) {
        if let Some(&(record, _)) = records.get(right) {
            self.found_damaged(record);
        }
        records.clear();
        self.batch.records = records;
        self.outstanding -= 1;
    }

    /// A record is not as it should be: its chunk has to be made from the others, if there is
    /// a way that was not tried.
    fn found_damaged(&mut self, record: u16) {
        let live = &mut self.live[usize::from(record)];
        self.chunks.blame(live.chunk);
        live.state = if self.chunks.distrust(live.chunk) { Checked::Bad } else { Checked::Gone };
        self.cursor = usize::from(record) + 1;
    }
}

//! Copies valid records of the victim to a stream of copies. Records are verified but never
//! decompressed.
//!
//! Invariants
//! - A lane has one batch in flight. It moves records from one chunk of the victim to one chunk of
//!   a stripe, where it reserves space in one piece.
//! - A record with a wrong checksum, and the records behind it in its batch, leave unused space in
//!   the stripe.

use alloc::vec::Vec;

use hostftl_core::{Command, Part};
use hostftl_format::log::seed;

use crate::kit::shell::Ended;
use crate::log::buffers::{Buffer, Buffers};
use crate::log::gc::lane::{Checked, Lane, ValidRecord};
use crate::log::map::Where;
use crate::log::map::pages::Pages;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::output::Output;

/// The records that one command moves.
#[derive(Debug)]
pub(super) struct Batch {
    /// Offsets in the buffers; converted to offsets in the views when the batch is sent.
    parts: Vec<Part>,
    /// Each record as an index in the victim's stripe and an item of the new stripe.
    records: Vec<(u16, u32)>,
    stripe: u8,
}

impl Batch {
    /// Bytes of memory per record.
    pub(super) const BYTES: u64 = (size_of::<Part>() + size_of::<(u16, u32)>()) as u64;

    /// Creates a batch with capacity for `most` records.
    pub(super) fn new(most: u32) -> Self {
        let (parts, records) = (Vec::with_capacity(most as usize), Vec::new());
        let mut batch = Batch { parts, records, stripe: 0 };
        batch.records.reserve_exact(most as usize);
        batch
    }
}

/// Moved records, each as an index in the victim's stripe and an item of the new stripe.
pub(super) type Records = Vec<(u16, u32)>;

impl Lane {
    /// Returns the next record that may still be valid and is not known to be damaged.
    #[inline]
    pub(crate) fn next_valid(&mut self, pages: &mut Pages) -> Option<&ValidRecord> {
        let may_be_valid = |valid: &ValidRecord| {
            let stays = match pages.pair(valid.block) {
                Some((place, _)) => place == valid.place,
                // Without its map page a record may be valid, unless the page is unreadable.
                None => pages.map().state(pages.map().map_page(valid.block)) != Where::Bad,
            };
            valid.state == Checked::No && stays
        };
        let others = self.valid[self.cursor..].iter().position(may_be_valid);
        self.cursor = others.map_or(self.valid.len(), |others| self.cursor + others);
        self.valid.get(self.cursor)
    }

    /// Returns whether the next records may be moved now.
    pub(crate) fn may_move(&self) -> bool {
        self.is_moving() && self.outstanding == 0
    }

    /// Returns the stripe that receives the batch, unless the batch is empty.
    pub(crate) fn batch_stripe(&self) -> Option<u8> {
        (!self.batch.parts.is_empty()).then_some(self.batch.stripe)
    }

    /// Pins the map page of the next record. Returns false if the page is not in memory or the
    /// record has become invalid.
    pub(crate) fn pin_for_copy(
        &mut self,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let ValidRecord { block, place, .. } = self.valid[self.cursor];
        let page = mapping.pages.map().map_page(block);
        if self.keep_page(page, media, mapping, cx) != Where::Here
            || mapping.pages.map().place(block) != place
        {
            return false;
        }
        mapping.pages.map_mut().pin_again(page);
        true
    }

    /// Returns whether the next record is behind the last one of the batch. With separation of
    /// streams, the records of a chunk are sorted by stream, and the stream of a block may have
    /// changed since.
    pub(crate) fn is_ascending(&self) -> bool {
        let next = &self.valid[self.cursor];
        self.batch.parts.last().is_none_or(|last| last.from < next.byte)
    }

    /// Adds the next record to the batch as an item of a stripe, at byte `into`.
    pub(crate) fn take(&mut self, (stripe, item): (u8, u32), into: u32) {
        assert!(self.batch_stripe().is_none_or(|it| it == stripe), "a batch goes to one stripe");
        let valid = &self.valid[self.cursor];
        let (len, seed) = (valid.place.len(), seed(valid.block, valid.place.generation()));
        self.batch.stripe = stripe;
        self.batch.parts.push(Part { from: valid.byte, into, len, crc: valid.crc, seed });
        self.batch.records.push((self.cursor as u16, item));
        self.cursor += 1;
    }

    /// Sends the batch, whose records are in one chunk of the victim's stripe.
    pub(crate) fn send(&mut self, chunk: u8, media: &mut Media, output: &mut Output, cx: &mut Cx) {
        let mut parts = core::mem::take(&mut self.batch.parts);
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        for part in &mut parts {
            // The views begin at the first record.
            part.from -= first.from;
            part.into -= first.into;
        }
        let from = media
            .buffers
            .at(self.source(chunk))
            .view(first.from, last.from + last.len - first.from);
        let Batch { stripe, ref records, .. } = self.batch;
        let to = output.stripes[stripe].items[records[0].1 as usize].chunk;
        let buffer = Buffer::stripe(stripe, to.into());
        let into = media.buffers.at(buffer).view_mut(first.into, last.into + last.len - first.into);
        self.outstanding += 1;
        let op = Op::GcMove { lane: self.number };
        media.devices.submit(op, Command::Move { from, into, parts }, cx);
    }

    /// Returns the buffer with the unmoved records of a chunk.
    fn source(&self, chunk: u8) -> Buffer {
        if self.chunks.is_rebuilt(chunk) {
            Buffer::GcSum(self.number)
        } else {
            Buffer::Gc(self.number, chunk)
        }
    }

    /// Takes a completed batch, which is in its stripe up to the first damaged record. Returns the
    /// stripe, the number of correct records, and all records.
    pub(crate) fn moved(
        &mut self,
        command: Command,
        ended: Ended,
        buffers: &mut Buffers,
    ) -> (u8, usize, Records) {
        let Command::Move { from, into, mut parts } = command else {
            unreachable!("a completed move")
        };
        let right = ended.expect("a move in memory succeeds").bytes as usize;
        let (stripe, records) = (self.batch.stripe, core::mem::take(&mut self.batch.records));
        let chunk = self.valid[usize::from(records[0].0)].chunk;
        buffers.at(self.source(chunk)).repay(from);
        buffers.repay_stripe_mut(stripe, into);
        // The vector returns to the batch, so that moves allocate nothing.
        parts.clear();
        self.batch.parts = parts;
        (stripe, right, records)
    }

    /// Returns a record of the victim's stripe, and marks it as moved if it is `right`.
    pub(crate) fn record(&mut self, record: u16, right: bool) -> ValidRecord {
        let valid = &mut self.valid[usize::from(record)];
        if right {
            valid.state = Checked::Moved;
        }
        *valid
    }

    /// Ends a batch of which the first `right` records are correct.
    pub(crate) fn batch_over(&mut self, right: usize, mut records: Records) {
        if let Some(&(record, _)) = records.get(right) {
            self.found_damaged(record);
        }
        records.clear();
        self.batch.records = records;
        self.outstanding -= 1;
    }

    /// Handles a damaged record: its chunk must be rebuilt, or the record is lost if no way is
    /// left.
    fn found_damaged(&mut self, record: u16) {
        let valid = &mut self.valid[usize::from(record)];
        self.chunks.blame(valid.chunk);
        valid.state = if self.chunks.distrust(valid.chunk) { Checked::Bad } else { Checked::Lost };
        // The records behind the damaged one were not moved, so they are sent again.
        self.cursor = usize::from(record) + 1;
    }
}

//! Appends to the open stripes: reserves space in a stripe, and updates the map once the data is
//! there.
//!
//! Stripes are replayed in the order in which they were sealed. So a stripe must not list a record
//! if a stripe that was sealed earlier has a newer version of its block. Each item therefore knows
//! its heir: the stripe that received a newer version while the item's stripe was still open.

use hostftl_core::Command;
use hostftl_format::log::{Kind, Place};

use crate::kit::Life;
use crate::kit::shell::Ended;
use crate::log::array::Array;
use crate::log::durability::Durability;
use crate::log::gc::lane::ValidRecord;
use crate::log::journal::ring::segments_for;
use crate::log::layout::Reserves;
use crate::log::ops::{Cx, OWN_OPS};
use crate::log::output::Output;
use crate::log::segments::Segments;
use crate::log::stripe::streams::COPIES;
use crate::log::stripe::stripes::Stripes;
use crate::log::stripe::{A_TRIM, INVALID, Item, NO_HEIR};
use crate::planted::{Bug, planted};

/// Purpose of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Host write.
    Write,
    /// Trim while garbage collection makes no progress: it frees space, so it may use the reserve.
    Relief,
    /// Copy by garbage collection, which frees space, or by recovery, which must finish.
    Copy,
    /// Copy of rebuilt data. It frees no space, so it may not use the GC reserve.
    Repair,
}

/// Purpose and stream of an append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To {
    stream: u8,
    what: What,
}

/// Returns the number of free segments that garbage collection may not open. The segments reserved
/// for the journal's blocks are not needed while all host data is durable, except for the stripes
/// in the host's open segment.
fn copies_floor(kept: &Reserves, slots: u32, stripes: &Stripes, durability: &Durability) -> u32 {
    let (least, most) = (kept.restore_floor(), kept.gc_floor());
    if durability.has_all(durability.host(), stripes.unsealed()) {
        most.min(least + segments_for(slots, slots))
    } else {
        most
    }
}

impl Array {
    /// Returns the destination of a host write.
    pub(crate) fn to_write(&self, block: u64) -> To {
        let old = self.mapping.pages.map().place(block);
        let segment = (!old.is_nowhere()).then(|| self.layout().segment_at(old.byte()));
        To { stream: self.media.segments.stream_of_write(block, segment), what: What::Write }
    }

    /// Returns the destination of a copy of a block at `place`.
    pub(crate) fn to_copy(&self, block: u64, place: Place) -> To {
        let segment = self.layout().segment_at(place.byte());
        To { stream: self.media.segments.stream_of_copy(block, segment), what: What::Copy }
    }

    /// Returns the destination of a copy of a block at `place` that had to be rebuilt.
    pub(crate) fn to_repair(&self, block: u64, place: Place) -> To {
        To { what: What::Repair, ..self.to_copy(block, place) }
    }

    /// Returns the destination of a block that recovery copies from the journal.
    pub(crate) fn to_restore(&self) -> To {
        To { stream: self.media.segments.stream_of_new(), what: What::Copy }
    }

    /// Returns whether an append must wait because the free segments are reserved for copies.
    fn must_wait(&self, to: To) -> bool {
        let shared = match to.what {
            What::Write => !self.media.segments.uses(COPIES),
            // These free space or finish recovery, so they may use the reserve.
            What::Copy | What::Relief => false,
            What::Repair => true,
        };
        shared && self.media.segments.free() < self.media.segments.reserves().host
    }

    /// Reserves `len` bytes. Returns the stripe, the chunk and the byte, or `None` if there is no
    /// space now.
    #[inline]
    fn take_room(&mut self, to: To, len: u32, cx: &mut Cx) -> Option<(u8, u8, u32)> {
        if self.must_wait(to) {
            return None;
        }
        let found = self.output.stripes.take_here(to.stream, len);
        found.or_else(|| self.take_room_in_next(to, len, cx))
    }

    /// Reserves space in the next stripe, because the current one is full or missing.
    #[inline(never)]
    fn take_room_in_next(&mut self, to: To, len: u32, cx: &mut Cx) -> Option<(u8, u8, u32)> {
        let starting = cx.life() == Life::Starting;
        let Array { media, output: Output { stripes, durability, .. }, background, .. } = self;
        let collection = &background.collection;
        let slots = media.layout().slots;
        let floor = |stripes: &Stripes, durability: &Durability, segments: &Segments| {
            let kept = segments.reserves();
            match to.what {
                // Recovery must finish before garbage collection can free anything.
                What::Copy if starting => kept.restore_floor(),
                What::Copy => {
                    let lent = collection.lent_floor(segments);
                    lent.unwrap_or_else(|| copies_floor(kept, slots, stripes, durability))
                }
                What::Relief => kept.gc_floor(),
                What::Write | What::Repair => kept.host,
            }
        };
        stripes.take_in_next((to.stream, floor), len, media, durability, cx)
    }

    /// Returns the segment of a place in a stripe; `None` for no place, and in the journal.
    #[inline]
    fn segment_at(&self, place: Place) -> Option<u32> {
        let is_in_a_stripe = !place.is_nowhere() && !self.output.journal.is_place(place);
        is_in_a_stripe.then(|| self.layout().segment_at(place.byte()))
    }

    /// Marks the old place of a block as invalid. Its item, if not sealed yet, gets item `newer` of
    /// stripe `heir` as its heir.
    fn bury(&mut self, (old, segment): (Place, u32), (heir, newer): (u64, u32)) {
        let replaced = self.output.journal.moment();
        // Only a stripe that is not sealed yet can omit the old version.
        if let Some((stripe, chunk, byte)) =
            self.output.stripes.holding(old, segment, &self.media.segments)
            && self.output.stripes[stripe].is_unsealed()
            && let Some(item) = self.output.stripes[stripe].find(chunk, byte)
        {
            (item.heir, item.newer, item.replaced) = (heir, newer, replaced);
        }
        self.media.segments.kill(segment, old);
    }

    /// Points the map at a block's record, which is now in its stripe. `from` is its old place if
    /// it is a copy.
    pub(crate) fn publish(&mut self, stripe: u8, item: u32, from: Option<Place>, cx: &mut Cx) {
        let it = &self.output.stripes[stripe];
        let (stamp, Item { block, place, crc, .. }) = (it.stamp, it.items[item as usize]);
        cx.touch(1);
        let segment = it.at.segment;
        // Noted before the old version is buried, because its moment of replacement is the order of
        // this publication. Copies are not noted: the original stays durable until the copy is.
        if from.is_none() {
            self.output.note(stripe, item, cx);
        }
        let old = self.mapping.pages.map_mut().set(block, place, crc);
        // Added before the old version is subtracted, so that a segment that contains both never
        // becomes empty in between.
        self.media.segments.add(segment, place);
        let replaced = self.segment_at(old);
        if from.is_none() && self.media.segments.separates_blocks() {
            self.media.segments.wrote(block, replaced);
        }
        // A copy keeps the age of its data.
        let from = match from {
            Some(from) if from == old => replaced,
            Some(from) => Some(self.layout().segment_at(from.byte())),
            None => None,
        };
        self.media.segments.aged(segment, from);
        if let Some(replaced) = replaced {
            self.bury((old, replaced), (stamp, item));
        }
    }

    /// Points the map at a copy in its stripe, unless the block was written or trimmed meanwhile.
    pub(crate) fn publish_copy(&mut self, stripe: u8, item: u32, from: Place, cx: &mut Cx) {
        let block = self.output.stripes[stripe].items[item as usize].block;
        // The map decides: a copy is only valid while the map still points at the original.
        if self.mapping.pages.map().place(block) == from || planted(Bug::CopyOverNewer) {
            self.publish(stripe, item, Some(from), cx);
        // A newer version exists: the copy is never listed.
        } else {
            self.output.stripes[stripe].items[item as usize].heir = INVALID;
        }
    }

    /// Lists a trim of `blocks` blocks in a stripe and unmaps them. Returns false if there is no
    /// space now.
    pub(crate) fn append_trim(&mut self, first: u64, blocks: u64, cx: &mut Cx) -> bool {
        let is_stalled = self.background.collection.is_stalled(&self.media.segments);
        let what = if is_stalled { What::Relief } else { What::Write };
        let to = To { stream: self.media.segments.stream_of_new(), what };
        let Some((stripe, chunk, byte)) = self.take_room(to, 0, cx) else { return false };
        let it = &mut self.output.stripes[stripe];
        let item = it.push(Item {
            kind: if planted(Bug::TrimUnlisted) { Kind::Map } else { Kind::Trim },
            block: first,
            place: Place::from_bits(blocks),
            crc: 0,
            heir: NO_HEIR,
            newer: 0,
            replaced: 0,
            chunk,
            byte,
        });
        // A stripe with trims must be sealed before later writes in other host streams; see
        // `trims_before`.
        it.has_trims = true;
        let stamp = it.stamp;
        self.output.note(stripe, item, cx);
        self.output.durability.host_published(stamp);
        for block in first..first + blocks {
            if !self.mapping.pages.map().place(block).is_nowhere() {
                let old = self.mapping.pages.map_mut().set(block, Place::NOWHERE, 0);
                if let Some(segment) = self.segment_at(old) {
                    self.bury((old, segment), (stamp, A_TRIM));
                }
            }
        }
        true
    }

    /// Reserves space for a record and adds its item; the data follows. Returns the stripe and the
    /// item.
    pub(crate) fn append(
        &mut self,
        to: To,
        (block, len, generation): (u64, u32, u8),
        crc: u32,
        cx: &mut Cx,
    ) -> Option<(u8, u32)> {
        let gains = to.what == What::Copy;
        // Host writes and repairs are throttled to the progress of garbage collection.
        if !gains && self.background.collection.is_paced(&self.media.segments, cx) {
            return None;
        }
        let (stripe, chunk, byte) = self.take_room(to, len, cx)?;
        if !gains {
            self.background.collection.pace_taken(len, &self.media.segments);
        }
        let it = &mut self.output.stripes[stripe];
        let place = it.spread.place((chunk, byte), len, generation);
        let kind = Kind::Data;
        let (heir, newer, replaced) = (NO_HEIR, 0, 0);
        let item = it.push(Item { kind, block, place, crc, heir, newer, replaced, chunk, byte });
        // The stripe cannot be sealed until the data has arrived.
        it.placing += 1;
        if to.what != What::Write {
            it.fill.mark_copy(chunk, len);
        }
        Some((stripe, item))
    }

    /// Moves the next records of a lane that are in one chunk and have the same destination.
    pub(crate) fn move_some(&mut self, lane: u8, cx: &mut Cx) -> bool {
        if self.background.collection.holds_copies(&self.media, cx)
            || !self.background.collection.lane(lane).may_move()
            || cx.commands_left() <= OWN_OPS / 2
        {
            return false;
        }
        let Some(&ValidRecord { chunk, block, place, .. }) =
            self.background.collection.lane(lane).next_valid(&mut self.mapping.pages)
        else {
            let Array { media, mapping, background, .. } = self;
            return background.collection.end_stripe(lane, media, mapping, cx);
        };
        let to = self.to_copy(block, place);
        while self.take_along(lane, (chunk, to), cx) {}
        let moves = self.background.collection.lane(lane).batch_stripe().is_some();
        if moves {
            let Array { media, output, background, .. } = self;
            background.collection.lane(lane).send(chunk, media, output, cx);
        }
        moves || self.background.collection.lanes().others_let_go(lane, &mut self.mapping)
    }

    /// Adds the next record to the batch and pins its map page. Returns false if the page must be
    /// loaded first, if there is no space in the same chunk, if the record belongs to another
    /// stream than `to`, or if `chunk` has no further record.
    fn take_along(&mut self, lane: u8, (chunk, to): (u8, To), cx: &mut Cx) -> bool {
        let it = self.background.collection.lane(lane);
        let stripe = it.batch_stripe();
        let Some(record) =
            it.next_valid(&mut self.mapping.pages).filter(|record| record.chunk == chunk)
        else {
            return false;
        };
        let (block, place, crc) = (record.block, record.place, record.crc);
        let (len, generation) = (place.len(), place.generation());
        // All records of a segment go to one stream, unless blocks are classified individually.
        let parts = self.media.segments.separates_blocks();
        // A batch is one command, so its records must be contiguous in the target chunk.
        if stripe.is_some_and(|stripe| !self.output.stripes[stripe].continues(len))
            || parts && self.to_copy(block, place).stream != to.stream
            || parts && !self.background.collection.lane(lane).is_ascending()
        {
            return false;
        }
        let Array { media, mapping, background, .. } = self;
        let pinned = mapping.pages.map_mut().pin_here(block)
            || background.collection.lane(lane).pin_for_copy(media, mapping, cx);
        if !pinned {
            return false;
        }
        let Some((stripe, item)) = self.append(to, (block, len, generation), crc, cx) else {
            let page = self.mapping.pages.map().map_page(block);
            // The record is not in the batch, so its page is not kept pinned.
            self.mapping.pages.map_mut().unpin(page);
            return false;
        };
        let into = self.output.stripes[stripe].items[item as usize].byte;
        self.background.collection.lane(lane).take((stripe, item), into);
        cx.touch(1);
        true
    }

    /// Publishes a batch of a lane that was copied to its stripe.
    pub(crate) fn gc_move_done(&mut self, lane: u8, command: Command, ended: Ended, cx: &mut Cx) {
        let it = self.background.collection.lane(lane);
        let (stripe, right, records) = it.moved(command, ended, &mut self.media.buffers);
        for (index, &(record, item)) in records.iter().enumerate() {
            let ValidRecord { block, place, .. } =
                self.background.collection.lane(lane).record(record, index < right);
            if index < right {
                self.publish_copy(stripe, item, place, cx)
            } else {
                // Its space is already reserved, so the item remains, but the stripe will not list
                // it.
                self.output.stripes[stripe].items[item as usize].heir = INVALID
            }
            let page = self.mapping.pages.map().map_page(block);
            self.mapping.pages.map_mut().unpin(page);
        }
        self.output.stripes.placed(stripe, records.len() as u32, cx);
        self.background.collection.lane(lane).batch_over(right, records);
    }
}

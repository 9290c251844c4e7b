//! Steps of a block operation. A read fetches the record, verifies and decompresses it. A write
//! compresses the block, reserves space in the open stripe of its stream, copies the record there
//! and publishes it.

use hostftl_core::{
    ALL_ZEROS, BLOCK, Cause, Codec, Command, HostError, Piece, SECTOR, SECTORS_PER_BLOCK, Target,
    Verdict, View, ViewMut,
};
use hostftl_format::log::seed;

use crate::kit::Health;
use crate::kit::shell::Ended;
use crate::log::array::Array;
use crate::log::buffers::Buffer;
use crate::log::host::{BlockOp, Blocks, Holder, MOST_PACKED, NOBODY, PACKED, PLAIN, Step};
use crate::log::ops::{Cx, Op};

impl Blocks {
    #[inline]
    pub(super) fn send(
        &mut self,
        index: u8,
        step: Step,
        command: Command,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        self.op(index).step = step;
        array.media.devices.submit(Op::Block { index }, command, cx);
    }

    /// Reads the contents of a block: into the host's buffer if all of it is requested, else into
    /// the scratch buffer.
    pub(crate) fn fetch(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = *self.op(index);
        // A block without a record reads as zeros.
        if it.place.is_nowhere() {
            return self.fetch_zeros(index, array, cx);
        }
        let segment = array.layout().segment_at(it.place.byte());
        // The record may still be in the buffers of a stripe.
        if let Some((stripe, chunk, byte)) =
            array.output.stripes.holding(it.place, segment, &array.media.segments)
        {
            self.op(index).holder = Holder::Stripe(stripe);
            let buffer = Buffer::stripe(stripe, chunk.into());
            let from = array.media.buffers.at(buffer).view(byte, it.place.len());
            return self.expand(index, from, array, cx);
        }
        self.read_range(index, (it.place.device(), 0), Step::Reading, array, cx);
    }

    /// Reads the sectors of the record's range from any device to byte `to` of the scratch buffer.
    pub(super) fn read_range(
        &mut self,
        index: u8,
        (device, to): (u8, u32),
        step: Step,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let place = self.op(index).place;
        // The segment must not be reused while the record may still be needed for a rebuild.
        if !core::mem::replace(&mut self.op(index).holds, true) {
            array.media.segments.pin(array.layout().segment_at(place.byte()));
        }
        let lba = place.byte() / SECTOR as u64;
        let bytes = self.range_bytes(index);
        let (scratch, at) = array.media.buffers.scratch(index);
        let into = Target::Data(scratch.view_mut(at + to, bytes));
        let command = Command::Read { device, lba, into, cause: Cause::Host };
        self.send(index, step, command, array, cx);
    }

    fn fetch_zeros(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = *self.op(index);
        let (step, into, sectors) = if it.writes {
            let (scratch, at) = array.media.buffers.scratch(index);
            (Step::Plain, scratch.view_mut(at + PLAIN, BLOCK as u32), SECTORS_PER_BLOCK)
        } else {
            let data = cx.requests().data(it.req);
            (Step::Giving, data.view_mut_sectors(it.at, it.sectors), it.sectors)
        };
        let command = Command::Place { from: Piece::zero_sectors(sectors), into };
        self.send(index, step, command, array, cx);
    }

    /// Verifies and decompresses a record.
    pub(crate) fn expand(&mut self, index: u8, from: View, array: &mut Array, cx: &mut Cx) {
        let it = *self.op(index);
        // A whole block is expanded into the host's buffer, which saves a copy.
        let whole = it.is_whole() && !it.writes;
        let (step, into) = if whole {
            let data = cx.requests().data(it.req);
            (Step::Expanding, data.view_mut_sectors(it.at, it.sectors))
        } else {
            let (scratch, at) = array.media.buffers.scratch(index);
            (Step::Plain, scratch.view_mut(at + PLAIN, BLOCK as u32))
        };
        // A record of a whole block is one that did not compress.
        let raw = it.place.len() == BLOCK as u32;
        let codec = if raw { Codec::Raw } else { self.codec };
        let seed = seed(it.block, it.place.generation());
        let command = Command::Unpack { from, into, codec, seed, crc: it.crc };
        self.send(index, step, command, array, cx);
    }

    /// Compresses the block that is written.
    pub(crate) fn pack(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let (it, codec) = (*self.op(index), self.codec);
        let (scratch, at) = array.media.buffers.scratch(index);
        // Without compression the output is limited so that nothing fits; packing then only
        // computes the checksum and detects zeros.
        let most = if codec == Codec::Raw { SECTOR as u32 } else { MOST_PACKED };
        let into = scratch.view_mut(at + PACKED, most);
        let from = if it.is_whole() && it.data {
            cx.requests().data(it.req).view_sectors(it.at, it.sectors)
        } else {
            let (scratch, at) = array.media.buffers.scratch(index);
            scratch.view(at + PLAIN, BLOCK as u32)
        };
        let seed = seed(it.block, it.generation);
        self.op(index).step = Step::Packing;
        cx.compute(Op::Block { index }, || Command::Pack { from, into, codec, seed });
    }

    /// Returns the uncompressed data that is written.
    pub(crate) fn plain_view(&mut self, index: u8, array: &mut Array, cx: &mut Cx) -> View {
        let it = *self.op(index);
        if it.is_whole() && it.data {
            return cx.requests().data(it.req).view_sectors(it.at, it.sectors);
        }
        let (scratch, at) = array.media.buffers.scratch(index);
        scratch.view(at + PLAIN, BLOCK as u32)
    }

    fn repay_plain(&mut self, index: u8, view: View, array: &mut Array, cx: &mut Cx) {
        let it = *self.op(index);
        if it.is_whole() && it.data {
            cx.requests().data(it.req).repay(view);
        } else {
            array.media.buffers.scratch(index).0.repay(view);
        }
    }

    /// Handles the completion of an operation's command.
    #[inline]
    pub(crate) fn block_done(
        &mut self,
        index: u8,
        command: Command,
        ended: Ended,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        self.repay(index, command, array, cx);
        match ended {
            Ok(verdict) => self.continue_block(index, verdict, array, cx),
            Err(error) => self.block_failed(index, error, array, cx),
        }
    }

    /// Handles the completion of the compression.
    #[inline]
    pub(crate) fn pack_done(
        &mut self,
        index: u8,
        (from, into): (View, ViewMut),
        verdict: Verdict,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        self.repay_plain(index, from, array, cx);
        array.media.buffers.scratch(index).0.repay_mut(into);
        self.continue_block(index, verdict, array, cx);
    }

    /// Handles the completion of a copy.
    #[inline]
    pub(crate) fn place_done(
        &mut self,
        index: u8,
        (from, into): (View, ViewMut),
        array: &mut Array,
        cx: &mut Cx,
    ) {
        self.repay_place(index, Piece::Data(from), into, array, cx);
        self.continue_block(index, Verdict::default(), array, cx);
    }

    /// Returns the error that stops an operation, if the layer has failed.
    #[inline]
    pub(crate) fn stopped(&self, writes: bool, cx: &Cx) -> Option<HostError> {
        let health = cx.health();
        // A read-only volume still serves reads.
        health.error().filter(|_| writes || health == Health::Failed)
    }

    /// Continues an operation after a successful command.
    fn continue_block(&mut self, index: u8, verdict: Verdict, array: &mut Array, cx: &mut Cx) {
        let writes = self.op(index).writes;
        if let Some(error) = self.stopped(writes, cx) {
            return self.end_block(index, Some(error), array, cx);
        }
        match self.op(index).step {
            Step::Reading => {
                let from = self.record_view(index, array);
                self.expand(index, from, array, cx);
            }
            Step::Repairing(step) => self.continue_repair(index, (step, verdict), array, cx),
            Step::Expanding => {
                self.let_go(index, array);
                self.end_block(index, None, array, cx);
            }
            Step::Giving => self.end_block(index, None, array, cx),
            Step::Plain => {
                self.let_go(index, array);
                if writes { self.merge(index, array, cx) } else { self.give(index, array, cx) }
            }
            Step::Merging => self.pack(index, array, cx),
            Step::Packing => self.packed(index, verdict, array),
            Step::Placing { stripe, item } => {
                self.placed(index, stripe, item, array, cx);
                self.end_block(index, None, array, cx);
            }
            Step::Behind | Step::Mapping | Step::Waiting { .. } | Step::Unmapping => {
                unreachable!("the operation has no command")
            }
        }
    }

    /// Unpins the segment of a record that was verified.
    fn let_go(&mut self, index: u8, array: &mut Array) {
        let it = self.op(index);
        let place = it.place;
        if core::mem::take(&mut it.holds) {
            array.media.segments.unpin(array.layout().segment_at(place.byte()));
        }
    }

    /// Takes back the buffers of a command.
    #[inline]
    fn repay(&mut self, index: u8, command: Command, array: &mut Array, cx: &mut Cx) {
        let it = *self.op(index);
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                array.media.buffers.scratch(index).0.repay_mut(view);
            }
            Command::Unpack { from, into, .. } => {
                match it.holder {
                    Holder::Stripe(stripe) => {
                        cx.invalidate_fast_path(); // The stripe's buffers may be idle.
                        array.media.buffers.repay_stripe(stripe, from);
                    }
                    Holder::Joint(joint) => {
                        self.op(index).holder = Holder::Scratch;
                        self.joint.repay(joint, from, array);
                    }
                    Holder::Scratch => array.media.buffers.scratch(index).0.repay(from),
                }
                if it.step == Step::Expanding {
                    cx.requests().data(it.req).repay_mut(into);
                } else {
                    array.media.buffers.scratch(index).0.repay_mut(into);
                }
            }
            Command::Pack { from, into, .. } => {
                self.repay_plain(index, from, array, cx);
                array.media.buffers.scratch(index).0.repay_mut(into);
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view| array.media.buffers.scratch(index).0.repay(view));
                array.media.buffers.scratch(index).0.repay_mut(into);
            }
            Command::Digest { from, .. } => array.media.buffers.scratch(index).0.repay(from),
            Command::Place { from, into } => self.repay_place(index, from, into, array, cx),
            other => unreachable!("{other:?} is not a step of a block"),
        }
    }

    fn repay_place(
        &mut self,
        index: u8,
        from: Piece,
        into: ViewMut,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let it = *self.op(index);
        match it.step {
            Step::Giving => cx.requests().data(it.req).repay_mut(into),
            Step::Placing { stripe, item } => {
                let chunk = array.output.stripes[stripe].items[item as usize].chunk;
                let buffer = Buffer::stripe(stripe, chunk.into());
                array.media.buffers.at(buffer).repay_mut(into);
            }
            _ => array.media.buffers.scratch(index).0.repay_mut(into),
        }
        let Piece::Data(from) = from else { return };
        match it.step {
            Step::Merging => cx.requests().data(it.req).repay(from),
            Step::Placing { .. } if it.place.len() == BLOCK as u32 => {
                self.repay_plain(index, from, array, cx)
            }
            _ => array.media.buffers.scratch(index).0.repay(from),
        }
    }

    /// Copies the host's part, or zeros, into the plain block.
    fn merge(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = *self.op(index);
        let from = if it.data {
            Piece::Data(cx.requests().data(it.req).view_sectors(it.at, it.sectors))
        } else {
            Piece::zero_sectors(it.sectors)
        };
        let (scratch, at) = array.media.buffers.scratch(index);
        let bytes = |sectors: u32| sectors * SECTOR as u32;
        let into = scratch.view_mut(at + PLAIN + bytes(it.from), bytes(it.sectors));
        self.send(index, Step::Merging, Command::Place { from, into }, array, cx);
    }

    /// Copies the requested part of the plain block to the host.
    fn give(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = *self.op(index);
        let into = cx.requests().data(it.req).view_mut_sectors(it.at, it.sectors);
        let bytes = |sectors: u32| sectors * SECTOR as u32;
        let (scratch, at) = array.media.buffers.scratch(index);
        let from = Piece::Data(scratch.view(at + PLAIN + bytes(it.from), bytes(it.sectors)));
        self.send(index, Step::Giving, Command::Place { from, into }, array, cx);
    }

    fn packed(&mut self, index: u8, Verdict { bytes, crc }: Verdict, array: &mut Array) {
        if bytes == ALL_ZEROS {
            array.media.gauges.zeros += 1;
            return self.wait_for_stripe(index, Step::Unmapping);
        }
        // An incompressible block is stored uncompressed.
        let len = if bytes == 0 { BLOCK as u32 } else { bytes };
        array.count_packed(len);
        self.wait_for_stripe(index, Step::Waiting { len, crc });
    }

    pub(crate) fn end_block(
        &mut self,
        index: u8,
        error: Option<HostError>,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let it = self.list[index as usize].take().expect("an operation in progress");
        if error.is_some()
            && let Step::Placing { stripe, .. } = it.step
        {
            // The stripe waits for this record, which will not come.
            array.output.stripes.placed(stripe, 1, cx);
        }
        if it.holds {
            array.media.segments.unpin(array.layout().segment_at(it.place.byte()));
        }
        if it.writes {
            self.written(it.block);
        }
        if it.pinned {
            let page = array.mapping.pages.map().map_page(it.block);
            array.mapping.pages.map_mut().unpin(page);
        }
        if it.req == NOBODY {
            return self.free.push(index);
        }
        // The operation continues as a repair that moves the rebuilt record to another stripe.
        if error.is_none() && it.origin.rebuilt_from().is_some() && !it.writes {
            self.begin_repair(index, it, array, cx)
        } else {
            self.free.push(index)
        }
        let active = cx.requests().at(it.req);
        active.outstanding -= 1;
        // The first error decides.
        active.error = active.error.or(error);
        self.complete_if_over(it.req, array, cx);
    }

    /// Returns the length of the sectors that contain the record, in bytes.
    pub(crate) fn range_bytes(&mut self, index: u8) -> u32 {
        let place = self.op(index).place;
        let first = place.byte() / SECTOR as u64;
        let end = (place.byte() + u64::from(place.len())).div_ceil(SECTOR as u64);
        (end - first) as u32 * SECTOR as u32
    }

    /// Returns the record in the scratch buffer.
    pub(crate) fn record_view(&mut self, index: u8, array: &mut Array) -> View {
        let place = self.op(index).place;
        let skip = (place.byte() % SECTOR as u64) as u32;
        let (scratch, at) = array.media.buffers.scratch(index);
        scratch.view(at + skip, place.len())
    }

    /// Reserves space in a stripe for the operation that has waited longest.
    #[inline]
    pub(crate) fn pump_blocks(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        self.waiting.front().copied().is_some_and(|index| self.make_room(index, array, cx))
    }

    /// Reserves space in a stripe for operation `index`, the first in the queue.
    fn make_room(&mut self, index: u8, array: &mut Array, cx: &mut Cx) -> bool {
        // Nothing waits for space after a failure, because none is freed any more.
        if let Some(error) = cx.health().error() {
            self.waiting.pop_front();
            self.end_block(index, Some(error), array, cx);
            return true;
        }
        let it = *self.op(index);
        match it.step {
            Step::Unmapping => {
                // A block that is already unmapped needs no trim.
                let mapped = !array.mapping.pages.map().place(it.block).is_nowhere();
                if mapped && !array.append_trim(it.block, 1, cx) {
                    return false;
                }
                self.waiting.pop_front();
                self.end_block(index, None, array, cx);
            }
            Step::Waiting { len, crc } if it.req == NOBODY => {
                // A repair is optional: without space it is dropped instead of blocking the queue.
                self.waiting.pop_front();
                let record = (it.block, len, it.place.generation());
                match array.append(array.to_repair(it.block, it.place), record, crc, cx) {
                    Some((stripe, item)) => self.put_in(index, (stripe, item, len), array, cx),
                    None => self.end_block(index, None, array, cx),
                }
            }
            Step::Waiting { len, crc } => {
                let record = (it.block, len, it.generation);
                let to = array.to_write(it.block);
                let Some((stripe, item)) = array.append(to, record, crc, cx) else { return false };
                self.waiting.pop_front();
                self.put_in(index, (stripe, item, len), array, cx);
            }
            other => unreachable!("an operation does not wait in {other:?}"),
        }
        true
    }

    fn put_in(
        &mut self,
        index: u8,
        (stripe, item, len): (u8, u32, u32),
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let from = if self.op(index).req == NOBODY {
            self.record_view(index, array)
        } else if len == BLOCK as u32 {
            self.plain_view(index, array, cx)
        } else {
            let (scratch, at) = array.media.buffers.scratch(index);
            scratch.view(at + PACKED, len)
        };
        // The place is known only now; the map points there once the copy is complete.
        let noted = array.output.stripes[stripe].items[item as usize];
        self.op(index).place = noted.place;
        let buffer = Buffer::stripe(stripe, noted.chunk.into());
        let into = array.media.buffers.at(buffer).view_mut(noted.byte, len);
        self.op(index).step = Step::Placing { stripe, item };
        let command = || Command::Place { from: Piece::Data(from), into };
        cx.compute(Op::Block { index }, command);
    }

    /// Publishes a record that was copied to its stripe.
    pub(crate) fn placed(
        &mut self,
        index: u8,
        stripe: u8,
        item: u32,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let BlockOp { req, origin, .. } = *self.op(index);
        match origin.rebuilt_from().filter(|_| req == NOBODY) {
            Some(from) => array.publish_copy(stripe, item, from, cx),
            None => array.publish(stripe, item, None, cx),
        }
        array.output.stripes.placed(stripe, 1, cx);
        let it = &array.output.stripes[stripe];
        if it.is_of_host() {
            array.output.durability.host_published(it.stamp);
        }
    }
}

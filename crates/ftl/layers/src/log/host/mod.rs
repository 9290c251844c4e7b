//! Host I/O: requests, split into blocks, and the operations on these blocks.
//!
//! Invariants
//! - At most one operation writes a block at a time, so the order of items in stripes is the order
//!   of versions.
//! - An operation has one command in flight, or waits for its map page, for space in a stripe, for
//!   a joint read, or for the operation that writes its block before it.
//! - An operation that writes keeps its map page pinned until it ends.
//! - The scratch buffer of an operation contains the record as read, the plain block, and the
//!   compressed block.

mod bound;
mod joint;
mod repair;
mod requests;
mod room;
mod steps;
#[cfg(test)]
mod tests;
mod writing;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{BLOCK, Codec, HostError, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::log::Place;

use crate::log::array::Array;
use crate::log::host::bound::Bound;
use crate::log::host::joint::JointReads;
use crate::log::host::writing::Writing;
use crate::log::layout::BLOCK_OPS;
use crate::log::map::Where;
use crate::log::ops::{Cx, OWN_OPS, works};
use crate::log::redundancy::rebuild::Rebuild;
use crate::planted::{Bug, planted};

/// Offset of the plain block in the scratch buffer, in bytes.
const PLAIN: u32 = 16 * SECTOR as u32;
/// Offset of the compressed block.
const PACKED: u32 = PLAIN + BLOCK as u32;
/// Operations kept free for each device that may still be lost. Operations of a timed-out device
/// continue in these.
const KEPT: usize = 8;
/// Maximum number of operations that wait for others to write their blocks.
const MOST_BEHIND: usize = BLOCK_OPS / 4;
/// Maximum length of a compressed block; longer ones are stored uncompressed.
const MOST_PACKED: u32 = BLOCK as u32 - 64;

/// Request number of an operation that no request waits for.
const NOBODY: u16 = u16::MAX;

/// Progress of a rebuild of a record; the rebuild's next chunk is read or added to the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    /// The next chunk is being read.
    Reading(Rebuild),
    /// The next chunk is being folded into the sum.
    Folding(Rebuild),
    /// The checksum of the sum is being computed.
    Checking(Rebuild),
}

/// Current step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Another operation writes its block first.
    Behind,
    /// Its map page is being read.
    Mapping,
    /// Its record is being read from a device.
    Reading,
    /// The record is being decompressed into the host's buffer.
    Expanding,
    /// The record is being decompressed into the scratch buffer, or that is being filled with
    /// zeros.
    Plain,
    /// The record is being rebuilt from other chunks, see [`repair`].
    Repairing(Repair),
    /// Part of the plain block, or zeros, is being copied to the host.
    Giving,
    /// The host's part is being copied into the plain block.
    Merging,
    /// The block is being compressed.
    Packing,
    /// The record waits for space in a stripe.
    Waiting { len: u32, crc: u32 },
    /// The block is all zeros and waits to be listed as a trim.
    Unmapping,
    /// The record is being copied to stripe `stripe` as item `item`.
    Placing { stripe: u8, item: u32 },
}

/// Source of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Its device, or not requested yet.
    Device,
    /// Other chunks of its stripe at place `from`; `lacked` is whether its device lacked the chunk.
    Others { from: Place, lacked: bool },
    /// Its device again, which lacked the chunk before, because the rebuild failed.
    Again,
}

impl Origin {
    /// Returns the original place of a record that was rebuilt from other chunks.
    fn rebuilt_from(self) -> Option<Place> {
        match self {
            Origin::Others { from, .. } => Some(from),
            Origin::Device | Origin::Again => None,
        }
    }
}

/// Buffer that contains the record of an operation that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Its own scratch buffer.
    Scratch,
    /// Buffer of a stripe in memory.
    Stripe(u8),
    /// Buffer of a joint read.
    Joint(u8),
}

/// Operation on one block, and its state.
#[derive(Clone, Copy, Debug)]
struct BlockOp {
    req: u16,
    block: u64,
    /// Part of the block that the host accesses: the first sector within the block, and the length.
    from: u32,
    sectors: u32,
    /// Offset of that part in the host's buffer, in sectors.
    at: u32,
    /// Whether it writes; without `data` it writes zeros.
    writes: bool,
    data: bool,
    /// Whether its map page is pinned.
    pinned: bool,
    generation: u8,
    place: Place,
    crc: u32,
    holder: Holder,
    /// Whether the segment of `place` is pinned. If the data turns out to be wrong, the other
    /// chunks of the stripe are read.
    holds: bool,
    origin: Origin,
    /// Whether the data was unreadable or wrong.
    flawed: bool,
    step: Step,
}

impl BlockOp {
    fn is_whole(&self) -> bool {
        self.sectors == SECTORS_PER_BLOCK
    }
}

#[derive(Debug)]
pub(super) struct Blocks {
    /// Compression of blocks.
    codec: Codec,
    /// Map page that is pinned for the first trim.
    trimming: Option<u32>,
    list: Vec<Option<BlockOp>>,
    free: Vec<u8>,
    writing: Writing,
    /// Operations behind others that write the same block, in order of arrival, and those that may
    /// continue.
    behind: VecDeque<u8>,
    released: VecDeque<u8>,
    waiting: VecDeque<u8>,
    /// Operations whose map pages are being read.
    page_waiters: PageWaiters,
    bound: Bound,
    joint: JointReads,
}

/// Operations that wait for their map pages.
#[derive(Debug)]
pub(super) struct PageWaiters {
    waiting: VecDeque<u8>,
    /// Completed loads at the last check.
    seen: u64,
    /// Whether the page of a waiting operation could not be requested.
    refused: bool,
}

impl PageWaiters {
    pub(super) fn new() -> Self {
        PageWaiters { waiting: VecDeque::with_capacity(BLOCK_OPS), seen: 0, refused: false }
    }

    /// Returns whether an operation waits for its map page.
    pub(super) fn any(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Blocks {
    /// Returns the state without operations.
    pub(super) fn new(codec: Codec) -> Self {
        Blocks {
            codec,
            trimming: None,
            list: alloc::vec![None; BLOCK_OPS],
            free: (0..BLOCK_OPS as u8).rev().collect(),
            writing: Writing::new(),
            behind: VecDeque::with_capacity(MOST_BEHIND),
            released: VecDeque::with_capacity(MOST_BEHIND),
            waiting: VecDeque::with_capacity(BLOCK_OPS),
            page_waiters: PageWaiters::new(),
            bound: Bound::default(),
            joint: JointReads::new(),
        }
    }

    /// Stores an operation under a number.
    fn put(&mut self, index: u8, op: BlockOp) {
        let slot = &mut self.list[usize::from(index)];
        assert!(slot.is_none(), "an operation has a unique number");
        *slot = Some(op);
    }

    fn written(&mut self, block: u64) {
        self.writing.remove(block);
        if self.behind.is_empty() {
            return;
        }
        let is_next =
            |index: &u8| self.list[usize::from(*index)].is_some_and(|it| it.block == block);
        if let Some(at) = self.behind.iter().position(is_next) {
            self.released.extend(self.behind.remove(at));
        }
    }

    /// Continues an operation whose block is not written by another one any more.
    pub(super) fn pump_released(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let next = self.released.pop_front();
        next.map(|index| self.find_record(index, array, cx)).is_some()
    }

    /// Returns whether no operation is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.list.iter().all(Option::is_none)
    }

    #[inline]
    fn op(&mut self, index: u8) -> &mut BlockOp {
        self.list[index as usize].as_mut().expect("an operation in progress")
    }

    /// Starts a read of `sectors` sectors at `from` in one block. Returns false if it has to wait.
    fn begin_read(
        &mut self,
        req: u16,
        from: u64,
        sectors: u32,
        array: &mut Array,
        cx: &mut Cx,
    ) -> bool {
        if !self.may_begin_block(array) || cx.commands_left() <= OWN_OPS {
            return false;
        }
        let block = from / u64::from(SECTORS_PER_BLOCK);
        let page = array.mapping.pages.map().map_page(block);
        array.mapping.pages.map_mut().try_again(page);
        let index = self.begin(req, block, (from, sectors), (false, true), array, cx);
        self.find_record(index, array, cx);
        true
    }

    /// Starts a write to part of one block, of the host's data or of zeros. Returns false if it has
    /// to wait.
    fn begin_write(
        &mut self,
        req: u16,
        (from, sectors): (u64, u32),
        data: bool,
        array: &mut Array,
        cx: &mut Cx,
    ) -> bool {
        let block = from / u64::from(SECTORS_PER_BLOCK);
        // Writes to the same block must not overtake each other, but those to others may overtake
        // them: databases write each part of a block of their journal on its own.
        let is_behind = self.writing.any_in(block, block + 1);
        if !self.may_begin_block(array)
            || cx.commands_left() <= OWN_OPS
            || is_behind && self.behind.len() + self.released.len() == MOST_BEHIND
        {
            return false;
        }
        let page = array.mapping.pages.map().map_page(block);
        array.mapping.pages.map_mut().try_again(page);
        let spare = array.spare_of_host();
        if array.mapping.hold(page, spare, &mut array.media, cx) == Where::Away {
            return false;
        }
        let index = self.begin(req, block, (from, sectors), (true, data), array, cx);
        self.writing.push(block);
        if is_behind && !planted(Bug::WriteOvertakes) {
            self.op(index).step = Step::Behind;
            self.behind.push_back(index);
        } else {
            self.find_record(index, array, cx);
        }
        true
    }

    /// Continues a block operation once the place of its record is known.
    fn advance(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = self.op(index);
        if it.writes && it.is_whole() {
            self.pack(index, array, cx);
        } else {
            self.fetch(index, array, cx);
        }
    }

    fn begin(
        &mut self,
        req: u16,
        block: u64,
        (from, sectors): (u64, u32),
        (writes, data): (bool, bool),
        array: &mut Array,
        cx: &mut Cx,
    ) -> u8 {
        let index = self.free.pop().expect("a free operation exists");
        let active = cx.requests().at(req);
        let at = active.cursor as u32;
        active.cursor += u64::from(sectors);
        active.outstanding += 1;
        let generation = array.mapping.pages.generation_mut().next();
        cx.touch(1);
        let op = BlockOp {
            req,
            block,
            from: (from % u64::from(SECTORS_PER_BLOCK)) as u32,
            sectors,
            at,
            writes,
            data,
            pinned: writes,
            generation,
            place: Place::NOWHERE,
            crc: 0,
            holder: Holder::Scratch,
            holds: false,
            origin: Origin::Device,
            flawed: false,
            step: Step::Mapping,
        };
        self.put(index, op);
        index
    }

    /// Looks up the record of an operation, or queues the operation until its map page is in
    /// memory.
    fn find_record(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = self.op(index);
        let (block, replaces) = (it.block, it.writes && it.is_whole());
        if replaces
            && array.mapping.pages.map().state(array.mapping.pages.map().map_page(block))
                == Where::Here
        {
            // A write of a whole block does not need the old record; it is marked invalid when the
            // new one is published.
            return self.pack(index, array, cx);
        }
        if let Some((place, crc)) = array.mapping.pages.pair(block) {
            let it = self.op(index);
            (it.place, it.crc) = (place, crc);
            return self.advance(index, array, cx);
        }
        let page = array.mapping.pages.map().map_page(block);
        let state = array.mapping.fetch(page, &mut array.media, cx);
        self.op(index).step = Step::Mapping;
        self.page_waiters.refused |= state != Where::Coming;
        self.page_waiters.waiting.push_back(index);
    }

    /// Continues the operations whose map pages are in memory.
    #[inline]
    pub(super) fn pump_mapping(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        self.page_waiters.any() && self.map_some(array, cx)
    }

    fn map_some(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let waiters = &mut self.page_waiters;
        // Without a completed load no page has arrived, and the queue need not be checked.
        let seen = core::mem::replace(&mut waiters.seen, array.mapping.pages.loads().arrivals());
        if seen == waiters.seen && !waiters.refused {
            return false;
        }
        waiters.refused = false;
        let count = waiters.waiting.len();
        for _ in 0..count {
            let index = self.page_waiters.waiting.pop_front().expect("the operation was counted");
            let block = self.op(index).block;
            let page = array.mapping.pages.map().map_page(block);
            if cx.outputs_left() <= 12 {
                self.page_waiters.refused = true;
                self.page_waiters.waiting.push_back(index);
            } else if array.mapping.pages.map().state(page) == Where::Bad {
                self.end_block(index, Some(HostError::Io), array, cx);
            } else {
                self.find_record(index, array, cx);
            }
        }
        self.page_waiters.waiting.len() < count
    }

    /// Fails the oldest operation that waits for space.
    pub(super) fn refuse_block(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let Some(index) = self.waiting.pop_front() else { return false };
        let why = array.why_full();
        self.end_block(index, Some(why), array, cx);
        true
    }

    /// Rewrites a rebuilt record to another stripe, in which no chunk is missing.
    fn begin_repair(&mut self, index: u8, it: BlockOp, array: &mut Array, cx: &mut Cx) {
        if array.media.devices.is_inactive(it.place.device()) || !works(cx) {
            return self.free.push(index);
        }
        let (page, spare) =
            (array.mapping.pages.map().map_page(it.block), array.mapping.pages.map().reserve());
        // A repair is optional, so it does not wait for its map page.
        if array.mapping.pages.map().state(page) != Where::Here
            || !array.mapping.pages.map_mut().pin(page, spare)
        {
            return self.free.push(index);
        }
        let step = Step::Waiting { len: it.place.len(), crc: it.crc };
        let repair = BlockOp { req: NOBODY, data: false, pinned: true, step, ..it };
        self.put(index, repair);
        self.waiting.push_back(index);
    }

    fn wait_for_stripe(&mut self, index: u8, step: Step) {
        self.op(index).step = step;
        self.waiting.push_back(index);
    }

    /// Returns whether another operation may start.
    #[inline]
    pub(super) fn may_begin_block(&self, array: &Array) -> bool {
        let parity = array.layout().parity;
        // Usually enough are free even if no device is lost yet, so the lost ones need not be
        // counted.
        let is_enough = |may_hang: u32| self.free.len() > KEPT * may_hang as usize;
        is_enough(parity.into())
            || is_enough(u32::from(parity).saturating_sub(array.media.devices.inactive().len()))
    }

    /// Moves an operation whose device timed out to another scratch buffer. Returns false if none
    /// is free.
    pub(super) fn move_block(&mut self, index: u8, array: &mut Array, cx: &mut Cx) -> bool {
        let reused = planted(Bug::TimedOutScratchReused).then_some(index);
        let Some(to) = reused.or_else(|| self.free.pop()) else { return false };
        let it = self.list[index as usize].take().expect("an operation in progress");
        self.put(to, it);
        if !self.repair_or_retry(to, array, cx) {
            self.lose_record(to, array, cx);
        }
        true
    }

    /// Frees the scratch buffer of a timed-out command that is back; its operation had moved to
    /// another.
    pub(super) fn scratch_is_back(&mut self, index: u8) {
        self.free.push(index);
    }

    /// Returns whether an operation waits for space in a stripe.
    pub(super) fn any_waits_for_stripe(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether an operation waits for its map page, for space in a stripe, or only for a
    /// round.
    #[inline]
    pub(super) fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
            || self.page_waiters.any()
            || self.joint.any_read()
            || !self.released.is_empty()
    }
}

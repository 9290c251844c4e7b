//! What the host asks for: requests, cut into blocks, and the operations on these.
//!
//! Invariants
//! - At most one operation writes a block, so that the order of items in rows is the order of
//!   versions.
//! - An operation has one command under way, or waits for its page or for room in a row.
//! - An operation that writes keeps its page in memory to its end.
//! - The scratch of an operation is: a record as it was read, the plain block, the packed one.

mod bound;
mod requests;
mod rescue;
mod room;
mod steps;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{BLOCK, Codec, HostError, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::log::Place;

use crate::log::array::Array;
use crate::log::host::bound::Bound;
use crate::log::layout::BLOCK_OPS;
use crate::log::map::Where;
use crate::log::ops::{Cx, OWN_OPS, works};
use crate::log::redundancy::rebuild::Rebuild;
use crate::planted::{Bug, planted};

/// Where the plain block begins in the scratch, in bytes.
const PLAIN: u32 = 16 * SECTOR as u32;
/// Where the packed block begins.
const PACKED: u32 = PLAIN + BLOCK as u32;
/// Operations that are not begun for each device that may be lost yet, so that those of one that
/// does not answer can go on.
const KEPT: usize = 8;
/// A packed block is no longer than this, or it stays as it is.
const MOST_PACKED: u32 = BLOCK as u32 - 64;

/// Of an operation: no request waits for it.
const NOBODY: u16 = u16::MAX;

/// How far a rescue has come, and what comes into the sum next, or is on its way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rescue {
    /// It is read.
    Reading(Rebuild),
    /// It is folded into the sum.
    Folding(Rebuild),
    /// The checksum of the sum is made.
    Checking(Rebuild),
}

/// What an operation is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The page that says where its record is comes into memory.
    Mapping,
    /// Its record is read from a device.
    Reading,
    /// The record is expanded into the host's buffer.
    Expanding,
    /// The record is expanded into the scratch, or that is filled with zeros.
    Plain,
    /// The record is made from other chunks; see [`rescue`].
    Rescuing(Rescue),
    /// Part of the plain block goes to the host, or zeros do.
    Giving,
    /// The host's part goes into the plain block.
    Merging,
    /// The block is compressed.
    Packing,
    /// The record is ready for a row.
    Waiting { len: u32, crc: u32 },
    /// The block is zeros: a row has to list that.
    Unmapping,
    /// The record goes into row `row` as item `item`.
    Placing { row: u8, item: u32 },
}

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// From its device, or it was not asked for yet.
    Device,
    /// It is made from other chunks of the row in which it lies; whether its device lacked it.
    Others { from: Place, lacked: bool },
    /// From its device after all, which lacked it, because nothing else gave it.
    Again,
}

impl Origin {
    /// Where the record lies that is made from other chunks.
    fn rescued(self) -> Option<Place> {
        match self {
            Origin::Others { from, .. } => Some(from),
            Origin::Device | Origin::Again => None,
        }
    }
}

/// What one block operation is, and what it is doing.
#[derive(Clone, Copy, Debug)]
struct BlockOp {
    req: u16,
    block: u64,
    /// The host's part: the first sector within the block, and how many.
    from: u32,
    sectors: u32,
    /// Where in the host's buffer that is, in sectors.
    at: u32,
    /// Whether it writes; without `data` it writes zeros.
    writes: bool,
    data: bool,
    /// Whether its page is kept in memory for it.
    pinned: bool,
    generation: u8,
    place: Place,
    crc: u32,
    /// The row from which it reads.
    row: Option<u8>,
    /// Whether the segment of `place` is kept for it: what is read may turn out wrong, and then the
    /// other chunks of the row are read.
    holds: bool,
    origin: Origin,
    /// Whether the medium could not give it, or not as it was written.
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
    /// How blocks are compressed.
    codec: Codec,
    /// The map page that is kept for the first trim.
    trimming: Option<u32>,
    list: Vec<Option<BlockOp>>,
    free: Vec<u8>,
    /// The blocks that are written, in no order.
    writing: Vec<u64>,
    waiting: VecDeque<u8>,
    /// Those whose pages are to come.
    page_waiters: PageWaiters,
    bound: Bound,
}

/// Operations that wait for the page that says where their record is.
#[derive(Debug)]
pub(super) struct PageWaiters {
    waiting: VecDeque<u8>,
    /// Loads that were over when these were last looked at.
    seen: u64,
    /// Whether one of them has no page that is coming.
    refused: bool,
}

impl PageWaiters {
    pub(super) fn new() -> Self {
        PageWaiters { waiting: VecDeque::with_capacity(BLOCK_OPS), seen: 0, refused: false }
    }

    /// Whether an operation waits for its page.
    pub(super) fn any(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Blocks {
    /// No operation.
    pub(super) fn new(codec: Codec) -> Self {
        Blocks {
            codec,
            trimming: None,
            list: alloc::vec![None; BLOCK_OPS],
            free: (0..BLOCK_OPS as u8).rev().collect(),
            writing: Vec::with_capacity(BLOCK_OPS),
            waiting: VecDeque::with_capacity(BLOCK_OPS),
            page_waiters: PageWaiters::new(),
            bound: Bound::default(),
        }
    }

    /// An operation is number `index` from now on.
    fn put(&mut self, index: u8, op: BlockOp) {
        let slot = &mut self.list[usize::from(index)];
        assert!(slot.is_none(), "an operation has a number of its own");
        *slot = Some(op);
    }

    /// Whether a block in `first..end` is being written.
    fn any_write_in(&self, first: u64, end: u64) -> bool {
        self.writing.iter().any(|block| (first..end).contains(block))
    }

    fn written(&mut self, block: u64) {
        let at = self.writing.iter().position(|it| *it == block);
        self.writing.swap_remove(at.expect("it was being written"));
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.list.iter().all(Option::is_none)
    }

    #[inline]
    fn op(&mut self, index: u8) -> &mut BlockOp {
        self.list[index as usize].as_mut().expect("an operation under way")
    }

    /// Begins to read `sectors` sectors at `from` of one block. False when it has to wait.
    fn begin_read(
        &mut self,
        req: u16,
        from: u64,
        sectors: u32,
        array: &mut Array,
        cx: &mut Cx,
    ) -> bool {
        if !self.may_begin_block(array) || cx.command_room() <= OWN_OPS {
            return false;
        }
        let block = from / u64::from(SECTORS_PER_BLOCK);
        let page = array.mapping.pages.map().page_of(block);
        array.mapping.pages.map_mut().try_again(page);
        let index = self.begin(req, block, (from, sectors), (false, true), array, cx);
        self.look_up(index, array, cx);
        true
    }

    /// Begins to write part of one block: the host's data, or zeros. False when it has to wait.
    fn begin_write(
        &mut self,
        req: u16,
        (from, sectors): (u64, u32),
        data: bool,
        array: &mut Array,
        cx: &mut Cx,
    ) -> bool {
        let block = from / u64::from(SECTORS_PER_BLOCK);
        if !self.may_begin_block(array)
            || cx.command_room() <= OWN_OPS
            || self.any_write_in(block, block + 1)
        {
            return false;
        }
        let page = array.mapping.pages.map().page_of(block);
        array.mapping.pages.map_mut().try_again(page);
        let spare = array.spare_of_host();
        if array.mapping.hold(page, spare, &mut array.media, cx) == Where::Away {
            return false;
        }
        let index = self.begin(req, block, (from, sectors), (true, data), array, cx);
        self.writing.push(block);
        self.look_up(index, array, cx);
        true
    }

    /// What a block operation does once it is known where its record is.
    fn go_on(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
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
        let index = self.free.pop().expect("a free operation was seen");
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
            row: None,
            holds: false,
            origin: Origin::Device,
            flawed: false,
            step: Step::Mapping,
        };
        self.put(index, op);
        index
    }

    /// Finds out where the record of an operation is, or lets it wait for that.
    fn look_up(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = self.op(index);
        let (block, replaces) = (it.block, it.writes && it.is_whole());
        if replaces
            && array.mapping.pages.map().state(array.mapping.pages.map().page_of(block))
                == Where::Here
        {
            // It is buried when the new one is there.
            return self.pack(index, array, cx);
        }
        if let Some((place, crc)) = array.mapping.pages.pair(block) {
            let it = self.op(index);
            (it.place, it.crc) = (place, crc);
            return self.go_on(index, array, cx);
        }
        let page = array.mapping.pages.map().page_of(block);
        let state = array.mapping.fetch(page, &mut array.media, cx);
        self.op(index).step = Step::Mapping;
        self.page_waiters.refused |= state != Where::Coming;
        self.page_waiters.waiting.push_back(index);
    }

    /// Goes on with the operations whose pages have come.
    #[inline]
    pub(super) fn pump_mapping(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        self.page_waiters.any() && self.map_some(array, cx)
    }

    fn map_some(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let waiters = &mut self.page_waiters;
        let seen = core::mem::replace(&mut waiters.seen, array.mapping.pages.loads().arrivals());
        if seen == waiters.seen && !waiters.refused {
            return false;
        }
        waiters.refused = false;
        let count = waiters.waiting.len();
        for _ in 0..count {
            let index = self.page_waiters.waiting.pop_front().expect("it was counted");
            let block = self.op(index).block;
            let page = array.mapping.pages.map().page_of(block);
            if cx.room() <= 12 {
                self.page_waiters.refused = true;
                self.page_waiters.waiting.push_back(index);
            } else if array.mapping.pages.map().state(page) == Where::Bad {
                self.end_block(index, Some(HostError::Io), array, cx);
            } else {
                self.look_up(index, array, cx);
            }
        }
        self.page_waiters.waiting.len() < count
    }

    /// The operation that has waited longest gets no room.
    pub(super) fn refuse_block(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let Some(index) = self.waiting.pop_front() else { return false };
        let why = array.why_full();
        self.end_block(index, Some(why), array, cx);
        true
    }

    /// A record that was rescued moves to where all of its row is whole.
    fn begin_repair(&mut self, index: u8, it: BlockOp, array: &mut Array, cx: &mut Cx) {
        if array.media.devices.is_inactive(it.place.device()) || !works(cx) {
            return self.free.push(index);
        }
        let (page, spare) =
            (array.mapping.pages.map().page_of(it.block), array.mapping.pages.map().reserve());
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

    fn wait_for_row(&mut self, index: u8, step: Step) {
        self.op(index).step = step;
        self.waiting.push_back(index);
    }

    /// Whether an operation may be begun.
    #[inline]
    pub(super) fn may_begin_block(&self, array: &Array) -> bool {
        let parity = array.layout().parity;
        // Mostly enough are free whichever devices are lost, and these need not be counted.
        let is_enough = |may_hang: u32| self.free.len() > KEPT * may_hang as usize;
        is_enough(parity.into())
            || is_enough(u32::from(parity).saturating_sub(array.media.devices.inactive().len()))
    }

    /// An operation whose device timed out goes on in another scratch. False when there is none.
    pub(super) fn move_block(&mut self, index: u8, array: &mut Array, cx: &mut Cx) -> bool {
        let reused = planted(Bug::HungScratchReused).then_some(index);
        let Some(to) = reused.or_else(|| self.free.pop()) else { return false };
        let it = self.list[index as usize].take().expect("an operation under way");
        self.put(to, it);
        if !self.goes_on_otherwise(to, array, cx) {
            self.give_up_record(to, array, cx);
        }
        true
    }

    /// The command came back for which an operation had moved to another scratch.
    pub(super) fn scratch_is_back(&mut self, index: u8) {
        self.free.push(index);
    }

    /// Whether an operation waits for room in a row.
    pub(super) fn any_waits_for_row(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether an operation waits for its page or for room in a row.
    #[inline]
    pub(super) fn any_waits(&self) -> bool {
        !self.waiting.is_empty() || self.page_waiters.any()
    }
}

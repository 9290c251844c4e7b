//! Block operations: one block of a read or a write, from its beginning to its end.
//!
//! Invariants
//! - At most one operation writes a block, so that the order of items in rows is the order of
//!   versions.
//! - An operation has one command under way, or waits for room in a row.
//! - The scratch of an operation is: a record as it was read, the plain block, the packed one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    ALL_ZEROS, BLOCK, Cause, Codec, Command, HostError, Piece, SECTOR, SECTORS_PER_BLOCK, Target,
    Verdict, View, ViewMut,
};
use hostftl_format::log::{GENERATIONS, seed};

use crate::kit::Health;
use crate::kit::shell::Ended;
use crate::log::Engine;
use crate::log::buffers::Buffer;
use crate::log::host::op::{BlockOp, NOBODY, Step};
use crate::log::layout::BLOCK_OPS;
use crate::log::map::updates::Mapping;
use crate::log::ops::{Cx, Op};

/// Where the plain block begins in the scratch, in bytes.
pub const PLAIN: u32 = 16 * SECTOR as u32;
/// Where the packed block begins.
pub const PACKED: u32 = PLAIN + BLOCK as u32;
/// A packed block is no longer than this, or it stays as it is.
const MOST_PACKED: u32 = BLOCK as u32 - 64;

/// All operations, and those that wait for a row.
#[derive(Debug)]
pub struct Blocks {
    /// How blocks are compressed.
    codec: Codec,
    /// Counts versions; its low bits go into checksums and the map.
    generation: u8,
    /// The map page that is kept for the first trim.
    pub trimming: Option<u32>,
    pub list: Vec<Option<BlockOp>>,
    pub free: Vec<u8>,
    /// The blocks that are written, in no order.
    pub writing: Vec<u64>,
    pub waiting: VecDeque<u8>,
    /// Those whose pages are to come.
    pub mapping: Mapping,
}

impl Blocks {
    /// No operation.
    pub fn new(codec: Codec) -> Self {
        Blocks {
            codec,
            generation: 0,
            trimming: None,
            list: alloc::vec![None; BLOCK_OPS],
            free: (0..BLOCK_OPS as u8).rev().collect(),
            writing: Vec::with_capacity(BLOCK_OPS),
            waiting: VecDeque::with_capacity(BLOCK_OPS),
            mapping: Mapping::new(),
        }
    }

    /// The version that was given last.
    pub fn generation(&self) -> u8 {
        self.generation
    }

    /// Recovery found this to be the last version.
    pub fn go_on_behind(&mut self, generation: u8) {
        self.generation = generation;
    }

    /// The version of the next operation.
    pub fn next_generation(&mut self) -> u8 {
        self.generation = self.generation.wrapping_add(1) % GENERATIONS;
        self.generation
    }

    /// An operation is number `index` from now on.
    pub fn put(&mut self, index: u8, op: BlockOp) {
        let slot = &mut self.list[usize::from(index)];
        assert!(slot.is_none(), "an operation has a number of its own");
        *slot = Some(op);
    }

    /// Whether a block in `first..end` is being written.
    pub fn any_write_in(&self, first: u64, end: u64) -> bool {
        self.writing.iter().any(|block| (first..end).contains(block))
    }

    fn written(&mut self, block: u64) {
        let at = self.writing.iter().position(|it| *it == block);
        self.writing.swap_remove(at.expect("it was being written"));
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.list.iter().all(Option::is_none)
    }
}

impl Engine {
    #[inline]
    pub(in crate::log) fn op(&mut self, index: u8) -> &mut BlockOp {
        self.blocks.list[index as usize].as_mut().expect("an operation under way")
    }

    #[inline]
    pub(in crate::log) fn send(&mut self, index: u8, step: Step, command: Command, cx: &mut Cx) {
        self.op(index).step = step;
        self.devices.submit(Op::Block { index }, command, cx);
    }

    /// Gets what the block holds: to the host when it wants all of it, else to the scratch.
    pub(in crate::log) fn fetch(&mut self, index: u8, cx: &mut Cx) {
        let it = *self.op(index);
        if it.place.is_nowhere() {
            return self.fetch_zeros(index, cx);
        }
        if let Some((row, chunk, byte)) = self.rows.holding(it.place, &self.segments) {
            self.op(index).row = Some(row);
            let buffer = Buffer::row(row, chunk.into());
            let from = self.buffers.at(buffer).view(byte, it.place.len());
            return self.expand(index, from, cx);
        }
        self.read_range(index, (it.place.device(), 0), Step::Reading, cx);
    }

    /// Reads the sectors in which the record lies, of any device, to byte `to` of the scratch.
    pub(in crate::log) fn read_range(
        &mut self,
        index: u8,
        (device, to): (u8, u32),
        step: Step,
        cx: &mut Cx,
    ) {
        let place = self.op(index).place;
        if !core::mem::replace(&mut self.op(index).holds, true) {
            self.segments.pin(self.layout.segment_of(place.byte()));
        }
        let lba = place.byte() / SECTOR as u64;
        let bytes = self.range_bytes(index);
        let (scratch, at) = self.buffers.scratch(index);
        let into = Target::Data(scratch.view_mut(at + to, bytes));
        let command = Command::Read { device, lba, into, cause: Cause::Host };
        self.send(index, step, command, cx);
    }

    fn fetch_zeros(&mut self, index: u8, cx: &mut Cx) {
        let it = *self.op(index);
        let (step, into, sectors) = if it.writes {
            let (scratch, at) = self.buffers.scratch(index);
            (Step::Plain, scratch.view_mut(at + PLAIN, BLOCK as u32), SECTORS_PER_BLOCK)
        } else {
            let data = cx.requests().data(it.req);
            (Step::Giving, data.view_mut_sectors(it.at, it.sectors), it.sectors)
        };
        let command = Command::Place { from: Piece::zero_sectors(sectors), into };
        self.send(index, step, command, cx);
    }

    /// Checks and expands a record.
    pub(in crate::log) fn expand(&mut self, index: u8, from: View, cx: &mut Cx) {
        let it = *self.op(index);
        let whole = it.is_whole() && !it.writes;
        let (step, into) = if whole {
            let data = cx.requests().data(it.req);
            (Step::Expanding, data.view_mut_sectors(it.at, it.sectors))
        } else {
            let (scratch, at) = self.buffers.scratch(index);
            (Step::Plain, scratch.view_mut(at + PLAIN, BLOCK as u32))
        };
        let raw = it.place.len() == BLOCK as u32;
        let codec = if raw { Codec::Raw } else { self.blocks.codec };
        let seed = seed(it.block, it.place.generation());
        let command = Command::Unpack { from, into, codec, seed, crc: it.crc };
        self.send(index, step, command, cx);
    }

    /// Compresses the block that is to be written.
    pub(in crate::log) fn pack(&mut self, index: u8, cx: &mut Cx) {
        let (it, codec) = (*self.op(index), self.blocks.codec);
        let (scratch, at) = self.buffers.scratch(index);
        // What can't be packed fits nowhere, but whether it is zeros is seen.
        let most = if codec == Codec::Raw { SECTOR as u32 } else { MOST_PACKED };
        let into = scratch.view_mut(at + PACKED, most);
        let from = if it.is_whole() && it.data {
            cx.requests().data(it.req).view_sectors(it.at, it.sectors)
        } else {
            let (scratch, at) = self.buffers.scratch(index);
            scratch.view(at + PLAIN, BLOCK as u32)
        };
        let seed = seed(it.block, it.generation);
        self.op(index).step = Step::Packing;
        cx.compute(Op::Block { index }, || Command::Pack { from, into, codec, seed });
    }

    /// What is written, as it came.
    pub(in crate::log) fn plain_view(&mut self, index: u8, cx: &mut Cx) -> View {
        let it = *self.op(index);
        if it.is_whole() && it.data {
            return cx.requests().data(it.req).view_sectors(it.at, it.sectors);
        }
        let (scratch, at) = self.buffers.scratch(index);
        scratch.view(at + PLAIN, BLOCK as u32)
    }

    fn repay_plain(&mut self, index: u8, view: View, cx: &mut Cx) {
        let it = *self.op(index);
        if it.is_whole() && it.data {
            cx.requests().data(it.req).repay(view);
        } else {
            self.buffers.scratch(index).0.repay(view);
        }
    }

    /// A command of an operation is over.
    #[inline]
    pub(in crate::log) fn block_done(
        &mut self,
        index: u8,
        command: Command,
        ended: Ended,
        cx: &mut Cx,
    ) {
        self.repay(index, command, cx);
        match ended {
            Ok(verdict) => self.block_goes_on(index, verdict, cx),
            Err(error) => self.block_failed(index, error, cx),
        }
    }

    /// The block of an operation is compressed.
    #[inline]
    pub(in crate::log) fn pack_done(
        &mut self,
        index: u8,
        (from, into): (View, ViewMut),
        verdict: Verdict,
        cx: &mut Cx,
    ) {
        self.repay_plain(index, from, cx);
        self.buffers.scratch(index).0.repay_mut(into);
        self.block_goes_on(index, verdict, cx);
    }

    /// What an operation wanted to be copied is copied.
    #[inline]
    pub(in crate::log) fn place_done(
        &mut self,
        index: u8,
        (from, into): (View, ViewMut),
        cx: &mut Cx,
    ) {
        self.repay_place(index, Piece::Data(from), into, cx);
        self.block_goes_on(index, Verdict::default(), cx);
    }

    /// Why an operation does not go on, if it does not.
    #[inline]
    pub(in crate::log) fn stopped(&self, writes: bool, cx: &Cx) -> Option<HostError> {
        let health = cx.health();
        health.error().filter(|_| writes || health == Health::Dead)
    }

    /// What a command of an operation did is done.
    fn block_goes_on(&mut self, index: u8, verdict: Verdict, cx: &mut Cx) {
        let it = self.op(index);
        let (step, writes) = (it.step, it.writes);
        if let Some(error) = self.stopped(writes, cx) {
            return self.end_block(index, Some(error), cx);
        }
        match step {
            Step::Reading => {
                let from = self.record_view(index);
                self.expand(index, from, cx);
            }
            Step::Rescuing(step) => self.rescue_goes_on(index, (step, verdict), cx),
            Step::Expanding => {
                self.let_go(index);
                self.end_block(index, None, cx);
            }
            Step::Giving => self.end_block(index, None, cx),
            Step::Plain => {
                self.let_go(index);
                match writes {
                    true => self.merge(index, cx),
                    false => self.give(index, cx),
                }
            }
            Step::Merging => self.pack(index, cx),
            Step::Packing => self.packed(index, verdict),
            Step::Placing { row, item } => {
                self.placed(index, row, item, cx);
                self.end_block(index, None, cx);
            }
            Step::Mapping | Step::Waiting { .. } | Step::Unmapping => {
                unreachable!("it has no command")
            }
        }
    }

    /// What was read is right: nothing else of its segment is needed.
    fn let_go(&mut self, index: u8) {
        let it = self.op(index);
        let place = it.place;
        if core::mem::take(&mut it.holds) {
            self.segments.unpin(self.layout.segment_of(place.byte()));
        }
    }

    /// Takes back what a command borrowed.
    #[inline]
    fn repay(&mut self, index: u8, command: Command, cx: &mut Cx) {
        let it = *self.op(index);
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                self.buffers.scratch(index).0.repay_mut(view);
            }
            Command::Unpack { from, into, .. } => {
                match it.row {
                    Some(row) => {
                        cx.disturb(); // The row's buffers may be idle.
                        self.buffers.repay_row(row, from);
                    }
                    None => self.buffers.scratch(index).0.repay(from),
                }
                if it.step == Step::Expanding {
                    cx.requests().data(it.req).repay_mut(into);
                } else {
                    self.buffers.scratch(index).0.repay_mut(into);
                }
            }
            Command::Pack { from, into, .. } => {
                self.repay_plain(index, from, cx);
                self.buffers.scratch(index).0.repay_mut(into);
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view| self.buffers.scratch(index).0.repay(view));
                self.buffers.scratch(index).0.repay_mut(into);
            }
            Command::Digest { from, .. } => self.buffers.scratch(index).0.repay(from),
            Command::Place { from, into } => self.repay_place(index, from, into, cx),
            other => unreachable!("{other:?} is no step of a block"),
        }
    }

    fn repay_place(&mut self, index: u8, from: Piece, into: ViewMut, cx: &mut Cx) {
        let it = *self.op(index);
        match it.step {
            Step::Giving => cx.requests().data(it.req).repay_mut(into),
            Step::Placing { row, item } => {
                let chunk = self.rows[row].items[item as usize].chunk;
                let buffer = Buffer::row(row, chunk.into());
                self.buffers.at(buffer).repay_mut(into);
            }
            _ => self.buffers.scratch(index).0.repay_mut(into),
        }
        let Piece::Data(from) = from else { return };
        match it.step {
            Step::Merging => cx.requests().data(it.req).repay(from),
            Step::Placing { .. } if it.place.len() == BLOCK as u32 => {
                self.repay_plain(index, from, cx)
            }
            _ => self.buffers.scratch(index).0.repay(from),
        }
    }

    /// The host's part, or zeros, into the plain block.
    fn merge(&mut self, index: u8, cx: &mut Cx) {
        let it = *self.op(index);
        let from = if it.data {
            Piece::Data(cx.requests().data(it.req).view_sectors(it.at, it.sectors))
        } else {
            Piece::zero_sectors(it.sectors)
        };
        let (scratch, at) = self.buffers.scratch(index);
        let bytes = |sectors: u32| sectors * SECTOR as u32;
        let into = scratch.view_mut(at + PLAIN + bytes(it.from), bytes(it.sectors));
        self.send(index, Step::Merging, Command::Place { from, into }, cx);
    }

    /// The part that the host wants out of the plain block.
    fn give(&mut self, index: u8, cx: &mut Cx) {
        let it = *self.op(index);
        let into = cx.requests().data(it.req).view_mut_sectors(it.at, it.sectors);
        let bytes = |sectors: u32| sectors * SECTOR as u32;
        let (scratch, at) = self.buffers.scratch(index);
        let from = Piece::Data(scratch.view(at + PLAIN + bytes(it.from), bytes(it.sectors)));
        self.send(index, Step::Giving, Command::Place { from, into }, cx);
    }

    fn packed(&mut self, index: u8, Verdict { bytes, crc }: Verdict) {
        if bytes == ALL_ZEROS {
            self.gauges.zeros += 1;
            return self.wait_for_row(index, Step::Unmapping);
        }
        // What does not fit stays as it is.
        let len = if bytes == 0 { BLOCK as u32 } else { bytes };
        self.count_packed(len);
        self.wait_for_row(index, Step::Waiting { len, crc });
    }

    pub(in crate::log) fn end_block(&mut self, index: u8, error: Option<HostError>, cx: &mut Cx) {
        let it = self.blocks.list[index as usize].take().expect("an operation under way");
        if error.is_some()
            && let Step::Placing { row, .. } = it.step
        {
            self.rows[row].placing -= 1;
        }
        if it.holds {
            self.segments.unpin(self.layout.segment_of(it.place.byte()));
        }
        if it.writes {
            self.blocks.written(it.block);
        }
        if it.pinned {
            let page = self.pages.map().page_of(it.block);
            self.pages.map_mut().unpin(page);
        }
        if it.req == NOBODY {
            return self.blocks.free.push(index);
        }
        match error.is_none() && it.rescued.is_some() && !it.writes {
            true => self.begin_repair(index, it, cx),
            false => self.blocks.free.push(index),
        }
        let active = cx.requests().at(it.req);
        active.outstanding -= 1;
        active.error = active.error.or(error);
        self.complete_if_over(it.req, cx);
    }
}

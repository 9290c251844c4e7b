//! Engine of `pblk` and `rrpc`: a log over a device whose segments are written sequentially.
//!
//! A block of the host takes a page of the current [`row`], is copied there, and is published in
//! the [`map`]. A row that is full, or that a flush needs, is closed and written as one strip to
//! the next segment of an open [line](lines). The last page of a strip, its tail, lists the
//! contents. The last strips of a full line of `pblk` are the [list](emeta) of the contents of all
//! its tails. The map points at the medium once the strip can be read there. Garbage collection
//! moves the valid blocks of a victim into the same rows as the host's blocks. A checkpoint writes
//! the map to separate lines.
//!
//! Invariants
//! - Row numbers are the order of versions. Of two entries for a block, the one in the later row
//!   counts, and within a row the later one.
//! - A strip whose tail is on the medium is complete.
//! - The newest durable entry for a block is never erased, and neither is a trim that replay needs.
//! - A step touches at most `MAX_TOUCH` map entries and produces at most `MAX_OUTPUTS` outputs.

mod blocks;
mod checkpoint;
mod collect;
mod durability;
mod emeta;
mod lane;
mod lanes;
mod layout;
mod lines;
mod listed;
mod map;
mod ops;
mod pads;
pub(crate) mod params;
mod reclaim;
mod recovery;
pub(crate) mod register;
mod replay;
mod request;
mod row;
mod rows;
mod scan;
mod store;
mod strips;

use alloc::vec::Vec;

use hostftl_core::{
    ArrayVec, Command, DeviceError, DeviceInfo, MAX_OUTPUTS, MAX_TOUCH, Payload, Request, SECTOR,
    SECTORS_PER_BLOCK,
};
use hostftl_format::zones::Written;

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::shell::Ended;
use crate::kit::{Core, Shell};
use blocks::Blocks;
use checkpoint::Checkpoint;
use collect::Collection;
use emeta::Emeta;
use layout::Layout;
use lines::{Lines, State};
use map::At;
use ops::{Cx, OPS, Op, fail};
use recovery::Recovery;
use row::Row;
use store::Store;

/// The layer.
pub(crate) type Zones = Shell<Engine>;

/// State of the layer.
#[derive(Debug)]
pub(crate) struct Engine {
    layout: Layout,
    store: Store,
    blocks: Blocks,
    collection: Collection,
    checkpoint: Checkpoint,
    emeta: Emeta,
    /// Present until the layer is open.
    recovery: Option<Recovery>,
}

impl Zones {
    /// Returns the resources that the layer needs over `devices`.
    pub(crate) fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = Layout::new(config, devices)?;
        let lines = Lines::memory(&layout, config.zones.gc);
        let rows = u64::from(layout.rows()) * Row::memory();
        Ok(layout.plan(lines + rows + Emeta::memory(&layout)))
    }

    /// Creates the layer; `buffers` become its rows.
    pub(crate) fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = Layout::new(config, devices)?;
        let engine = Engine {
            layout,
            store: Store::new(&layout, config.zones, buffers),
            blocks: Blocks::new(&layout),
            collection: Collection::new(&layout),
            checkpoint: Checkpoint::new(&layout),
            emeta: Emeta::new(&layout),
            recovery: Some(Recovery::new(&layout, mode == Mode::Format)),
        };
        Ok(Shell::over(engine, Self::plan(config, devices)?, OPS, config.patience()))
    }

    /// Returns the CRC-32C of the map as places on the medium. Blocks in memory only count as
    /// unmapped.
    pub(crate) fn map_crc(&self) -> u32 {
        self.core().store.map.crc()
    }
}

impl Engine {
    /// Frees space when nothing is in flight and nothing moves. In this order, it ends a collection
    /// that has no room, closes full lines so that they can be collected, lets the host fill the
    /// open lines, and refuses the host's write. Returns whether it did any of these.
    fn yield_room(&mut self, cx: &mut Cx) -> bool {
        let store = &mut self.store;
        // These become free without further help.
        if store.lines.empty_count() > 0 || store.lines.resetting() > 0 {
            return false;
        }
        if store.lines.victim().is_some() {
            self.collection.leave_rest();
            return true;
        }
        let waits = cx.requests().first_write().is_some();
        store.lines.leave_full(store.newest())
            || waits && store.lend_open_strips()
            || request::refuse_first_write(cx)
    }

    /// Checks the valid counts of the lines against the map.
    fn check_valid(&self) -> Result<(), &'static str> {
        let mut valid = alloc::vec![0_u32; self.layout.lines as usize];
        for block in 0..self.store.map.len() {
            if let At::Media(place) = self.store.map.get(block) {
                valid[self.layout.line(self.layout.segment_at(place)) as usize] += 1;
            }
        }
        if !self.store.lines.lists_agree() {
            return Err("the lists of the units do not contain every line");
        }
        if !self.store.map.agrees() {
            return Err("the reverse map differs from the map");
        }
        for (line, valid) in (0..).zip(valid) {
            let it = self.store.lines.at(line);
            // Lines of images count images, which the map does not contain.
            if !it.is_of_map() && it.valid() != valid {
                return Err("the valid count of a line differs from the map");
            }
            if valid > 0 && matches!(it.state(), State::Free | State::Empty | State::Resetting) {
                return Err("the map refers to an offline line");
            }
        }
        Ok(())
    }
}

impl Core for Engine {
    type Op = Op;
    type Mark = u64;
    const ROUND_OUTPUTS: usize = 32;
    const MOST_OUTPUTS: usize = MAX_OUTPUTS;

    fn accept(&mut self, request: Request, cx: &mut Cx) {
        self.store.durability.take_in(request, cx);
    }

    fn done(&mut self, op: Op, command: Command, ended: Ended, cx: &mut Cx) {
        // Errors of rows, resets, images and lists are handled by their parts.
        match (ended, op) {
            (Err(error), Op::Flush | Op::Settle | Op::ListFlush) => fail(error, cx),
            (
                Err(DeviceError::Media),
                Op::Read { .. } | Op::GcRead(_) | Op::GcTail { .. } | Op::GcPart,
            ) => cx.counters().device_errors += 1,
            (Err(error), Op::GcRead(_) | Op::GcTail { .. } | Op::GcPart) => fail(error, cx),
            _ => {}
        }
        let Engine { store, blocks, collection, checkpoint, emeta, .. } = self;
        let (ok, result) = (ended.is_ok(), ended.map(drop));
        match op {
            Op::Read { req, line } => blocks.read_done((req, line), (command, ok), store, cx),
            Op::Write { index } => blocks.write_done(index, (command, ok), store, cx),
            Op::Row { row } => {
                store.row_done(row, (command, result), cx);
                // Only rows on the medium are listed.
                if ok {
                    emeta.note_row(row, store, cx);
                }
            }
            Op::Flush => store.durability.flush_done(cx),
            Op::Reset { segment } => {
                reclaim::reset_done(segment, result, &self.layout, &mut store.lines, cx)
            }
            Op::Images { segment, strip } => {
                checkpoint.strip_done((segment, strip), (command, result), store, cx);
            }
            Op::Settle => checkpoint.flush_done(store, cx),
            Op::List { segment, strip } => {
                if emeta.part_done((segment, strip), (command, result), store, cx) {
                    store.retire(segment, cx);
                }
            }
            Op::ListFlush => emeta.flush_done(),
            Op::GcPart => collection.part_done((command, ok), &mut store.lines),
            Op::GcTail { lane } => collection.tail_done(lane, (command, ok), &store.map, cx),
            Op::GcRead(moved) => {
                collection.read_done(moved, (command, ok), store, cx);
            }
            Op::Recover { lane } => {
                let recovery = self.recovery.as_mut().expect("the volume is being recovered");
                recovery.done(lane, (command, ended), store, cx);
            }
        }
    }

    fn start(&mut self, cx: &mut Cx) -> bool {
        let Engine { store, checkpoint, .. } = self;
        let recovery = self.recovery.as_mut().expect("the volume is being recovered");
        let moved = recovery.run(store, checkpoint, cx);
        if cx.is_running() {
            self.recovery = None;
        }
        moved
    }

    fn run(&mut self, cx: &mut Cx) -> bool {
        let Engine { store, blocks, checkpoint, .. } = self;
        let mut moved = blocks.run(store, cx);
        // In the order in which a block advances, so that one round carries it as far as possible.
        moved |= store.run(cx);
        moved |= self.emeta.run(store, cx);
        moved |= store.durability.run(cx);
        moved |= self.collection.run(store, blocks, cx);
        moved |=
            reclaim::run(&self.layout, &mut store.lines, &mut store.durability, checkpoint, cx);
        moved |= checkpoint.run(store, cx);
        // Space is yielded only when no command in flight can free any.
        moved || cx.is_quiet() && self.yield_room(cx)
    }

    /// Closes the layer when everything is durable and little would be replayed.
    fn stop(&mut self, cx: &mut Cx) -> bool {
        let Engine { store, blocks, checkpoint, .. } = self;
        if !cx.requests().is_empty() || !blocks.is_idle() || store.lines.victim().is_some() {
            return false;
        }
        let newest = store.newest();
        if !store.durability.is_durable(newest) {
            return store.durability.want(newest);
        }
        if !checkpoint.is_current(newest) && checkpoint.hurry() {
            return true;
        }
        // A checkpoint that finds no segment although nothing moves is left out.
        let over = cx.is_quiet() && store.lines.resetting() == 0;
        if over {
            cx.stopped();
        }
        over
    }

    fn wind_down(&mut self, cx: &mut Cx) -> bool {
        self.blocks.run(&mut self.store, cx)
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        let per = u64::from(SECTORS_PER_BLOCK);
        let is = |block: u64| self.store.map.get(block) != At::Nowhere;
        let (first, last) = (lba / per, (lba + sectors - 1) / per);
        let mapped = is(first);
        // At most `MAX_TOUCH` blocks are examined per call; the caller asks again.
        let most = last.min(first + MAX_TOUCH as u64 - 1);
        let end = (first + 1..=most).find(|block| is(*block) != mapped).unwrap_or(most + 1);
        (mapped, (end * per).min(lba + sectors) - lba)
    }

    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        let Written { host, gc, pad, map, checkpoint, list } = *self.store.strips.written();
        let sectors = [
            ("ever_host_bytes", host),
            ("ever_gc_bytes", gc),
            ("ever_pad_bytes", pad),
            ("ever_map_bytes", map),
            ("ever_checkpoint_bytes", checkpoint),
            ("ever_list_bytes", list),
        ];
        let lists = ("lists_written", self.emeta.count());
        let bytes = sectors.into_iter().map(|(name, it)| (name, it * SECTOR as u64));
        bytes.chain([lists]).collect()
    }

    fn has_fast_zeroes(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), &'static str> {
        self.check_valid()
    }

    fn power_off(&mut self) {
        self.store.void();
    }
}

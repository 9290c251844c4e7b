//! The machine under `pblk` and `rrpc`: a log over a device whose segments are written in order.
//!
//! How a block moves: it gets a page of the one [`row`] that is filled, is copied there and
//! published in the [`map`]. A row that is full, or that a flush needs, is closed and goes as one
//! strip to the next segment of an open [line](lines); its last page, the tail, lists what it
//! holds. The last strips of a full line of `pblk` are the [list](emeta) of all that its tails say.
//! When the medium can give a strip, the map points there. Collection moves what is live
//! in a victim into the same rows as the host's blocks. A checkpoint writes the map to lines of its
//! own.
//!
//! Invariants
//! - The numbers of rows are the order of versions: of two entries about a block the one in the
//!   later row counts, and within a row the later one.
//! - A strip whose tail is on the medium is there as a whole.
//! - The newest durable entry about a block is never erased, nor is a trim that replay needs.
//! - A step touches at most `MAX_TOUCH` map entries and makes at most `MAX_OUTPUTS` outputs.

mod append;
mod blocks;
mod checkpoint;
mod collect;
mod durability;
mod emeta;
mod layout;
mod lines;
mod listed;
mod losses;
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
mod write_out;

use alloc::vec::Vec;

use hostftl_core::{
    Command, DeviceError, DeviceInfo, Few, MAX_OUTPUTS, MAX_TOUCH, Payload, Request, SECTOR,
    SECTORS_PER_BLOCK,
};
use hostftl_format::zones::Written;

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::shell::Ended;
use crate::kit::{Core, Shell};
use blocks::Blocks;
use checkpoint::Checkpoint;
use collect::Collection;
use durability::Durability;
use emeta::Emeta;
use layout::Layout;
use lines::{Lines, State};
use map::{At, Map};
use ops::{Cx, OPS, Op, fail};
use recovery::Recovery;
use row::Row;
use rows::Rows;

/// The layer.
pub type Zones = Shell<Engine>;

/// See the module text.
#[derive(Debug)]
pub struct Engine {
    layout: Layout,
    uuid: [u8; 16],
    /// The host may fill what is open, although few lines are free.
    lent: bool,
    map: Map,
    lines: Lines,
    rows: Rows,
    /// The front that the next row goes to.
    next_front: u32,
    blocks: Blocks,
    durability: Durability,
    collection: Collection,
    checkpoint: Checkpoint,
    emeta: Emeta,
    recovery: Option<Recovery>,
    /// Since the volume was made.
    written: Written,
}

impl Zones {
    /// What the layer needs over `devices`.
    pub fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = Layout::new(config, devices)?;
        let lines = Lines::memory(&layout, config.zones.gc);
        let rows = u64::from(layout.rows()) * Row::memory();
        Ok(layout.plan(lines + rows + Emeta::memory(&layout)))
    }

    /// The layer; `buffers` become its rows.
    pub fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = Layout::new(config, devices)?;
        let rows = layout.rows() as usize;
        let engine = Engine {
            layout,
            uuid: config.uuid,
            lent: false,
            map: Map::new(&layout),
            lines: Lines::new(&layout, config.zones.gc),
            rows: Rows::new(rows, buffers),
            next_front: 0,
            blocks: Blocks::new(),
            durability: Durability::new(rows),
            collection: Collection::new(&layout),
            checkpoint: Checkpoint::new(&layout),
            emeta: Emeta::new(&layout),
            recovery: Some(Recovery::new(&layout, mode)),
            written: Written::default(),
        };
        Ok(Shell::over(engine, Self::plan(config, devices)?, OPS, config.patience()))
    }

    /// The CRC-32C of the map, as places on the medium; what is in memory alone counts as nowhere.
    pub fn map_crc(&self) -> u32 {
        self.core().map.crc()
    }
}

impl Engine {
    /// Nothing is under way and nothing moves: the collection that has no room ends; what is full
    /// is left, so that it can be collected; the host fills what is open; and then what it wants
    /// to write is refused.
    fn yield_room(&mut self, cx: &mut Cx) -> bool {
        if self.lines.empty_count() > 0 || self.lines.resetting() > 0 {
            return false;
        }
        if self.lines.victim().is_some() {
            self.leave_rest();
            return true;
        }
        if self.lines.leave_full(self.durability.newest()) || self.lend_open_strips(cx) {
            return true;
        }
        self.refuse_first(cx)
    }

    /// Whether the live counts are the sums of what the map points at.
    fn check_live(&self) -> Result<(), &'static str> {
        let mut live = alloc::vec![0_u32; self.layout.lines as usize];
        for block in 0..self.map.len() {
            if let At::Media(place) = self.map.get(block) {
                live[self.layout.line(self.layout.segment_of(place)) as usize] += 1;
            }
        }
        if !self.lines.lists_agree() {
            return Err("the lists of the units do not add up to all lines");
        }
        if !self.map.agrees() {
            return Err("the reverse map does not agree with the map");
        }
        for (line, live) in live.into_iter().enumerate() {
            let it = self.lines.at(line as u32);
            if !it.is_of_map() && it.valid() != live {
                return Err("a line's live count is not the number of its live blocks");
            }
            if live > 0 && matches!(it.state(), State::Free | State::Empty | State::Resetting) {
                return Err("the map points into a line that is out of use");
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
        self.take_in(request, cx);
    }

    fn done(&mut self, op: Op, command: Command, ended: Ended, cx: &mut Cx) {
        match (ended, op) {
            (Err(error), Op::Flush | Op::Settle | Op::ListFlush) => fail(error, cx),
            (
                Err(DeviceError::Media),
                Op::Read { .. } | Op::GcRead { .. } | Op::GcTail { .. } | Op::GcPart,
            ) => cx.counters().device_errors += 1,
            (Err(error), Op::GcRead { .. } | Op::GcTail { .. } | Op::GcPart) => fail(error, cx),
            _ => {}
        }
        let result = ended.map(drop);
        match op {
            Op::Read { req, line } => self.read_done((req, line), command, result, cx),
            Op::Write { index } => self.write_done(index, command, result, cx),
            Op::Row { row, segment, strip } => {
                self.row_done((row, segment, strip), command, result, cx);
            }
            Op::Flush => self.flush_done(cx),
            Op::Reset { segment } => self.reset_done(segment, result, cx),
            Op::Images { segment, strip } => {
                self.images_done((segment, strip), command, result, cx);
            }
            Op::Settle => self.settle_done(cx),
            Op::List { segment, strip } => self.part_done((segment, strip), command, result, cx),
            Op::ListFlush => drop(self.list_durable()),
            Op::GcPart => self.gc_part_done(command, result),
            Op::GcTail { lane } => self.gc_tail_done(lane.into(), command, result, cx),
            Op::GcRead { lane, item, count, row, slot } => {
                self.gc_read_done((lane, item, count), (row, slot), command, result, cx);
            }
            Op::Recover { index } => self.recover_done(index, command, ended, cx),
        }
    }

    fn start(&mut self, cx: &mut Cx) -> bool {
        self.pump_recovery(cx)
    }

    fn run(&mut self, cx: &mut Cx) -> bool {
        let mut moved = self.pump_requests(cx);
        moved |= self.pump_rows(cx);
        moved |= self.pump_emeta(cx);
        moved |= self.pump_flush(cx);
        moved |= self.answer_flushed(cx);
        moved |= self.pump_collection(cx);
        moved |= self.pump_reclaim(cx);
        moved |= self.pump_checkpoint(cx);
        moved || cx.is_quiet() && self.yield_room(cx)
    }

    /// Ends the layer when everything is durable and little would be replayed.
    fn stop(&mut self, cx: &mut Cx) -> bool {
        if !cx.requests().is_empty() || !self.blocks.is_idle() || self.lines.victim().is_some() {
            return false;
        }
        let newest = self.durability.newest();
        if !self.durability.is_durable(newest) {
            return self.durability.want(newest);
        }
        if !self.checkpoint.is_current(self.durability.newest()) && self.checkpoint.hurry() {
            return true;
        }
        // A checkpoint that finds no segment, although nothing moves, is left out.
        let over = cx.is_quiet() && self.lines.resetting() == 0;
        if over {
            cx.stopped();
        }
        over
    }

    fn wind_down(&mut self, cx: &mut Cx) -> bool {
        self.pump_requests(cx)
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        let per = u64::from(SECTORS_PER_BLOCK);
        let is = |block: u64| self.map.get(block) != At::Nowhere;
        let (first, last) = (lba / per, (lba + sectors - 1) / per);
        let mapped = is(first);
        let most = last.min(first + MAX_TOUCH as u64 - 1);
        let end = (first + 1..=most).find(|block| is(*block) != mapped).unwrap_or(most + 1);
        (mapped, (end * per).min(lba + sectors) - lba)
    }

    fn facts(&self) -> Few<(&'static str, u64), 8> {
        let Written { host, gc, pad, map, checkpoint, list } = self.written;
        let sectors = [
            ("ever_host_bytes", host),
            ("ever_gc_bytes", gc),
            ("ever_pad_bytes", pad),
            ("ever_map_bytes", map),
            ("ever_checkpoint_bytes", checkpoint),
            ("ever_list_bytes", list),
        ];
        let lists = ("lists_written", self.emeta.count);
        let bytes = sectors.into_iter().map(|(name, it)| (name, it * SECTOR as u64));
        bytes.chain([lists]).collect()
    }

    fn has_fast_zeroes(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), &'static str> {
        self.check_live()
    }

    fn power_off(&mut self) {
        self.rows.void();
    }
}

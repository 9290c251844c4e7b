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
mod chunks;
mod collect;
mod emeta;
mod layout;
mod lines;
mod listed;
mod lists;
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
mod scan;
mod victims;
mod write_out;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    Command, Counters, Credits, DeviceError, DeviceInfo, Done, Event, Few, HostError, Input, Layer,
    Limits, MAX_TOUCH, Nanos, Out, Output, Payload, SECTOR, SECTORS_PER_BLOCK,
};

use hostftl_format::page::crc32c;
use hostftl_format::zones::Written;

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::requests::Requests;
use blocks::Blocks;
use checkpoint::Checkpoint;
use collect::Collection;
use emeta::Emeta;
use layout::Layout;
use lines::{Lines, State};
use map::{At, Map};
use ops::{OPS, Op, Ops};
use recovery::Recovery;
use row::Row;
use write_out::Order;

/// The most outputs that one round of the pump makes.
const ROUND_OUTPUTS: usize = 32;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Recovering,
    Running,
    Stopping,
    Over,
}

/// See the module text.
#[derive(Debug)]
pub struct Zones {
    plan: Plan,
    layout: Layout,
    uuid: [u8; 16],
    life: Life,
    /// What all but reads is answered with since the device failed.
    failed: Option<HostError>,
    /// The host may fill what is open, although few lines are free.
    lent: bool,
    /// So much of the device is out of use that writes find no room.
    worn: bool,
    map: Map,
    lines: Lines,
    rows: Vec<Row>,
    /// One for each row.
    buffers: Vec<Payload>,
    /// Where the search for an idle row begins.
    turn: usize,
    /// The row that is filled, how many wait for what is on its way, and those ready to be sent.
    filling: Option<u16>,
    closed: u32,
    ready: VecDeque<u16>,
    /// The front that the next row goes to.
    next_front: u32,
    blocks: Blocks,
    requests: Requests<u64>,
    ops: Ops,
    order: Order,
    /// Rows opened so far.
    seqs: u64,
    /// The youngest row in which something of the host's was published.
    host_seq: u64,
    /// All rows up to this one are durable.
    durable: u64,
    /// What `durable` will be after the flush under way.
    flushing: Option<u64>,
    /// Rows up to this one must become durable soon.
    commit: u64,
    collection: Collection,
    checkpoint: Checkpoint,
    emeta: Emeta,
    recovery: Option<Recovery>,
    /// Lines being reset.
    resetting: usize,
    counters: Counters,
    /// Since the volume was made.
    written: Written,
    touched: usize,
    more: bool,
    /// A command ran past its deadline: what hangs is answered without its payload.
    abandoning: bool,
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
        Ok(Zones {
            plan: Self::plan(config, devices)?,
            layout,
            uuid: config.uuid,
            life: Life::Recovering,
            failed: None,
            lent: false,
            worn: false,
            map: Map::new(&layout),
            lines: Lines::new(&layout, config.zones.gc),
            rows: (0..rows).map(|_| Row::new()).collect(),
            buffers,
            turn: 0,
            filling: None,
            closed: 0,
            ready: VecDeque::with_capacity(rows),
            next_front: 0,
            blocks: Blocks::new(),
            requests: Requests::new(),
            ops: Ops::new(OPS, config.patience()),
            order: Order::new(rows),
            seqs: 0,
            host_seq: 0,
            durable: 0,
            flushing: None,
            commit: 0,
            collection: Collection::new(&layout),
            checkpoint: Checkpoint::new(&layout),
            emeta: Emeta::new(&layout),
            recovery: Some(Recovery::new(&layout, mode)),
            resetting: 0,
            counters: Counters::default(),
            written: Written::default(),
            touched: 0,
            more: true,
            abandoning: false,
        })
    }

    fn submit(&mut self, now: Nanos, op: Op, command: Command, out: &mut Out) {
        let token = self.ops.begin(now, op, command.device());
        out.push(Output::Submit(token, command));
    }

    /// Does what can be done, round by round, until nothing moves or the step is full.
    fn pump(&mut self, now: Nanos, out: &mut Out) {
        self.more = false;
        loop {
            if out.room() < ROUND_OUTPUTS || self.touched > MAX_TOUCH / 2 {
                self.more = true;
                return;
            }
            let moved = match (self.life, self.failed) {
                (_, Some(error)) => self.pump_failed(now, error, out),
                (Life::Over, _) => false,
                (Life::Recovering, _) => self.pump_recovery(now, out),
                (Life::Running, _) => self.pump_running(now, out),
                (Life::Stopping, _) => self.pump_running(now, out) || self.pump_stop(out),
            };
            if !moved {
                return;
            }
        }
    }

    fn pump_running(&mut self, now: Nanos, out: &mut Out) -> bool {
        let mut moved = self.pump_requests(now, out);
        moved |= self.pump_rows(now, out);
        moved |= self.pump_emeta(now, out);
        moved |= self.pump_flush(now, out);
        moved |= self.answer_flushed(out);
        moved |= self.pump_collection(now, out);
        moved |= self.pump_reclaim(now, out);
        moved |= self.pump_checkpoint(now, out);
        moved || self.ops.is_empty() && self.yield_room()
    }

    /// Nothing is under way and nothing moves: the collection that has no room ends; what is full
    /// is left, so that it can be collected; the host fills what is open; and then what it wants
    /// to write is refused.
    fn yield_room(&mut self) -> bool {
        if self.lines.empty() > 0 || self.resetting > 0 {
            return false;
        }
        if !self.collection.is_idle() {
            self.leave_rest();
            return true;
        }
        if self.lines.leave_full(self.seqs) || self.lend_open_strips() {
            return true;
        }
        self.refuse_first()
    }

    /// Ends the layer when everything is durable and little would be replayed; asked when nothing
    /// else moves.
    fn pump_stop(&mut self, out: &mut Out) -> bool {
        if !self.requests.is_empty() || !self.blocks.is_idle() || !self.collection.is_idle() {
            return false;
        }
        if self.durable < self.seqs {
            let asked = core::mem::replace(&mut self.commit, self.seqs);
            return asked != self.seqs;
        }
        if !self.checkpoint.is_current(self.seqs) && self.checkpoint.hurry() {
            return true;
        }
        // A checkpoint that finds no segment, although nothing moves, is left out.
        if !self.ops.is_empty() || self.resetting > 0 {
            return false;
        }
        self.life = Life::Over;
        self.more = false;
        out.push(Output::Event(Event::Stopped));
        true
    }

    /// After a failure only answering is left.
    fn pump_failed(&mut self, now: Nanos, error: HostError, out: &mut Out) -> bool {
        let mut moved = self.pump_requests(now, out);
        if out.room() > ROUND_OUTPUTS / 2 {
            moved |= self.requests.answer_waiting(Err(error), out);
        }
        if self.abandoning {
            moved |= self.requests.abandon(out);
        }
        let quiet = self.requests.are_answered() && (self.ops.is_empty() || self.abandoning);
        if self.life == Life::Stopping && quiet {
            self.life = Life::Over;
            out.push(Output::Event(Event::Stopped));
        }
        moved
    }

    /// The device can no longer be trusted with what is written.
    fn fail(&mut self, error: DeviceError, abandoned: bool, out: &mut Out) {
        self.counters.device_errors += 1;
        if self.failed.is_some() {
            return;
        }
        self.failed = Some(match error {
            DeviceError::NoSpace => HostError::NoSpace,
            _ => HostError::Io,
        });
        out.push(Output::Event(Event::DeviceFailed { device: 0, error, abandoned }));
        if self.life == Life::Recovering {
            self.give_up("a device failed during recovery", out);
        }
    }

    fn give_up(&mut self, why: &'static str, out: &mut Out) {
        self.failed = Some(HostError::Io);
        self.life = Life::Over;
        out.push(Output::Event(Event::Unrecoverable(why)));
    }

    fn done(&mut self, now: Nanos, done: Done, out: &mut Out) {
        let Done { token, command, result } = done;
        let op = self.ops.end(token);
        if let (Err(error), Op::Flush | Op::Settle | Op::ListFlush) = (result, op) {
            self.fail(error, false, out);
        }
        match (result, op) {
            (
                Err(DeviceError::Media),
                Op::Read { .. } | Op::GcRead { .. } | Op::GcTail { .. } | Op::GcPart,
            ) => self.counters.device_errors += 1,
            (Err(error), Op::GcRead { .. } | Op::GcTail { .. } | Op::GcPart) => {
                self.fail(error, false, out);
            }
            _ => {}
        }
        let verdict = result.unwrap_or_default();
        let result = result.map(drop);
        match op {
            Op::Read { req, line } => self.read_done((req, line), command, result, out),
            Op::Write { index } => self.write_done(now, index, command, result, out),
            Op::Row { row, segment, strip } => {
                self.row_done((row, segment, strip), command, result, out);
            }
            Op::Flush => self.flush_done(),
            Op::Reset { segment } => self.reset_done(now, segment, result, out),
            Op::Images { segment, strip } => {
                self.images_done(now, (segment, strip), command, result, out);
            }
            Op::Settle => self.settle_done(out),
            Op::List { segment, strip } => self.part_done((segment, strip), command, result, out),
            Op::ListFlush => drop(self.list_durable()),
            Op::GcPart => self.gc_part_done(command, result),
            Op::GcTail { lane } => self.gc_tail_done(lane.into(), command, result),
            Op::GcRead { lane, item, count, row, slot } => {
                self.gc_read_done((lane, item, count), (row, slot), command, result, out);
            }
            Op::Recover { index } => {
                self.recover_done(now, index, command, result.map(|()| verdict), out);
            }
        }
    }

    /// A command hangs: the device is given up.
    fn look_for_late(&mut self, now: Nanos, out: &mut Out) {
        if self.ops.wake().is_some_and(|at| at <= now) && self.ops.any_late(now) {
            self.abandoning = true;
            self.fail(DeviceError::Gone, true, out);
        }
    }

    /// The CRC-32C of the map, as places on the medium; what is in memory alone counts as nowhere.
    pub fn map_crc(&self) -> u32 {
        let place = |block| match self.map.get(block) {
            At::Media(place) => place + 1,
            _ => 0,
        };
        (0..self.map.len())
            .fold(0, |crc, block| crc32c(u64::from(crc), &place(block).to_le_bytes()))
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
            if !it.of_map && it.live != live {
                return Err("a line's live count is not the number of its live blocks");
            }
            if live > 0 && matches!(it.state, State::Free | State::Empty | State::Resetting) {
                return Err("the map points into a line that is out of use");
            }
        }
        Ok(())
    }
}

impl Layer for Zones {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        self.touched = 0;
        match input {
            Input::Host(request) => self.accept(request, out),
            Input::Done(done) => self.done(now, done, out),
            Input::Timer => self.look_for_late(now, out),
            Input::Stop => self.life = Life::Stopping,
        }
        self.pump(now, out);
        assert!(self.touched <= MAX_TOUCH, "a step touched {} map entries", self.touched);
    }

    fn credits(&self) -> Credits {
        let running = self.life == Life::Running;
        let requests = if running { self.requests.room() } else { 0 };
        Credits { requests, sectors: self.plan.limits.max_transfer }
    }

    fn next_timer(&self) -> Option<Nanos> {
        if self.more { Some(0) } else { self.ops.wake() }
    }

    fn limits(&self) -> Limits {
        self.plan.limits
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn map_bytes(&self) -> u64 {
        self.plan.map_bytes
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

    fn idle(&self) -> bool {
        self.requests.is_empty() && self.ops.is_empty() && !self.more
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.life == Life::Running { self.check_live() } else { Ok(()) }
    }

    fn power_off(&mut self) {
        self.requests.void();
        self.buffers.drain(..).for_each(|buffer| {
            buffer.void();
        });
    }
}

//! HARD: every sector is mapped, small writes are gathered into full, aligned superpages.
//!
//! Source: Jang and Shin, "HARD: Host-Level Address Remapping Driver for Solid-State Disk" (ICITCS
//! 2011), as described by Choi and Shin; the crash protocol is ours.
//!
//! How a sector moves: a host write takes slots in the filling [`stage`], is copied there, and is
//! published in the [`map`] when the copy is over. A stage that is full, or that a flush needs, is
//! digested, listed in the [`log`] and programmed. A flush is answered when a log write that covers
//! it is settled and the device has flushed since. Collection reads live slots of a victim straight
//! into the filling stage. Checkpoints write changed map groups in rotation, each only after the
//! log that explains it is durable, and then a root from which replay can begin.
//!
//! Invariants
//! - Requests that write or trim take slots in the order of arrival.
//! - A superpage in limbo is free again only when a durable log write covers the moment it became
//!   empty, and no read of it is in flight.
//! - A superpage with log is pinned until a durable root no longer needs it.
//! - A step touches at most `MAX_TOUCH` map entries and makes at most `MAX_OUTPUTS` outputs.

mod checkpoint;
mod collect;
mod layout;
mod log;
mod map;
mod ops;
mod recovery;
mod replay;
mod request;
mod stage;
mod verify;
mod write_out;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    Command, Counters, Credits, DeviceError, DeviceInfo, Done, Event, HostError, Input, Layer,
    Limits, MAX_TOUCH, Nanos, Out, Output, Payload,
};

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use checkpoint::Checkpoint;
use collect::Collection;
use layout::{Layout, STAGES};
use log::{Log, Mark};
use map::Map;
use ops::{Op, Ops};
use recovery::Recovery;
use request::Requests;
use stage::{Phase, Stage};

/// The most outputs that one round of the pump makes.
const ROUND_OUTPUTS: usize = 24;

/// What still works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// Writing failed: reads go on, all else gets this error.
    ReadOnly(HostError),
    /// The device is gone.
    Dead,
}

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
pub struct Hard {
    plan: Plan,
    layout: Layout,
    uuid: [u8; 16],
    life: Life,
    health: Health,
    map: Map,
    log: Log,
    ops: Ops,
    requests: Requests,
    stages: Vec<Stage>,
    /// Stages that are not listed yet, in the order of opening; the last may be filling.
    order: VecDeque<u8>,
    filling: Option<u8>,
    /// Stages opened so far.
    stamps: u64,
    /// The youngest stage in which a host's sector was published.
    host_stamp: u64,
    free: VecDeque<u32>,
    limbo: VecDeque<(u32, Mark)>,
    /// Superpages with log, by the number of the log write.
    pins: VecDeque<(u64, u32)>,
    /// What must become durable soon, stages closed for it.
    commit: Mark,
    /// What should become durable when it is settled anyway.
    wanted: Mark,
    flushing: bool,
    /// Whether the device wants to know which superpages are free.
    discard: bool,
    /// Superpages that it is being told of; they are in limbo still.
    discarding: u32,
    /// A superpage could not be opened until there is another log write.
    starved: bool,
    collection: Collection,
    checkpoint: Checkpoint,
    recovery: Option<Recovery>,
    counters: Counters,
    touched: usize,
    more: bool,
    told_full: bool,
    /// A command ran past its deadline: what hangs is answered without its payload.
    abandoning: bool,
}

impl Hard {
    /// What the layer needs over `devices`, of which there is one.
    pub fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        Ok(Layout::new(config, devices)?.plan())
    }

    /// The layer; `buffers` become its stages.
    pub fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = Layout::new(config, devices)?;
        let count = layout.count as usize;
        let log_pages = layout.pages().min(16);
        Ok(Hard {
            plan: layout.plan(),
            layout,
            uuid: config.uuid,
            life: Life::Recovering,
            health: Health::Good,
            map: Map::new(&layout),
            log: Log::new(config.uuid, log_pages, 4 * STAGES as usize),
            ops: Ops::new(config.deadline),
            requests: Requests::new(),
            stages: buffers.into_iter().map(Stage::new).collect(),
            order: VecDeque::with_capacity(STAGES as usize),
            filling: None,
            stamps: 0,
            host_stamp: 0,
            free: VecDeque::with_capacity(count),
            limbo: VecDeque::with_capacity(count),
            pins: VecDeque::with_capacity(count),
            commit: Mark::default(),
            wanted: Mark::default(),
            flushing: false,
            discard: devices[0].discard,
            discarding: 0,
            starved: false,
            collection: Collection::default(),
            checkpoint: Checkpoint::new(&layout),
            recovery: Some(Recovery::new(&layout, mode)),
            counters: Counters::default(),
            touched: 0,
            more: true,
            told_full: false,
            abandoning: false,
        })
    }

    /// Does what can be done, round by round, until nothing moves or the step is full.
    fn pump(&mut self, now: Nanos, out: &mut Out) {
        self.more = false;
        loop {
            if out.room() < ROUND_OUTPUTS || self.touched > MAX_TOUCH / 2 {
                self.more = true;
                return;
            }
            let wishes = (self.commit, self.wanted, self.starved);
            let moved = match (self.life, self.health) {
                (Life::Over, _) => self.pump_requests(now, out),
                (_, Health::ReadOnly(_) | Health::Dead) => self.pump_failed(now, out),
                (Life::Recovering, _) => self.pump_recovery(now, out),
                (Life::Running, _) => self.pump_running(now, out),
                (Life::Stopping, _) => self.pump_running(now, out) | self.pump_stop(out),
            };
            if !moved && wishes == (self.commit, self.wanted, self.starved) {
                return;
            }
        }
    }

    fn pump_running(&mut self, now: Nanos, out: &mut Out) -> bool {
        let mut moved = self.pump_requests(now, out);
        moved |= self.pump_seal(now, out);
        moved |= self.pump_commit(now, out);
        moved |= self.pump_collection(now, out);
        moved |= self.pump_checkpoint(now, out);
        moved |= self.pump_flush(now, out);
        moved |= self.pump_limbo(now, out);
        self.note_full(out);
        moved |= self.requests.answer_durable(self.log.durable.mark, out);
        moved
    }

    /// Ends the layer when everything is durable and the root needs no replay.
    fn pump_stop(&mut self, out: &mut Out) -> bool {
        let all = self.mark_all();
        self.commit = self.commit.max(all);
        if !self.log.durable.mark.covers(all) || self.collection.is_reading() {
            return false;
        }
        if self.checkpoint.is_current(self.log.next) {
            if !self.ops.is_empty() {
                return false;
            }
            self.life = Life::Over;
            out.push(Output::Event(Event::Stopped));
            return true;
        }
        self.checkpoint.hurry()
    }

    /// With a failed device only answering is left.
    fn pump_failed(&mut self, now: Nanos, out: &mut Out) -> bool {
        let error = match self.health {
            Health::ReadOnly(error) => error,
            _ => HostError::Io,
        };
        let mut moved = self.requests.fail_waiting(error, out) | self.pump_requests(now, out);
        if self.abandoning {
            moved |= self.requests.abandon(out);
        }
        if self.life == Life::Recovering {
            self.give_up("the device failed during recovery", out);
        } else if self.life == Life::Stopping {
            self.life = Life::Over;
            out.push(Output::Event(Event::Stopped));
        }
        moved
    }

    /// Everything up to now.
    fn mark_all(&self) -> Mark {
        Mark { stamp: self.stamps, pos: self.log.trimmed }
    }

    /// Everything that a host has been told is completed.
    fn mark_host(&self) -> Mark {
        Mark { stamp: self.host_stamp, pos: self.log.trimmed }
    }

    fn submit(&mut self, now: Nanos, op: Op, command: Command, out: &mut Out) {
        let token = self.ops.begin(now, op);
        out.push(Output::Submit(token, command));
    }

    fn done(&mut self, now: Nanos, done: Done, out: &mut Out) {
        let Done { token, command, result } = done;
        let op = self.ops.end(token);
        if let Err(error) = result {
            self.counters.device_errors += 1;
            if error == DeviceError::Gone || op.changes_media() {
                self.fail(error, false, out);
            }
        }
        match op {
            Op::Read { .. } | Op::Copy { .. } | Op::Zero { .. } => {
                self.read_done(op, command, result.is_ok(), out);
            }
            Op::Place { req, stage, lsn, slot, len } => {
                self.placed(req, stage, (lsn, slot, len), command, out);
            }
            Op::Collect { stage, from, slot, len } => {
                self.collected(stage, (from, slot, len), command, result.is_ok());
            }
            Op::Digest { stage } => self.digested(stage, command, result),
            Op::Program { stage, serial } => {
                self.programmed(stage, serial, command, result.is_ok())
            }
            Op::Log { vsp, serial } => self.log_written(vsp, serial, command, result.is_ok()),
            Op::Flush { settled } => {
                self.flushing = false;
                if result.is_ok() {
                    self.log.durable = settled;
                    self.checkpoint.flushed();
                }
            }
            Op::Discard { vsp } => {
                self.discarding -= 1;
                self.release(vsp);
            }
            Op::Image { slot } => self.checkpoint.image_written(slot, command),
            Op::Root { copy } => self.checkpoint.root_written(copy, command),
            Op::Recover { index } => self.recovery_done(now, index, command, result, out),
        }
    }

    fn fail(&mut self, error: DeviceError, abandoned: bool, out: &mut Out) {
        let worse = match error {
            DeviceError::Gone => Health::Dead,
            DeviceError::NoSpace => Health::ReadOnly(HostError::NoSpace),
            DeviceError::Media | DeviceError::Unsupported => Health::ReadOnly(HostError::Io),
        };
        let known = match self.health {
            Health::Good => false,
            Health::ReadOnly(_) => worse != Health::Dead,
            Health::Dead => !abandoned || self.abandoning,
        };
        self.abandoning |= abandoned;
        if known {
            return;
        }
        self.health = worse;
        out.push(Output::Event(Event::DeviceFailed { device: 0, error, abandoned }));
    }
}

impl Layer for Hard {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        self.touched = 0;
        match input {
            Input::Host(request) => self.accept(request, out),
            Input::Done(done) => self.done(now, done, out),
            Input::Timer => {
                if self.ops.wake().is_some_and(|wake| wake <= now) && self.ops.any_late(now) {
                    self.fail(DeviceError::Gone, true, out);
                }
            }
            Input::Stop => {
                assert!(self.requests.are_answered(), "stop comes when every request is answered");
                if self.life == Life::Running {
                    self.life = Life::Stopping;
                } else {
                    out.push(Output::Event(Event::Stopped));
                }
            }
        }
        self.pump(now, out);
        assert!(self.touched <= MAX_TOUCH, "a step touched {} map entries", self.touched);
    }

    fn credits(&self) -> Credits {
        let open = self.life == Life::Running;
        let requests = if open { self.requests.room() } else { 0 };
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

    fn map_bytes(&self) -> u64 {
        self.map.bytes()
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        self.map.run(lba, sectors.min(MAX_TOUCH as u64))
    }

    fn has_fast_zeroes(&self) -> bool {
        true
    }

    fn idle(&self) -> bool {
        self.ops.is_empty() && self.requests.is_empty() && !self.more
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.recovery.is_some() {
            return Ok(()); // The map is not whole before recovery ends well.
        }
        self.map.check()?;
        self.check_queues()
    }

    fn power_off(&mut self) {
        self.requests.void();
        for stage in &mut self.stages {
            if let Some(payload) = stage.payload.take() {
                payload.void();
            }
        }
    }
}

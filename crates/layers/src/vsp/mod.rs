//! The machine under the layers that gather small writes into virtual superpages: staging, the map
//! log, checkpoints and recovery. A [`Scheme`] brings the map and the collection.
//!
//! How a sector moves: a host write takes slots in the filling [`stage`], is copied there, and is
//! published in the [`table`] when the copy is over. A stage that is full, or that a flush needs,
//! is digested, listed in the [`log`] and programmed. A flush is answered when a log write that
//! covers it is settled and the device has flushed since. Checkpoints write changed map groups in
//! rotation, each only after the log that explains it is durable, and then a root from which replay
//! can begin. A scheme whose sectors have a home may write there too: see [`direct`].
//!
//! Invariants
//! - Requests that write or trim are taken on in the order of arrival.
//! - A superpage in limbo is free again only when a durable log write covers the moment it became
//!   empty, and no read of it is in flight.
//! - A superpage with log is pinned until a durable root no longer needs it.
//! - A step touches at most `MAX_TOUCH` map entries and makes at most `MAX_OUTPUTS` outputs.

mod checkpoint;
mod collect;
pub mod direct;
mod heads;
pub mod layout;
pub mod leaves;
pub mod limbo;
pub mod log;
mod nodes;
pub mod ops;
pub mod pool;
pub mod queue;
mod records;
mod recovery;
mod replay;
mod request;
pub mod stage;
pub mod table;
mod verify;
mod write_in;
pub mod write_out;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    Command, Counters, Credits, DeviceError, DeviceInfo, Done, Event, Few, HostError, Input, Layer,
    Limits, MAX_TOUCH, Nanos, Out, Output, Payload,
};

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::requests::Requests;
use crate::planted::{Bug, planted};
use checkpoint::Checkpoint;
use collect::Collection;
use direct::Direct;
use layout::{Layout, STAGES};
use limbo::Limbo;
use log::{Log, Mark};
use ops::{OPS, Op, Ops};
use pool::Pool;
use queue::Queue;
use recovery::Recovery;
use stage::{Phase, Stage};
pub use table::{Scheme, Table};

/// The most outputs that one round of the pump makes.
const ROUND_OUTPUTS: usize = 24;

/// What still works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Good,
    /// Writing failed: reads go on, all else gets this error.
    ReadOnly(HostError),
    /// The device is gone.
    Dead,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Recovering,
    Running,
    Stopping,
    Over,
}

/// See the module text.
#[derive(Debug)]
pub struct Machine<S: Scheme> {
    pub plan: Plan,
    pub layout: Layout,
    uuid: [u8; 16],
    pub life: Life,
    pub health: Health,
    pub table: S::Table,
    pub pool: Pool,
    pub scheme: S,
    pub direct: Direct,
    pub log: Log,
    pub ops: Ops<S::Op>,
    pub requests: Requests<Mark>,
    pub stages: Vec<Stage>,
    /// Stages that are not listed yet, in the order of opening; the last may be filling.
    order: VecDeque<u8>,
    pub filling: Option<u8>,
    /// Stages opened so far.
    stamps: u64,
    /// The youngest stage in which a host's sector was published.
    host_stamp: u64,
    pub free: Queue,
    pub limbo: Limbo,
    /// Superpages with log, in the order of their log writes, the last of which is `log.next - 1`.
    pub pins: Queue,
    /// What must become durable soon, stages closed for it.
    pub commit: Mark,
    /// What should become durable when it is settled anyway.
    pub wanted: Mark,
    flushing: bool,
    /// Whether the device wants to know which superpages are free.
    discard: bool,
    /// Superpages that it is being told of; they are in limbo still.
    pub discarding: u32,
    /// A superpage could not be opened until there is another log write.
    pub starved: bool,
    pub checkpoint: Checkpoint,
    collection: Collection,
    recovery: Option<Recovery>,
    pub counters: Counters,
    pub touched: usize,
    pub more: bool,
    told_full: bool,
    /// A command ran past its deadline: what hangs is answered without its payload.
    abandoning: bool,
}

impl<S: Scheme> Machine<S> {
    /// What the layer needs over `devices`, of which there is one.
    pub fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = S::layout(config, devices)?;
        let meta_bytes = layout.meta_bytes() + S::meta_bytes(config, &layout);
        Ok(layout.plan(S::buffers(), S::map_bytes(config, &layout), meta_bytes))
    }

    /// The layer; `buffers` become its stages and the scheme's own.
    pub fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        mut buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = S::layout(config, devices)?;
        let own = buffers.split_off(STAGES as usize);
        Ok(Machine {
            plan: Self::plan(config, devices)?,
            layout,
            uuid: config.uuid,
            life: Life::Recovering,
            health: Health::Good,
            table: S::table(config, &layout),
            pool: Pool::new(&layout, S::WEIGHS),
            scheme: S::new(config, &layout, own.into_iter()),
            direct: Direct::new(layout.kills),
            log: Log::new(config.uuid, layout.log_pages(), 4 * STAGES as usize),
            ops: Ops::new(OPS, config.patience()),
            requests: Requests::new(),
            stages: buffers.into_iter().map(Stage::new).collect(),
            order: VecDeque::with_capacity(STAGES as usize),
            filling: None,
            stamps: 0,
            host_stamp: 0,
            free: Queue::new(),
            limbo: Limbo::new(),
            pins: Queue::new(),
            commit: Mark::default(),
            wanted: Mark::default(),
            flushing: false,
            discard: devices[0].discard,
            discarding: 0,
            starved: false,
            checkpoint: Checkpoint::new(&layout),
            collection: Collection::default(),
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
        moved |= S::pump_collection(self, now, out);
        moved |= self.pump_kills();
        moved |= self.pump_checkpoint(now, out);
        moved |= self.pump_flush(now, out);
        moved |= self.pump_limbo(now, out);
        self.note_full(out);
        moved | self.answer_durable(out)
    }

    /// Ends the layer when everything is durable and the root needs no replay.
    fn pump_stop(&mut self, out: &mut Out) -> bool {
        let all = self.mark_all();
        self.commit = self.commit.max(all);
        let collecting = self.collection.is_reading() || self.scheme.is_collecting();
        if !self.durable().covers(all) || collecting {
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
        let mut moved = self.requests.answer_waiting(Err(error), out);
        moved |= self.pump_requests(now, out);
        moved |= S::give_up(self, out);
        if self.abandoning {
            moved |= self.requests.abandon(out);
        }
        if self.life == Life::Recovering {
            self.give_up("a device failed during recovery", out);
        } else if self.life == Life::Stopping {
            self.life = Life::Over;
            out.push(Output::Event(Event::Stopped));
        }
        moved
    }

    /// Everything up to now.
    pub fn mark_all(&self) -> Mark {
        Mark { stamp: self.stamps, pos: self.log.trimmed, direct: self.direct.done }
    }

    /// Everything that a host has been told is completed.
    fn mark_host(&self) -> Mark {
        Mark { stamp: self.host_stamp, pos: self.log.trimmed, direct: self.direct.host }
    }

    /// What is durable.
    pub fn durable(&self) -> Mark {
        Mark { direct: self.direct.durable(), ..self.log.durable.mark }
    }

    /// Sends a command.
    pub fn submit(&mut self, now: Nanos, op: Op<S::Op>, command: Command, out: &mut Out) {
        let token = self.ops.begin(now, op, op.on_device().then_some(0));
        out.push(Output::Submit(token, command));
    }

    /// Sends a command of the scheme's own.
    pub fn submit_own(&mut self, now: Nanos, op: S::Op, command: Command, out: &mut Out) {
        self.submit(now, Op::Own(op), command, out);
    }

    fn done(&mut self, now: Nanos, done: Done, out: &mut Out) {
        let Done { token, command, result } = done;
        let op = self.ops.end(token);
        let ignored = matches!(op, Op::Log { .. }) && planted(Bug::MapWriteIgnored)
            || matches!(op, Op::Flush { .. }) && planted(Bug::FailedFlushBelieved)
            || matches!(op, Op::Recover { .. }) && planted(Bug::FirstFlushIgnored);
        if let Err(error) = result {
            self.counters.device_errors += 1;
            // A flush of recovery, too: what is read then may not be what is on the medium.
            let lasting = op.changes_media() || matches!(command, Command::Flush { .. });
            if (error == DeviceError::Gone || lasting) && !ignored {
                self.fail(error, false, out);
            }
        }
        match op {
            Op::Read { .. } | Op::Copy { .. } | Op::Zero { .. } | Op::Home { .. } => {
                self.read_done(op, command, result.is_ok(), out);
            }
            Op::Place { req, stage, lsn, slot, len } => {
                self.placed(req, stage, (lsn, slot, len), command, out);
            }
            Op::Collect { stage, from, slot, len } => {
                self.collected(stage, (from, slot, len), command, result.is_ok());
            }
            Op::Own(own) => S::done(self, own, command, result.is_ok(), out),
            Op::Digest { stage } => self.digested(stage, command, result),
            Op::Program { stage, serial } => {
                self.programmed(stage, serial, command, result.is_ok())
            }
            Op::Log { vsp, serial } => {
                self.log_written(vsp, serial, command, result.is_ok() || ignored);
            }
            Op::Flush { settled } => {
                self.flushing = false;
                if result.is_ok() || ignored {
                    self.log.durable = settled;
                    self.direct.flush_done();
                    self.direct.settle(settled.mark.pos);
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

impl<S: Scheme> Layer for Machine<S> {
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

    fn has_failed(&self) -> bool {
        self.health != Health::Good
    }

    fn map_bytes(&self) -> u64 {
        self.plan.map_bytes
    }

    fn facts(&self) -> Few<(&'static str, u64), 8> {
        S::facts(self)
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        match self.layout.home {
            Some(_) => (true, sectors),
            None => self.table.run(lba, sectors.min(MAX_TOUCH as u64)),
        }
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
        self.table.check(&self.pool)?;
        self.check_queues()
    }

    fn power_off(&mut self) {
        self.requests.void();
        self.scheme.void();
        for stage in &mut self.stages {
            if let Some(payload) = stage.payload.take() {
                payload.void();
            }
        }
    }
}

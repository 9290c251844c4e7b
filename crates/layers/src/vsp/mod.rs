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

use hostftl_core::{Command, DeviceError, DeviceInfo, Few, MAX_TOUCH, Payload, Request};

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::shell::Ended;
use crate::kit::{Core, Life, Shell};
use crate::planted::{Bug, planted};
use checkpoint::Checkpoint;
use collect::Collection;
use direct::Direct;
use layout::{Layout, STAGES};
use limbo::Limbo;
use log::{Log, Mark, Point};
use ops::{Cx, OPS, Op};
use pool::Pool;
use queue::Queue;
use recovery::Recovery;
use stage::{Phase, Stage};
pub use table::{Scheme, Table};

/// See the module text.
#[derive(Debug)]
pub struct Machine<S: Scheme> {
    pub layout: Layout,
    uuid: [u8; 16],
    pub table: S::Table,
    pub pool: Pool,
    pub scheme: S,
    pub direct: Direct,
    pub log: Log,
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
    told_full: bool,
}

impl<S: Scheme> Shell<Machine<S>> {
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
        let machine = Machine {
            layout,
            uuid: config.uuid,
            table: S::table(config, &layout),
            pool: Pool::new(&layout, S::WEIGHS),
            scheme: S::new(config, &layout, own.into_iter()),
            direct: Direct::new(layout.kills),
            log: Log::new(config.uuid, layout.log_pages(), 4 * STAGES as usize),
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
            told_full: false,
        };
        Ok(Shell::over(machine, Self::plan(config, devices)?, OPS, config.patience()))
    }
}

impl<S: Scheme> Machine<S> {
    fn pump_running(&mut self, cx: &mut Cx<S::Op>) -> bool {
        let mut moved = self.pump_requests(cx);
        moved |= self.pump_seal(cx);
        moved |= self.pump_commit(cx);
        moved |= S::pump_collection(self, cx);
        moved |= self.pump_kills();
        moved |= self.pump_checkpoint(cx);
        moved |= self.pump_flush(cx);
        moved |= self.pump_limbo(cx);
        self.note_full(cx);
        moved | self.answer_durable(cx)
    }

    /// Ends the layer when everything is durable and the root needs no replay.
    fn pump_stop(&mut self, cx: &mut Cx<S::Op>) -> bool {
        let all = self.mark_all();
        self.commit = self.commit.max(all);
        let collecting = self.collection.is_reading() || self.scheme.is_collecting();
        if !self.durable().covers(all) || collecting {
            return false;
        }
        if self.checkpoint.is_current(self.log.next) {
            let over = cx.is_quiet();
            if over {
                cx.stopped();
            }
            return over;
        }
        self.checkpoint.hurry()
    }

    /// Whether a round did anything; to wish for something is enough.
    fn stirs(&mut self, round: impl FnOnce(&mut Self) -> bool) -> bool {
        let wishes = (self.commit, self.wanted, self.starved);
        round(self) || wishes != (self.commit, self.wanted, self.starved)
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

    fn flushed(&mut self, settled: Point) {
        self.log.durable = settled;
        self.direct.flush_done();
        self.direct.settle(settled.mark.pos);
        self.checkpoint.flushed();
    }
}

impl<S: Scheme> Core for Machine<S> {
    type Op = Op<S::Op>;
    type Mark = Mark;
    const ROUND_OUTPUTS: usize = 24;

    fn accept(&mut self, request: Request, cx: &mut Cx<S::Op>) {
        self.take_in(request, cx);
    }

    fn done(&mut self, op: Op<S::Op>, command: Command, ended: Ended, cx: &mut Cx<S::Op>) {
        let ignored = matches!(op, Op::Log { .. }) && planted(Bug::MapWriteIgnored)
            || matches!(op, Op::Flush { .. }) && planted(Bug::FailedFlushBelieved)
            || matches!(op, Op::Recover { .. }) && planted(Bug::FirstFlushIgnored);
        if let Err(error) = ended {
            cx.counters().device_errors += 1;
            // A flush of recovery, too: what is read then may not be what is on the medium.
            let lasting = op.changes_media() || matches!(command, Command::Flush { .. });
            if (error == DeviceError::Gone || lasting) && !ignored {
                cx.fail(0, error, false);
            }
        }
        let ok = ended.is_ok();
        match op {
            Op::Read { .. } | Op::Copy { .. } | Op::Zero { .. } | Op::Home { .. } => {
                self.read_done(op, command, ok, cx);
            }
            Op::Place { req, stage, lsn, slot, len } => {
                self.placed(req, stage, (lsn, slot, len), command, cx);
            }
            Op::Collect { stage, from, slot, len } => {
                self.collected(stage, (from, slot, len), command, ok, cx);
            }
            Op::Own(own) => S::done(self, own, command, ok, cx),
            Op::Digest { stage } => self.digested(stage, command, ended),
            Op::Program { stage, serial } => self.programmed(stage, serial, command, ok),
            Op::Log { vsp, serial } => self.log_written(vsp, serial, command, ok || ignored),
            Op::Flush { settled } => {
                self.flushing = false;
                if ok || ignored {
                    self.flushed(settled);
                }
            }
            Op::Discard { vsp } => {
                self.discarding -= 1;
                self.release(vsp);
            }
            Op::Image { slot } => self.checkpoint.image_written(slot, command),
            Op::Root { copy } => self.checkpoint.root_written(copy, command),
            Op::Recover { index } => self.recovery_done(index, command, ended, cx),
        }
    }

    fn start(&mut self, cx: &mut Cx<S::Op>) -> bool {
        self.stirs(|machine| machine.pump_recovery(cx))
    }

    fn run(&mut self, cx: &mut Cx<S::Op>) -> bool {
        let stops = cx.life() == Life::Stopping;
        self.stirs(|machine| machine.pump_running(cx) | (stops && machine.pump_stop(cx)))
    }

    fn stop(&mut self, _cx: &mut Cx<S::Op>) -> bool {
        false // What a stop asks for is part of each round.
    }

    fn wind_down(&mut self, cx: &mut Cx<S::Op>) -> bool {
        self.pump_requests(cx) | (!cx.is_good() && S::give_up(self, cx))
    }

    fn check(&self) -> Result<(), &'static str> {
        self.table.check(&self.pool)?;
        self.check_queues()
    }

    fn power_off(&mut self) {
        self.scheme.void();
        for stage in &mut self.stages {
            if let Some(payload) = stage.payload.take() {
                payload.void();
            }
        }
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
}

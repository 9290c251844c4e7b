//! A fast non-volatile device as a write-back cache of a slow one.
//!
//! Source: Kinoshita et al., the multi-SCM SSD; the crash protocol is this project's. Pages move as
//! a whole. The slow device has a home for each page, and a page that is also on the fast device is
//! read and written there. The crash protocol is described in docs/layers/tier.md.
//!
//! Invariants
//! - The directory on the fast device lists slots that are newer than the slow device's pages. An
//!   entry is added only after a flush made the slot's data durable, and removed only after a flush
//!   made the copy on the slow device durable.
//! - A slot is assigned to another page only if no entry for it can be on the medium.
//! - A flush is acknowledged when all data that it covers is durable, either on the slow device or
//!   in a listed slot.
//! - While a page moves between the devices, changes to it wait, or the move does not count.
//! - A failed device ends all writing. Reads continue, from both devices if only a write or a flush
//!   failed.

mod cache;
mod commit;
mod failures;
mod front;
mod heat;
mod layout;
mod moves;
mod ops;
pub(crate) mod params;
mod recovery;
pub(crate) mod register;
mod route;

use alloc::vec::Vec;

use hostftl_core::{
    Ack, Command, DeviceError, DeviceInfo, Event, Limits, Member, MemberState, Members, Payload,
    Request, Token,
};

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::requests::Order;
use crate::kit::shell::Ended;
use crate::kit::{Core, Life, Shell};
use crate::planted::{Bug, planted};
use cache::Cache;
use commit::Commit;
use failures::Failures;
use front::Front;
use heat::Heat;
use layout::{FAST, Layout, MAX_TRANSFER, SLOW};
use moves::{JOBS, Moves};
use ops::{Cx, OPS, Op, REQUESTS, ROOM};
use recovery::Start;

/// The layer `tier`.
pub(crate) type Tier = Shell<Engine>;

/// The engine of `tier`.
#[derive(Debug)]
pub(crate) struct Engine {
    cache: Cache,
    moves: Moves,
    front: Front,
    commit: Commit,
    start: Start,
    failures: Failures,
}

impl Tier {
    /// Returns the resources that the layer needs over `devices`: the fast one, then the slow one.
    ///
    /// # Errors
    /// If the devices or the page size do not fit the layer.
    pub(crate) fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = Layout::new(config.tier.page, devices)?;
        let limits = Limits {
            exported: layout.exported(),
            max_transfer: MAX_TRANSFER,
            align: layout.page,
            ack: Ack::Media,
        };
        let map_bytes = Cache::map_bytes(&layout);
        let meta_bytes = Cache::meta_bytes(&layout) + Heat::bytes(config.tier.policy, &layout);
        let (buffers, buffer_sectors) = (JOBS as u32, layout.page);
        Ok(Plan { limits, buffers, buffer_sectors, map_bytes, meta_bytes })
    }

    /// Creates the layer.
    ///
    /// # Errors
    /// As [`Tier::plan`].
    pub(crate) fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let (params, uuid) = (&config.tier, config.uuid);
        let layout = Layout::new(params.page, devices)?;
        let engine = Engine {
            cache: Cache::new(&layout, params, uuid),
            moves: Moves::new(&layout, params.policy, buffers),
            front: Front::new(&layout, params),
            commit: Commit::new(),
            start: Start::new(&layout, uuid, mode),
            failures: Failures::default(),
        };
        Ok(Shell::over(engine, Self::plan(config, devices)?, OPS, config.patience()))
    }
}

impl Engine {
    /// Ends all writing after a device failure.
    fn fail(&mut self, device: u8, error: DeviceError, abandoned: bool, cx: &mut Cx) {
        if self.failures.add(device, error) {
            cx.report(Event::DeviceFailed { device, error, abandoned });
        }
        cx.end_writing(failures::host_error(error));
        if cx.life() == Life::Starting {
            cx.fail_volume("a device failed during the start");
        }
    }

    /// Advances requests, after answering those with late commands.
    fn pump_front(&mut self, cx: &mut Cx) {
        self.front.abandon_late(cx);
        self.front.pump(&mut self.cache, &mut self.moves, &self.failures, cx);
    }

    /// Requests another step if a request is still ready.
    fn leave_rest(&self, cx: &mut Cx) {
        if self.front.can_move() {
            cx.wake();
        }
    }
}

/// One round does all possible work, so a step needs no second one.
impl Core for Engine {
    type Op = Op;
    type Mark = ();
    const ROUND_OUTPUTS: usize = ROOM;
    const MOST_OUTPUTS: usize = hostftl_core::MAX_OUTPUTS;
    const ORDER: Order = Order::Any;
    const REQUESTS: usize = REQUESTS;

    fn accept(&mut self, request: Request, cx: &mut Cx) {
        self.front.accept(request, cx);
    }

    fn done(&mut self, op: Op, command: Command, ended: Ended, cx: &mut Cx) {
        if let Err(error) = ended {
            cx.counters().device_errors += 1;
            // An unreadable sector fails only its request; other errors end all writing.
            let medium = op.is_read() && error == DeviceError::Media;
            let over = op == Op::Own && cx.life() == Life::Over;
            let is_flush = matches!(op, Op::Flush { .. });
            let believed = is_flush && planted(Bug::TierFlushBelieved);
            if !medium && !over && !believed {
                self.fail(command.device().unwrap_or(FAST), error, false, cx);
            }
        }
        let ok = ended.is_ok();
        if ok && let Command::Program { device, .. } | Command::Reset { device, .. } = command {
            self.cache.flushes().changed(device);
        }
        self.front.wake();
        let (cache, moves) = (&mut self.cache, &mut self.moves);
        match op {
            Op::Fetch { .. } | Op::Fill { .. } | Op::Collect { .. } | Op::WriteBack { .. } => {
                if let Some(page) = moves.done(op, command, ok, cache, cx) {
                    self.front.go_around(page, cx);
                }
            }
            Op::Flush { .. } | Op::Directory { .. } | Op::Ledger => {
                self.commit.done(op, command, ok, cache, cx);
            }
            Op::Own => self.start.done(command, ok, cache, cx),
            _ => self.front.done(op, command, ended.err(), (cache, moves), cx),
        }
    }

    fn late_done(&mut self, _: Token, op: Op, command: Command, ended: Ended, cx: &mut Cx) {
        self.done(op, command, ended, cx);
    }

    /// Answers requests that wait for a late command, and treats the device as failed.
    fn woken(&mut self, late: bool, cx: &mut Cx) -> bool {
        if !late {
            return true;
        }
        let (mut is_late, front) = ([false; 2], &mut self.front);
        cx.abandon_late_commands(|op, device| {
            is_late[usize::from(device)] = true;
            if let Some(req) = op.request() {
                front.set_late(req);
            }
        });
        for device in [FAST, SLOW].into_iter().filter(|device| is_late[usize::from(*device)]) {
            cx.counters().device_errors += 1;
            self.fail(device, DeviceError::Removed, true, cx);
        }
        self.front.wake();
        true
    }

    fn start(&mut self, cx: &mut Cx) -> bool {
        self.start.pump(&mut self.cache, cx);
        false
    }

    fn run(&mut self, cx: &mut Cx) -> bool {
        self.pump_front(cx);
        if cx.is_running() {
            self.moves.evict(&mut self.cache, cx);
        }
        let rest = (self.moves.is_idle(), self.start.lives());
        self.commit.pump(&mut self.front, &mut self.cache, rest, cx);
        self.leave_rest(cx);
        false
    }

    fn stop(&mut self, cx: &mut Cx) -> bool {
        if self.commit.is_closed() {
            self.start.pump_stop(cx);
        }
        false
    }

    fn wind_down(&mut self, cx: &mut Cx) -> bool {
        let Some(error) = self.failures.error().filter(|_| cx.life() != Life::Over) else {
            return false;
        };
        self.pump_front(cx);
        self.front.fail_members(error, cx);
        self.leave_rest(cx);
        false
    }

    fn members(&self) -> Members {
        let lost = Member { state: MemberState::Lost, recorded: false, ..Member::ACTIVE };
        let [fast, slow] = self.failures.failed();
        let failed = [(fast, FAST), (slow, SLOW)].into_iter().filter(|(has_failed, _)| *has_failed);
        failed.fold(Members::default(), |members, (_, device)| members.with(device, lost))
    }

    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        self.cache.lost_ranges(self.failures.failed())
    }

    fn check(&self) -> Result<(), &'static str> {
        self.cache.check()
    }

    fn power_off(&mut self) {
        self.moves.void();
    }
}

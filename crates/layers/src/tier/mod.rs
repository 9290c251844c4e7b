//! A fast non-volatile device as a write-back cache over a slow one.
//!
//! Source: Kinoshita et al., the multi-SCM SSD; the crash protocol is ours. Pages move whole; the
//! slow device has a home for each, and a page that the fast one holds too is read and written
//! there. What makes it crash-safe (docs/layers/tier.md):
//!
//! Invariants
//! - The directory on the fast device names slots whose content is newer than the slow device's. A
//!   slot gets its entry only when a flush has made its content durable, and loses it only when a
//!   flush has made the slow device's copy durable.
//! - A slot is given to another page only when no entry for it can be on the medium.
//! - A flush is answered when everything it covers is durable on the slow device, or durable in a
//!   slot that has an entry.
//! - While a page moves between the devices, whoever changes it waits, or it counts as not moved.
//! - A device that failed ends all writing: what is there can still be read, and from both devices
//!   if what failed was a write or a flush.

mod commit;
mod failures;
mod heat;
mod layout;
mod ledger;
mod moves;
mod ops;
pub(crate) mod params;
mod recovery;
pub(crate) mod register;
mod request;
mod route;
mod slots;

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{
    Ack, Command, Counters, Credits, DeviceError, DeviceInfo, Done, Event, Input, Layer, Limits,
    Nanos, Out, Output, Payload,
};

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::Life;
use crate::planted::{Bug, planted};
use commit::Commit;
use failures::Failures;
use heat::Heat;
use layout::{FAST, Layout, MAX_TRANSFER, SLOW};
use ledger::Ledger;
use moves::{JOBS, Jobs};
use ops::{Op, Ops};
use params::{Params, Policy};
use recovery::Start;
use request::Requests;
use slots::{Slots, State};

/// Outputs that one move of anything may need.
const ROOM: usize = 4;

/// See the module text.
#[derive(Debug)]
pub struct Tier {
    plan: Plan,
    params: Params,
    layout: Layout,
    uuid: [u8; 16],
    life: Life,
    failures: Failures,
    slots: Slots,
    ops: Ops,
    requests: Requests,
    jobs: Jobs,
    commit: Commit,
    ledger: Ledger,
    start: Start,
    heat: Heat,
    counters: Counters,
    /// Whether something was left undone for want of room.
    again: bool,
}

impl Tier {
    /// What the layer needs over `devices`: the fast one and the slow one.
    pub fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = Layout::new(config.tier.page, devices)?;
        let limits = Limits {
            exported: layout.exported(),
            max_transfer: MAX_TRANSFER,
            align: layout.page,
            ack: Ack::Media,
        };
        let map_bytes = Slots::bytes(layout.slots);
        let heat = Heat::bytes(config.tier.policy, &layout);
        let meta_bytes = Commit::bytes(&layout) + Ledger::bytes(&layout) + heat;
        let (buffers, buffer_sectors) = (JOBS as u32, layout.page);
        Ok(Plan { limits, buffers, buffer_sectors, map_bytes, meta_bytes })
    }

    /// The layer.
    pub fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = Layout::new(config.tier.page, devices)?;
        Ok(Tier {
            plan: Self::plan(config, devices)?,
            params: config.tier,
            layout,
            uuid: config.uuid,
            life: Life::Starting,
            failures: Failures::default(),
            slots: Slots::new(layout.slots),
            ops: Ops::new(config.patience()),
            requests: Requests::new(),
            jobs: Jobs::new(buffers),
            commit: Commit::new(&layout),
            ledger: Ledger::new(&layout),
            start: Start::new(mode),
            heat: Heat::new(config.tier.policy, &layout),
            counters: Counters::default(),
            again: true,
        })
    }

    /// Whether a device failed, so that nothing is written any more.
    #[inline]
    fn is_broken(&self) -> bool {
        self.failures.error().is_some()
    }

    /// A device failed.
    fn fail(&mut self, device: u8, error: DeviceError, abandoned: bool, out: &mut Out) {
        if self.failures.add(device, error) {
            out.push(Output::Event(Event::DeviceFailed { device, error, abandoned }));
        }
        if self.life == Life::Starting {
            self.give_up("a device failed while the volume was opened", out);
        }
    }

    /// The volume can't be opened.
    fn give_up(&mut self, why: &'static str, out: &mut Out) {
        if self.life != Life::Over {
            self.life.go(Life::Over);
            out.push(Output::Event(Event::Unrecoverable(why)));
        }
    }

    fn done(&mut self, now: Nanos, done: Done, out: &mut Out) {
        let Done { token, command, result } = done;
        let (op, device) = self.ops.end(token);
        if let Err(error) = result {
            self.counters.device_errors += 1;
            let medium = op.is_read() && error == DeviceError::Media;
            let over = op == Op::Own && self.life == Life::Over;
            let believed = op.is_flush() && planted(Bug::TierFlushBelieved);
            if !medium && !over && !believed {
                self.fail(device, error, false, out);
            }
        }
        let ok = result.is_ok();
        if ok && matches!(command, Command::Program { .. } | Command::Reset { .. }) {
            self.commit.changed(device);
        }
        self.requests.wake();
        match op {
            Op::Fetch { .. } | Op::Fill { .. } | Op::Collect { .. } | Op::WriteBack { .. } => {
                self.moved(now, op, command, ok, out);
            }
            Op::Flush { device } => self.flushed(device, ok),
            Op::Directory { buf } => self.directory_written(buf, command, ok),
            Op::Ledger => {
                self.commit.command_over();
                self.ledger_written(command);
            }
            Op::Own => self.own_done(command, ok, out),
            _ => self.request_done(op, command, result.err(), out),
        }
    }

    /// Gives up what is past its deadline.
    fn expire(&mut self, now: Nanos, out: &mut Out) {
        if self.ops.wake().is_none_or(|at| at > now) {
            return;
        }
        let mut late = [false; 2];
        let requests = &mut self.requests;
        self.ops.expire(now, |op, device| {
            late[usize::from(device)] = true;
            if let Some(req) = op.request() {
                requests.set_late(req);
            }
        });
        for device in [FAST, SLOW] {
            if late[usize::from(device)] {
                self.counters.device_errors += 1;
                self.fail(device, DeviceError::Gone, true, out);
            }
        }
        self.requests.wake();
    }

    /// Does everything that can be done now.
    fn pump(&mut self, now: Nanos, out: &mut Out) {
        self.again = false;
        match self.life {
            Life::Starting => self.pump_start(now, out),
            Life::Running | Life::Stopping => {
                self.abandon_late(out);
                self.pump_requests(now, out);
                if self.is_broken() {
                    self.fail_members(out);
                } else {
                    self.evict(now, out);
                    self.pump_commit(now, out);
                }
                if self.life == Life::Stopping {
                    self.pump_stop(now, out);
                }
                self.again |= self.requests.can_move();
            }
            Life::Over => {}
        }
    }
}

impl Layer for Tier {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        match input {
            Input::Host(request) => self.accept(request, out),
            Input::Done(done) => self.done(now, done, out),
            Input::Timer => self.expire(now, out),
            Input::Stop if self.life == Life::Running => self.life.go(Life::Stopping),
            // What was not opened has nothing to make durable.
            Input::Stop => {
                if self.life != Life::Over {
                    self.life.go(Life::Over);
                }
                out.push(Output::Event(Event::Stopped));
            }
        }
        self.pump(now, out);
    }

    #[inline]
    fn credits(&self) -> Credits {
        let requests = match self.life {
            Life::Running => self.requests.free(),
            _ => 0,
        };
        Credits { requests, sectors: self.plan.limits.max_transfer }
    }

    #[inline]
    fn next_timer(&self) -> Option<Nanos> {
        if self.again { Some(0) } else { self.ops.wake() }
    }

    fn limits(&self) -> Limits {
        self.plan.limits
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn lost_devices(&self) -> u16 {
        let [fast, slow] = self.failures.gone();
        u16::from(fast) | u16::from(slow) << 1
    }

    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        let [fast, slow] = self.failures.gone();
        match (fast, slow) {
            (false, false) => Vec::new(),
            (true, true) => vec![(0, self.layout.exported())],
            _ => self.slots.ranges(self.layout.page, self.layout.pages, slow),
        }
    }

    fn has_failed(&self) -> bool {
        self.is_broken()
    }

    fn map_bytes(&self) -> u64 {
        self.plan.map_bytes
    }

    fn idle(&self) -> bool {
        self.requests.is_empty() && self.ops.is_empty()
    }

    fn check(&self) -> Result<(), &'static str> {
        if matches!(self.life, Life::Starting | Life::Over) {
            return Ok(());
        }
        self.slots.check()?;
        let listed = |slot: u32| self.slots.get(slot);
        for slot in (0..self.slots.count()).map(listed) {
            let may_be_listed =
                matches!(slot.state(), State::Dirty | State::Cleaning | State::Cleaned);
            if slot.listed && !may_be_listed {
                return Err("tier: a slot is listed as dirty and is not");
            }
        }
        let listed = (0..self.slots.count()).map(|slot| self.slots.get(slot));
        self.ledger.check(listed.filter(|slot| slot.listed).map(|slot| slot.page))
    }

    fn power_off(&mut self) {
        self.requests.void();
        self.jobs.void();
    }
}

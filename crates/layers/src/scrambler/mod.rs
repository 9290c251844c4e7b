//! The LBA scrambler: writes go to pages that live in what the drive collects next, so that its
//! victims empty themselves.
//!
//! Source: the LBA scrambler of Chuo University (see `hostftl paper scrambler`); the crash protocol
//! is ours.
//!
//! The map is by slot, a part of a page. The slots of a [`pages`] page that nothing needs are
//! written by a [`fill`], whatever their number: to the drive the page is overwritten, and what it
//! held elsewhere is stale. Changes of the map go through the [`journal`], whose [`round`]s make
//! them durable; a [`checkpoint`] shortens the log.
//!
//! Invariants
//! - Writes and trims are taken on in the order of arrival, and a write is answered when the device
//!   has completed it and the map points at it.
//! - A step touches at most `MAX_TOUCH` map entries and makes at most `MAX_OUTPUTS` outputs.

mod checkpoint;
mod fill;
mod hint;
mod journal;
mod layout;
mod map;
mod ops;
mod pages;
mod params;
mod recovery;
mod request;
mod round;
mod write;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    Command, Counters, Credits, DeviceError, DeviceInfo, Done, Event, HostError, Input, Layer,
    Limits, MAX_TOUCH, MetaBuf, Nanos, Out, Output, Payload,
};
use hostftl_format::scrambler::Root;

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::planted::{Bug, planted};
use crate::requests::Requests;
use checkpoint::Checkpoint;
use fill::{Fill, Step};
use hint::Hint;
use journal::Journal;
use layout::Layout;
use map::Map;
use ops::{Op, Ops};
use pages::Pages;
pub use params::Params;
use recovery::Recovery;

/// Pages that are written at the same time.
const FILLS: usize = 16;
/// Log pages that can wait, and that one round writes.
const PENDING_PAGES: u32 = 4;
/// The most outputs that one round of the pump makes.
const ROUND_OUTPUTS: usize = 42;

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
pub struct Scrambler {
    plan: Plan,
    layout: Layout,
    uuid: [u8; 16],
    life: Life,
    health: Health,
    map: Map,
    pages: Pages,
    journal: Journal,
    ops: Ops,
    requests: Requests<u64>,
    fills: Vec<Fill>,
    /// Fills whose next step is due.
    sent: VecDeque<u8>,
    hint: Hint,
    checkpoint: Checkpoint,
    recovery: Option<Recovery>,
    /// The root that is durable.
    root: Root,
    log_buf: Option<MetaBuf>,
    /// The next log page, and the newest that is known to be durable.
    log_next: u64,
    log_durable: u64,
    /// How often each rule chose a page.
    rules: [u64; 3],
    counters: Counters,
    touched: usize,
    more: bool,
    told_full: bool,
    abandoning: bool,
}

impl Scrambler {
    /// What the layer needs over `devices`, of which there is one.
    pub fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = Layout::new(config, devices)?;
        let slots = u64::from(layout.count) * u64::from(layout.per_page);
        let meta = Pages::memory(layout.count.into()) + Journal::memory(slots);
        Ok(layout.plan(Map::memory(layout.slots.into(), slots), meta))
    }

    /// The layer; `buffers` become those of its fills.
    pub fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = Layout::new(config, devices)?;
        let slots = layout.count * layout.per_page;
        let params = config.scrambler;
        Ok(Scrambler {
            plan: Self::plan(config, devices)?,
            layout,
            uuid: config.uuid,
            life: Life::Recovering,
            health: Health::Good,
            map: Map::new(layout.slots, slots),
            pages: Pages::new(layout.count, layout.per_page, params.util_permille),
            journal: Journal::new(slots.into()),
            ops: Ops::new(config.patience()),
            requests: Requests::new(),
            fills: buffers.into_iter().map(Fill::new).collect(),
            sent: VecDeque::with_capacity(FILLS),
            hint: Hint::new(params.refresh),
            checkpoint: Checkpoint::new(&layout),
            recovery: Some(Recovery::new(&layout, mode)),
            root: Root::default(),
            log_buf: Some(MetaBuf::new(PENDING_PAGES as usize)),
            log_next: 1,
            log_durable: 0,
            rules: [0; 3],
            counters: Counters::default(),
            touched: 0,
            more: true,
            told_full: false,
            abandoning: false,
        })
    }

    /// How often a page was taken because it was fresh, because the device collects it next, and
    /// because it had the fewest used slots.
    pub fn rules(&self) -> [u64; 3] {
        self.rules
    }

    fn is_running(&self) -> bool {
        self.life == Life::Running
    }

    /// Does what can be done, round by round, until nothing moves or the step is full.
    fn pump(&mut self, now: Nanos, out: &mut Out) {
        self.more = false;
        loop {
            if out.room() < ROUND_OUTPUTS || self.touched > MAX_TOUCH / 2 {
                self.more = true;
                return;
            }
            let demanded = self.journal.demanded;
            let moved = match (self.life, self.health) {
                (Life::Over, _) => {
                    self.pump_fills(now, out) || self.pump_read(now, out) || self.pump_write(out)
                }
                (_, Health::ReadOnly(_) | Health::Dead) => self.pump_failed(now, out),
                (Life::Recovering, _) => self.pump_recovery(now, out),
                (Life::Running | Life::Stopping, _) => self.pump_running(now, out),
            };
            if !moved && demanded == self.journal.demanded {
                return;
            }
        }
    }

    /// One thing at a time, so that the outputs of a round are bounded.
    fn pump_running(&mut self, now: Nanos, out: &mut Out) -> bool {
        self.pump_fills(now, out)
            || self.pump_read(now, out)
            || self.pump_retired()
            || self.pump_write(out)
            || self.pump_hint(now, out)
            || self.pump_round(now, out)
            || self.pump_checkpoint(now, out)
            || self.answer_durable(out)
            || self.life == Life::Stopping && self.pump_stop(out)
    }

    fn note_full(&mut self, out: &mut Out) {
        let full = self.map.mapped() == u64::from(self.layout.slots);
        if full && !self.told_full {
            out.push(Output::Event(Event::Full));
        }
        self.told_full = full;
    }

    /// Ends the layer when everything is durable.
    fn pump_stop(&mut self, out: &mut Out) -> bool {
        self.journal.demand(self.journal.published);
        let settled = self.journal.durable == self.journal.published;
        if !settled || !self.ops.is_empty() || !self.checkpoint.is_idle() {
            return false;
        }
        self.life = Life::Over;
        out.push(Output::Event(Event::Stopped));
        true
    }

    /// With a failed device only answering is left.
    fn pump_failed(&mut self, now: Nanos, out: &mut Out) -> bool {
        let error = match self.health {
            Health::ReadOnly(error) => error,
            _ => HostError::Io,
        };
        let mut moved = self.requests.answer_waiting(Err(error), out) || self.pump_fills(now, out);
        moved |= self.pump_read(now, out) | self.pump_write(out);
        if self.abandoning {
            moved |= self.requests.abandon(out);
        }
        if self.life == Life::Recovering {
            return self.give_up("the device failed during recovery", out);
        }
        if self.life == Life::Stopping {
            self.life = Life::Over;
            out.push(Output::Event(Event::Stopped));
        }
        moved
    }

    fn submit(&mut self, now: Nanos, op: Op, command: Command, out: &mut Out) {
        let token = self.ops.begin(now, op, op.on_device().then_some(0));
        out.push(Output::Submit(token, command));
    }

    fn done(&mut self, now: Nanos, done: Done, out: &mut Out) {
        let Done { token, command, result } = done;
        let full = result == Err(DeviceError::NoSpace) && planted(Bug::NoSpaceIsDone);
        let (op, ok) = (self.ops.end(token), result.is_ok() || full);
        if let Err(error) = result
            && op != Op::Hint
            && !full
        {
            self.counters.device_errors += 1;
            // A flush of recovery, too: what is read then may not be what is on the medium.
            let lasting = op.changes_media() || matches!(command, Command::Flush { .. });
            if error == DeviceError::Gone || lasting {
                self.fail(error, false, out);
            }
        }
        match op {
            Op::Read { .. } | Op::Zero { .. } => self.read_done(op, command, ok, out),
            Op::Merge { .. } | Op::Old { .. } | Op::Data { .. } | Op::Program { .. } => {
                self.fill_done(op, command, ok);
            }
            Op::RoundFlush => self.round_flushed(ok),
            Op::Log => self.log_written(now, command, ok, out),
            Op::Hint => self.hinted(command, result),
            Op::Image { buf } => self.image_written(buf, command),
            Op::RootFlush => self.root_flushed(now, ok, out),
            Op::Root { copy } => self.root_written(now, copy, command, out),
            Op::Recover { index } => self.recovered(index, command, ok),
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

impl Layer for Scrambler {
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
        self.note_full(out);
        assert!(self.touched <= MAX_TOUCH, "a step touched {} map entries", self.touched);
    }

    fn credits(&self) -> Credits {
        let requests = if self.is_running() { self.requests.room() } else { 0 };
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

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        let slot = u64::from(self.layout.slot);
        let first = (lba / slot) as u32;
        let end = (lba + sectors).div_ceil(slot).min(u64::from(first) + MAX_TOUCH as u64) as u32;
        let mapped = self.map.look_up(first).is_some();
        let same = |logical: &u32| self.map.look_up(*logical).is_some() == mapped;
        let run = (first..end).take_while(same).count() as u64;
        (mapped, ((u64::from(first) + run) * slot - lba).min(sectors))
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
        let writing = self.fills.iter().filter(|fill| fill.step != Step::Idle);
        let slots: u64 = writing.clone().map(|fill| u64::from(fill.count())).sum();
        let used = self.map.mapped() + self.journal.retiring() as u64 + slots;
        self.pages.check(used, writing.count())
    }

    fn power_off(&mut self) {
        self.requests.void();
        for fill in &mut self.fills {
            if let Some(payload) = fill.buffer.take() {
                payload.void();
            }
        }
    }
}

//! The LBA scrambler: writes go to pages in the drive's next victim, so that its victims empty
//! themselves.
//!
//! Source: the LBA scrambler of Chuo University (see `hostftl paper scrambler`); the crash protocol
//! is this project's.
//!
//! The map is by slot, a part of a page. A [`fill`] writes any number of unused slots of one of the
//! [`pages`]. For the drive this overwrites the page, so its old copy in the victim becomes
//! invalid. Changes of the [`space`] go through the [`journal`], whose [`round`]s make them
//! durable. A [`checkpoint`] shortens the log.
//!
//! Invariants
//! - Writes and trims start in the order of arrival. A write is acknowledged when the device has
//!   completed it and the map points at it.
//! - A step touches at most `MAX_TOUCH` map entries and produces at most `MAX_OUTPUTS` outputs.

mod checkpoint;
mod fill;
mod hint;
mod journal;
mod layout;
mod map;
mod ops;
mod pages;
pub(crate) mod params;
mod read;
mod recovery;
pub(crate) mod register;
mod request;
mod round;
mod space;
mod write;

use alloc::vec::Vec;

use hostftl_core::{Command, DeviceError, DeviceInfo, Event, MAX_TOUCH, Payload, Request};

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::shell::Ended;
use crate::kit::{Core, Shell};
use crate::planted::{Bug, planted};
use checkpoint::Checkpoint;
use hint::Hint;
use journal::Journal;
use layout::Layout;
use map::Map;
use ops::{Cx, OPS, OWN_OPS, Op};
use pages::Pages;
use recovery::Recovery;
use round::Ring;
use space::Space;
use write::Writes;

/// Maximum number of pages being discarded.
const MOST_DISCARDS: u32 = 4;

/// The layer `scrambler`.
pub(crate) type Scrambler = Shell<Engine>;

/// The engine of `scrambler`.
#[derive(Debug)]
pub(crate) struct Engine {
    layout: Layout,
    space: Space,
    writes: Writes,
    hint: Hint,
    ring: Ring,
    checkpoint: Checkpoint,
    recovery: Option<Recovery>,
    told_full: bool,
}

impl Scrambler {
    /// Returns the resources that the layer needs over the single device in `devices`.
    ///
    /// # Errors
    /// If the device or the parameters do not fit the layer.
    pub(crate) fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = Layout::new(&config.scrambler, config.spare_permille, devices)?;
        let slots = u64::from(layout.count) * u64::from(layout.per_page);
        let meta = Pages::memory(layout.count.into()) + Journal::memory(slots);
        Ok(layout.plan(Map::memory(layout.slots.into(), slots), meta))
    }

    /// Creates the layer; `buffers` are used by its fills.
    ///
    /// # Errors
    /// As [`Scrambler::plan`].
    pub(crate) fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = Layout::new(&config.scrambler, config.spare_permille, devices)?;
        let uuid = config.uuid;
        let engine = Engine {
            layout,
            space: Space::new(&layout, &config.scrambler),
            writes: Writes::new(&layout, buffers),
            hint: Hint::new(config.scrambler.refresh),
            ring: Ring::new(uuid),
            checkpoint: Checkpoint::new(&layout, uuid),
            recovery: Some(Recovery::new(&layout, uuid, mode)),
            told_full: false,
        };
        Ok(Shell::over(engine, Self::plan(config, devices)?, OPS, config.patience()))
    }

    /// Returns the number of pages chosen by each rule: unwritten, in the device's next victim, and
    /// with the fewest used slots.
    pub(crate) fn rules(&self) -> [u64; 3] {
        self.core().writes.rules()
    }
}

impl Engine {
    /// Starts a checkpoint if the log is long, or advances the one in progress.
    fn pump_checkpoint(&mut self, cx: &mut Cx) -> bool {
        let due =
            self.checkpoint.is_idle() && self.ring.is_long(self.checkpoint.root(), &self.layout);
        if due {
            self.checkpoint.begin(self.ring.next());
        }
        due || self.checkpoint.pump(&self.space, &self.layout, cx)
    }

    fn pump_round(&mut self, cx: &mut Cx) -> bool {
        let root = self.checkpoint.root();
        self.ring.pump(self.space.journal_mut(), root, &self.layout, cx)
    }

    fn pump_released(&mut self, cx: &mut Cx) -> bool {
        let released = self.space.release();
        cx.touch(released);
        released > 0
    }

    /// Discards a page whose data was all trimmed.
    fn pump_discards(&mut self, cx: &mut Cx) -> bool {
        let may = cx.is_running() && cx.commands_left() > OWN_OPS;
        let pages = self.space.pages_mut();
        if !may || pages.discarding() >= MOST_DISCARDS {
            return false;
        }
        let Some(page) = pages.discard_next() else { return false };
        let (lba, sectors) = (self.layout.data_at(page), self.layout.page.into());
        cx.submit(Op::Discard { page }, Command::Reset { device: 0, lba, sectors });
        true
    }

    /// Handles the completion of a checkpoint's flush. After the first root the volume is open.
    fn root_flushed(&mut self, ok: bool, cx: &mut Cx) {
        let durable = self.checkpoint.flushed(&self.space, &self.layout, ok, cx);
        if let Some(recovery) = self.recovery.take_if(|_| durable) {
            let (replayed, dropped) = recovery.found();
            cx.become_ready(replayed, dropped);
        }
    }

    fn recovery(&mut self) -> &mut Recovery {
        self.recovery.as_mut().expect("the volume is being recovered")
    }
}

impl Core for Engine {
    type Op = Op;
    type Mark = u64;
    const ROUND_OUTPUTS: usize = 42;

    fn accept(&mut self, request: Request, cx: &mut Cx) {
        request::accept(&mut self.space, request, cx);
    }

    fn done(&mut self, op: Op, command: Command, ended: Ended, cx: &mut Cx) {
        let full = ended == Err(DeviceError::NoSpace) && planted(Bug::NoSpaceIsDone);
        let ok = ended.is_ok() || full;
        if let Err(error) = ended
            && op != Op::Hint
            && !full
        {
            cx.counters().device_errors += 1;
            // This includes the flush of recovery: without it, data read later may not be durable.
            let lasting = op.changes_media() || matches!(command, Command::Flush { .. });
            if error == DeviceError::Removed || lasting {
                cx.fail(0, error, false);
            }
        }
        let space = &mut self.space;
        match op {
            Op::Read { .. } | Op::Zero { .. } => read::done(space, op, command, ok, cx),
            Op::Merge { .. } | Op::Old { .. } | Op::Data { .. } | Op::Program { .. } => {
                self.writes.done(op, command, ok, space, cx);
            }
            Op::RoundFlush => self.ring.flushed(space.journal_mut(), ok),
            Op::Log => self.ring.written(space.journal_mut(), command, ok, cx),
            Op::Hint => self.hint.answered(command, ended, &self.layout, space.pages_mut()),
            Op::Discard { page } => space.pages_mut().discarded(page),
            Op::Image { buf } => self.checkpoint.image_written(buf, command),
            Op::RootFlush => self.root_flushed(ok, cx),
            Op::Root { copy } => self.checkpoint.root_written(copy, command, cx),
            Op::Recover { index } => self.recovery().done(index, command, ok),
        }
    }

    fn start(&mut self, cx: &mut Cx) -> bool {
        let recovery = self.recovery.as_mut().expect("the volume is being recovered");
        recovery.pump(&mut self.space, &mut self.ring, &mut self.checkpoint, cx)
    }

    /// Advances one part only, so that the outputs of a round are bounded.
    fn run(&mut self, cx: &mut Cx) -> bool {
        let demanded = self.space.journal().demanded();
        let moved = self.writes.pump_fills(&mut self.space, cx)
            || read::pump(&mut self.space, &self.layout, cx)
            || self.pump_released(cx)
            || self.writes.pump(&mut self.space, &mut self.hint, cx)
            || self.hint.pump(cx)
            || self.pump_discards(cx)
            || self.pump_round(cx)
            || self.pump_checkpoint(cx)
            || request::answer_durable(&self.space, cx);
        moved || demanded != self.space.journal().demanded()
    }

    /// Ends the layer once everything is durable.
    fn stop(&mut self, cx: &mut Cx) -> bool {
        let journal = self.space.journal_mut();
        let demanded = journal.demanded();
        journal.demand(journal.published());
        let settled = journal.durable() == journal.published();
        if settled && cx.is_quiet() && self.checkpoint.is_idle() {
            cx.stopped();
        }
        demanded != self.space.journal().demanded()
    }

    fn wind_down(&mut self, cx: &mut Cx) -> bool {
        self.writes.pump_fills(&mut self.space, cx)
            | read::pump(&mut self.space, &self.layout, cx)
            | self.writes.pump(&mut self.space, &mut self.hint, cx)
    }

    fn after_step(&mut self, cx: &mut Cx) {
        let full = self.space.map().mapped() == u64::from(self.layout.slots);
        if full && !self.told_full {
            cx.report(Event::Full);
        }
        self.told_full = full;
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        let slot = u64::from(self.layout.slot);
        let map = self.space.map();
        let first = (lba / slot) as u32;
        let end = (lba + sectors).div_ceil(slot).min(u64::from(first) + MAX_TOUCH as u64) as u32;
        let mapped = map.lookup(first).is_some();
        let same = |logical: &u32| map.lookup(*logical).is_some() == mapped;
        let run = (first..end).take_while(same).count() as u64;
        (mapped, ((u64::from(first) + run) * slot - lba).min(sectors))
    }

    fn has_fast_zeroes(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), &'static str> {
        let (slots, writing) = self.writes.taken();
        self.space.check(slots, writing)
    }

    fn power_off(&mut self) {
        self.writes.void();
    }
}

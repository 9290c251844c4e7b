//! Engine of the layers that gather small writes into virtual superpages: staging, the map log,
//! checkpoints and recovery. A [`Scheme`] supplies the map and the garbage collection.
//!
//! A host write takes slots in the [`stage`] that is being filled, is copied there, and is
//! published in the [`table`] when the copy is complete. A stage that is full, or that a flush
//! needs, is checksummed, listed in the [`log`] and programmed. A flush is acknowledged when a log
//! write that covers it has settled and the device has been flushed since. Checkpoints write
//! changed map groups in rotation, each only after the log entries behind it are durable. A root
//! then marks the point at which replay starts. A scheme whose sectors have a home may also write
//! in place: see [`direct`].
//!
//! The state that changes together when a sector moves is in the [`area`], which is independent of
//! the scheme.
//!
//! Invariants
//! - Requests that write or trim are started in the order of arrival.
//! - A superpage in limbo becomes free only when a durable log write covers the moment at which it
//!   became empty, and no read of it is in flight.
//! - A superpage with log pages is pinned until a durable root no longer needs them.
//! - A step touches at most `MAX_TOUCH` map entries and produces at most `MAX_OUTPUTS` outputs.

pub(crate) mod area;
mod checkpoint;
pub(crate) mod collect;
pub(crate) mod direct;
mod durability_requests;
mod free_list;
mod heads;
pub(crate) mod homing;
pub(crate) mod layout;
pub(crate) mod leaves;
pub(crate) mod limbo;
pub(crate) mod log;
mod nodes;
pub(crate) mod numbers;
mod obsolete_images;
pub(crate) mod ops;
mod parts;
pub(crate) mod pool;
pub(crate) mod queue;
mod records;
mod recovery;
mod replay;
mod request;
pub(crate) mod scheme;
pub(crate) mod stage;
mod stages;
pub(crate) mod table;
mod verify;
mod write_in;
pub(crate) mod write_out;

use alloc::vec::Vec;

use hostftl_core::{
    ArrayVec, Command, DeviceError, DeviceInfo, Event, MAX_TOUCH, Payload, Request,
};

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::shell::Ended;
use crate::kit::{Core, Life, Shell};
use crate::planted::{Bug, planted};
pub(crate) use area::Area;
use layout::STAGES;
use log::Mark;
use ops::{OPS, Op};
use pool::Pool;
use recovery::Recovery;
pub(crate) use scheme::{CxOf, Scheme};
pub(crate) use table::Table;

/// An engine: an area, its scheme, and the recovery until the volume is open.
#[derive(Debug)]
pub(crate) struct Machine<S: Scheme> {
    area: Area<S::Table>,
    scheme: S,
    recovery: Option<Recovery>,
    told_full: bool,
}

impl<S: Scheme> Shell<Machine<S>> {
    /// Returns the resources that the layer needs over `devices`, which must be exactly one.
    pub(crate) fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = S::layout(config, devices)?;
        let meta_bytes = Area::<S::Table>::meta_bytes(&layout) + S::meta_bytes(config, &layout);
        Ok(layout.plan(S::buffers(), S::map_bytes(config, &layout), meta_bytes))
    }

    /// Creates the layer. The first [`STAGES`] of `buffers` become stages, the rest go to the
    /// scheme.
    pub(crate) fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        mut buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = S::layout(config, devices)?;
        let own = buffers.split_off(STAGES as usize);
        let parts = (S::table(config, &layout), Pool::new(&layout, S::WEIGHS, devices[0].discard));
        // Without merging, the drive would complete the indirection unit of each part by itself.
        let is_protected = devices[0].merges && !devices[0].volatile_cache;
        let machine = Machine {
            area: Area::new((layout, config.uuid), parts, buffers, is_protected),
            scheme: S::new(config, &layout, own.into_iter()),
            recovery: Some(Recovery::new(config, &layout, mode)),
            told_full: false,
        };
        Ok(Shell::over(machine, Self::plan(config, devices)?, OPS, config.patience()))
    }
}

impl<S: Scheme> Machine<S> {
    /// Advances the first read, and the first write or trim, by one run each.
    fn pump_requests(&mut self, cx: &mut CxOf<S>) -> bool {
        self.area.pump_read(cx) | self.pump_write(cx)
    }

    fn pump_write(&mut self, cx: &mut CxOf<S>) -> bool {
        let Some(req) = cx.requests().first_write() else { return false };
        let healthy = cx.is_good();
        let moved = healthy && self.scheme.pump_write(&mut self.area, req, cx);
        // After a failure the rest of the request is never started; it ends with the volume's
        // error.
        if healthy && !cx.request(req).is_begun() {
            return moved;
        }
        cx.requests().end_write();
        self.area.complete_if_over(req, cx);
        true
    }

    // The order is from the host towards the media: sealing sees the slots of this round, and a
    // flush the log writes of this round.
    fn pump_running(&mut self, cx: &mut CxOf<S>) -> bool {
        let mut moved = self.pump_requests(cx);
        moved |= self.scheme.pump_homing(&mut self.area, cx);
        moved |= self.area.pump_seal(cx);
        moved |= self.area.pump_commit(cx);
        moved |= self.scheme.pump_collection(&mut self.area, cx);
        moved |= self.area.pump_kills();
        moved |= self.area.pump_checkpoint(cx);
        moved |= self.area.pump_flush(cx);
        moved |= self.area.pump_limbo(cx);
        self.note_full(cx);
        moved | self.area.answer_durable(cx)
    }

    /// Closes the layer when everything is durable and the root needs no replay.
    fn pump_stop(&mut self, cx: &mut CxOf<S>) -> bool {
        let durable = self.area.request_all();
        if !durable || self.scheme.is_collecting() {
            return false;
        }
        // A checkpoint comes last: it is current only if nothing is logged after it.
        if !self.area.is_checkpointed() {
            return self.area.hurry_checkpoint();
        }
        let over = cx.is_quiet();
        if over {
            cx.stopped();
        }
        over
    }

    /// Reports once that every exported sector is mapped.
    fn note_full(&mut self, cx: &mut CxOf<S>) {
        let full = self.area.is_full();
        if full && !self.told_full && cx.is_running() {
            cx.report(Event::Full);
        }
        self.told_full = full;
    }

    /// Returns whether a round made progress. A new durability request counts as progress: another
    /// part may act on it in the next round.
    fn makes_progress(&mut self, round: impl FnOnce(&mut Self) -> bool) -> bool {
        let requests = self.area.durability_requests();
        round(self) || requests != self.area.durability_requests()
    }
}

impl<S: Scheme> Core for Machine<S> {
    type Op = Op<<S::Table as Table>::Op>;
    type Mark = Mark;
    const ROUND_OUTPUTS: usize = 24;

    fn accept(&mut self, request: Request, cx: &mut CxOf<S>) {
        self.area.take_in(request, cx);
    }

    fn done(&mut self, op: Self::Op, command: Command, ended: Ended, cx: &mut CxOf<S>) {
        let ignored = matches!(op, Op::Log { .. }) && planted(Bug::MapWriteIgnored)
            || matches!(op, Op::Flush { .. }) && planted(Bug::FailedFlushBelieved)
            || matches!(op, Op::Recover { .. }) && planted(Bug::FirstFlushIgnored);
        if let Err(error) = ended {
            cx.counters().device_errors += 1;
            // A failed flush of recovery also counts: data read afterwards may not be on the
            // medium.
            let lasting = op.changes_media() || matches!(command, Command::Flush { .. });
            if (error == DeviceError::Removed || lasting) && !ignored {
                cx.fail(0, error, false);
            }
        }
        let (area, ok) = (&mut self.area, ended.is_ok());
        match op {
            Op::Read { .. } | Op::Copy { .. } | Op::Zero { .. } | Op::Home { .. } => {
                area.read_done(op, command, ok, cx);
            }
            Op::Place { req, stage, lsn, slot, len } => {
                area.placed(req, stage, (lsn, slot, len), command, cx);
            }
            Op::Collect { stage, from, slot, len } => {
                let collection = self.scheme.collection().expect("the layer has a collection");
                collection.collected(area, stage, (from, slot, len), command, ok, cx);
            }
            Op::Own(own) => self.scheme.done(area, own, command, ok, cx),
            Op::Digest { stage } => area.digested(stage, command, ended),
            Op::Program { stage, serial } => area.programmed(stage, serial, command, ok),
            Op::Part { stage, serial } => parts::programmed(area, stage, serial, command, ok),
            Op::Log { vsp, serial } => area.log_written(vsp, serial, command, ok || ignored),
            Op::Flush { settled } => area.flushed((ok || ignored).then_some(settled)),
            Op::Discard { vsp } => area.discarded(vsp),
            Op::Image { slot } => area.checkpoint.image_written(slot, command),
            Op::Forget => area.checkpoint.image_forgotten(),
            Op::Root { copy } => area.checkpoint.root_written(copy, command),
            Op::Recover { index } => {
                let recovery = self.recovery.as_mut().expect("the volume is being recovered");
                recovery.recovery_done(area, index, command, ended, cx);
            }
        }
    }

    fn start(&mut self, cx: &mut CxOf<S>) -> bool {
        self.makes_progress(|machine| {
            let recovery = machine.recovery.as_mut().expect("the volume is being recovered");
            let moved = recovery.pump_recovery(&mut machine.area, cx);
            if cx.is_running() {
                machine.recovery = None;
            }
            moved
        })
    }

    fn run(&mut self, cx: &mut CxOf<S>) -> bool {
        let stops = cx.life() == Life::Stopping;
        self.makes_progress(|machine| machine.pump_running(cx) | (stops && machine.pump_stop(cx)))
    }

    fn stop(&mut self, _cx: &mut CxOf<S>) -> bool {
        false // Stopping is part of each round of `run`.
    }

    fn wind_down(&mut self, cx: &mut CxOf<S>) -> bool {
        let moved = self.pump_requests(cx);
        moved | (!cx.is_good() && self.scheme.release_waiting(&mut self.area, cx))
    }

    fn check(&self) -> Result<(), &'static str> {
        self.area.check()
    }

    fn power_off(&mut self) {
        self.scheme.void();
        self.area.void();
    }

    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        self.scheme.facts(&self.area)
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        self.area.mapped(lba, sectors.min(MAX_TOUCH as u64))
    }

    fn has_fast_zeroes(&self) -> bool {
        true
    }
}

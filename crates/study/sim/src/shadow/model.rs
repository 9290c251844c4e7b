//! A candidate on one class of the sample: a layer on a slice of the drive, with the counting
//! clock.

use hostftl_core::{Layer, Limits};
use hostftl_drives::{Clock, Device};
use hostftl_layers::{AnyLayer, Mode};
use hostftl_trace::{Op, Record};

use crate::costs::{HostCosts, payload_name};
use crate::error::Violation;
use crate::front::{self, Totals};
use crate::layer_spec::LayerSpec;
use crate::media::Media;
use crate::stack::Stack;
use crate::world::World;

/// Maximum number of requests in progress, as in a counted study.
const DEPTH: u64 = 32;
/// Bytes of a model besides the tables of the drive and of the layer: queues of the world.
const FIXED: u64 = 1 << 18;
/// Bytes that a drive counts besides its tables, mostly for code.
const CODE: u64 = 1 << 20;

/// Sectors written at each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sectors {
    /// By the host.
    pub host: u64,
    /// By the layer to the drive.
    pub sent: u64,
    /// By the drive to the flash.
    pub programmed: u64,
}

impl Sectors {
    pub(super) fn since(self, before: Sectors) -> Sectors {
        Sectors {
            host: self.host - before.host,
            sent: self.sent - before.sent,
            programmed: self.programmed - before.programmed,
        }
    }
}

/// A layer over a slice of the drive.
pub(super) struct Model {
    world: World<AnyLayer, Device>,
    limits: Limits,
    asked: Totals,
    answered: u64,
}

impl Model {
    /// Creates the layer on an empty slice.
    pub(super) fn new(layer: &LayerSpec, stack: &Stack, exported: u64) -> Result<Self, String> {
        let plan = layer.plan(&stack.infos(), stack.map_unit()).map_err(|why| why.to_string())?;
        if plan.limits.exported < exported {
            let percent = 100.0 * plan.limits.exported as f64 / stack.sectors() as f64;
            return Err(format!("the layer can export at most {percent:.0} % of the drive"));
        }
        let drives = layer.devices(stack).iter().map(|it| it.device()).collect::<Result<_, _>>();
        let drives: Vec<Device> = drives.map_err(|why| why.to_string())?;
        let made = layer.make(stack, &plan, Mode::Format).map_err(|why| why.to_string())?;
        let media = layer.reads_metadata().then(Media::default);
        let world = World::over(made, drives, media, HostCosts::default());
        let mut world = world.map_err(|why| why.to_string())?;
        world.drain().map_err(|why| why.to_string())?;
        world.set_clock(Clock::Counts);
        let limits = world.layer().limits();
        Ok(Model { world, limits, asked: Totals::default(), answered: 0 })
    }

    /// Returns the memory of a model in bytes, or 0 if the layer can't run.
    pub(super) fn memory(layer: &LayerSpec, stack: &Stack) -> u64 {
        let Ok(plan) = layer.plan(&stack.infos(), stack.map_unit()) else { return 0 };
        let tables = layer.devices(stack).into_iter().map(|it| it.memory().saturating_sub(CODE));
        let drives: u64 = tables.sum();
        FIXED + drives + plan.map_bytes + plan.meta_bytes
    }

    /// Processes a request.
    ///
    /// # Errors
    /// A violation by the layer or the drive.
    pub(super) fn request(&mut self, record: &Record) -> Result<(), Violation> {
        let Record { op, lba, sectors, saved, .. } = *record;
        let (mut at, end) = (lba, lba + sectors);
        loop {
            let cut = match op {
                Op::Read | Op::Write => self.limits.next_cut(at, end),
                Op::Flush | Op::Discard => end,
            };
            let transfer = if op == Op::Write { (cut - at) as u32 } else { 0 };
            self.wait(transfer)?;
            self.asked.issued += 1;
            match op {
                Op::Write => self.asked.written_sectors += cut - at,
                Op::Flush => self.asked.flushes += 1,
                Op::Read | Op::Discard => {}
            }
            let payload = payload_name(self.asked.issued, saved);
            self.world.send(front::request(0, payload, op, at, cut - at))?;
            at = cut;
            if at >= end {
                return Ok(());
            }
        }
    }

    /// Waits until the layer accepts a request that transfers `sectors` sectors.
    fn wait(&mut self, sectors: u32) -> Result<(), Violation> {
        loop {
            while let Some(answer) = self.world.answer() {
                answer.result.map_err(|error| Violation::Request { lba: 0, error })?;
                self.answered += 1;
            }
            let (credits, waiting) = (self.world.credits(), self.asked.issued - self.answered);
            if waiting < DEPTH && credits.requests > 0 && credits.sectors >= sectors {
                return Ok(());
            }
            if !self.world.advance()? {
                return Err(Violation::Stall { now: self.world.now(), outstanding: waiting });
            }
        }
    }

    /// Returns the sectors written so far.
    pub(super) fn written(&self) -> Sectors {
        let sent = self.world.sent_to.iter().flatten().sum();
        let programmed = self.world.sample().programmed;
        Sectors { host: self.asked.written_sectors, sent, programmed }
    }

    /// Stops the layer and checks the conservation laws.
    #[cfg(test)]
    pub(super) fn check(mut self) -> Result<(), Violation> {
        self.world.stop()?;
        crate::conserve::check(&self.world, &self.asked)
    }
}

/// Returns the sectors that a layer can export on `stack`, or `None` if it can't run there.
pub(super) fn exported(layer: &LayerSpec, stack: &Stack) -> Option<u64> {
    Some(layer.plan(&stack.infos(), stack.map_unit()).ok()?.limits.exported)
}

/// Returns the layer with its automatic parameters chosen for `stack`, of which `exported` sectors
/// are used, and for writes of multiples of `grain` sectors.
pub(super) fn suited(layer: &LayerSpec, stack: &Stack, grain: u32, exported: u64) -> LayerSpec {
    let suited = layer.suited(grain, stack.map_unit());
    suited.spared(&stack.infos(), stack.map_unit(), Some(exported)).sliced(stack)
}

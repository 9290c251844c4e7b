//! One row of a study: one workload through one layer on one drive.

use hostftl_core::Payload;
use hostftl_drives::DriveSpec;
use hostftl_layers::{AnyLayer, Mode, Plan};

use crate::choice::LayerChoice;
use crate::conserve;
use crate::costs::HostCosts;
use crate::error::{StudyError, Violation};
use crate::front::Front;
use crate::load::Loaded;
use crate::player::{End, Pace, PlayError, Player};
use crate::row::{Row, Run};
use crate::study::{Study, Watch};
use crate::warm::warm;
use crate::work::Work;
use crate::world::World;

/// Bytes that every row takes besides drive and map: queues, histograms, the series.
const OWN_MEMORY: u64 = 8 << 20;

/// What a row is about.
pub struct Cell<'a> {
    pub study: &'a Study,
    pub index: usize,
    pub name: &'a str,
    pub load: &'a Loaded,
    pub drive: &'a DriveSpec,
    pub layer: &'a LayerChoice,
    pub plan: Plan,
    /// Sectors that the host may use.
    pub exported: u64,
}

impl Cell<'_> {
    /// Bytes of memory that the row takes, at most.
    pub fn memory(&self) -> u64 {
        OWN_MEMORY + self.drive.memory() + self.plan.map_bytes
    }

    /// That the row takes `needed` bytes where there are `limit`.
    pub fn too_large(&self, needed: u64, limit: u64) -> StudyError {
        let (layer, drive) = (self.layer.name.clone(), self.drive.name.clone());
        let (needed, limit) = (needed.div_ceil(1 << 20), limit >> 20);
        StudyError::Memory { layer, drive, needed, limit }
    }

    /// `violation` with the names that the user knows.
    fn broken(&self, violation: Violation) -> StudyError {
        PlayError::from(violation).named(&self.layer.name, &self.drive.name)
    }

    fn failed(&self, error: PlayError) -> StudyError {
        error.named(&self.layer.name, &self.drive.name)
    }

    /// The layer over a new drive.
    fn world(&self) -> Result<World<AnyLayer>, StudyError> {
        let (config, devices) = (self.layer.on(self.drive), [self.drive.device_info()]);
        let plan = &self.plan;
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
        let layer = AnyLayer::new(&config, &devices, buffers, Mode::Format).map_err(|why| {
            let (layer, drive) = (self.layer.name.clone(), self.drive.name.clone());
            StudyError::Plan { layer, drive, why: why.to_string() }
        })?;
        World::new(layer, std::slice::from_ref(self.drive), HostCosts::default())
            .map_err(|violation| self.broken(violation))
    }
}

/// Makes the row; nothing when it was to stop before its workload began.
///
/// # Errors
/// A trace that can't be read again, or a broken law.
pub fn run(
    cell: &Cell,
    watch: &dyn Watch,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Row>, StudyError> {
    let (study, index, total) = (cell.study, cell.index, cell.load.records);
    let broken = |violation| cell.broken(violation);
    let mut world = cell.world()?;
    let unit = cell.drive.map_unit;
    let warmed = warm(&mut world, study.warm, cell.exported, unit, study.seed, &mut || {
        watch.warming(index);
        stop()
    })
    .map_err(broken)?;
    if warmed.cancelled {
        return Ok(None);
    }
    world.drain().map_err(broken)?;
    let (before, start) = (Work::of(&world), world.now());
    let mut front = Front::new(&world);
    let pace = study.closed_loop.map_or(Pace::Trace, Pace::Closed);
    let mut player = Player::new(cell.load.open()?, pace, start);
    let end = player.play(&mut world, &mut front, |done| {
        watch.progress(index, done, total);
        stop()
    });
    let (end, saturated) = (end.map_err(|error| cell.failed(error))?, player.saturated);
    world.drain().map_err(broken)?;
    front.finish(&world);
    let work = Work::of(&world).since(&before);
    if study.closed_loop.is_some() {
        front.little().check().map_err(broken)?;
    }
    let run = Run {
        cell,
        front: &front,
        work: &work,
        warmed,
        start,
        saturated,
        partial: end == End::Cancelled,
    };
    let row = Row::new(&run, &world).map_err(broken)?;
    world.stop().map_err(broken)?;
    let mut asked = warmed.asked;
    asked += front.totals();
    conserve::check(&world, cell.drive, &asked).map_err(broken)?;
    watch.progress(index, total, total);
    Ok(Some(row))
}

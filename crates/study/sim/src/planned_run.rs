//! A combination that can run: its plan, its memory, and its preconditioned world.

use hostftl_drives::Device;
use hostftl_layers::{AnyLayer, Mode, Plan};

use crate::conserve;
use crate::costs::HostCosts;
use crate::error::{StudyError, Violation};
use crate::front::Totals;
use crate::media::Media;
use crate::player::PlayError;
use crate::run_spec::RunSpec;
use crate::snapshot;
use crate::study::Watch;
use crate::warm::{Ageing, Records, Warmed, warm};
use crate::world::World;

/// A world with the record of its preconditioning.
pub(crate) type Aged = (World<AnyLayer, Device>, Warmed);

/// Bytes of each row besides drive and map: queues, histograms and the time series.
const OWN_MEMORY: u64 = 8 << 20;

/// A combination with its plan.
pub(crate) struct PlannedRun<'a> {
    pub spec: RunSpec<'a>,
    pub index: usize,
    pub plan: Plan,
    /// Sectors exported to the host.
    pub exported: u64,
}

impl<'a> std::ops::Deref for PlannedRun<'a> {
    type Target = RunSpec<'a>;

    fn deref(&self) -> &RunSpec<'a> {
        &self.spec
    }
}

impl PlannedRun<'_> {
    /// Returns an upper bound of the memory of the row, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        // A world that is saved or loaded keeps its metadata: the map, the log and the roots. On
        // raw drives the layer reads the lists of its segments back, so that metadata is kept too.
        let kept = match self.study.cache {
            None if !self.stack.is_raw() => 0,
            _ => 2 * self.plan.map_bytes + OWN_MEMORY,
        };
        let layer = self.plan.map_bytes + self.plan.meta_bytes;
        let drives = self.layer.devices(self.stack);
        OWN_MEMORY + drives.iter().map(|it| it.memory()).sum::<u64>() + layer + kept
    }

    /// Returns whether other rows are compared with this one.
    pub(crate) fn is_baseline(&self) -> bool {
        self.layer.base().is_some()
    }

    /// Returns the number of dies of all drives.
    pub(crate) fn dies(&self) -> u32 {
        self.layer.devices(self.stack).iter().map(|it| it.dies()).sum()
    }

    /// Returns the error for a row that needs `needed` bytes where only `limit` bytes are
    /// available.
    pub(crate) fn too_large(&self, needed: u64, limit: u64) -> StudyError {
        let (layer, drive) = (self.layer.name.clone(), self.stack.name.clone());
        let (needed, limit) = (needed.div_ceil(1 << 20), limit >> 20);
        StudyError::Memory { layer, drive, needed, limit }
    }

    /// Adds the names of the layer and the drive to a violated law.
    pub(crate) fn broken(&self, violation: Violation) -> StudyError {
        PlayError::from(violation).named(&self.layer.name, &self.stack.name)
    }

    /// Adds the names of the layer and the drive to a failed replay.
    pub(crate) fn failed(&self, error: PlayError) -> StudyError {
        error.named(&self.layer.name, &self.stack.name)
    }

    /// Returns the layer, on an empty drive or on one that holds its volume, according to `mode`.
    fn layer(&self, mode: Mode) -> Result<AnyLayer, StudyError> {
        self.suited().make(self.stack, &self.plan, mode).map_err(|why| {
            let (layer, drive) = (self.layer.name.clone(), self.stack.name.clone());
            StudyError::Plan { layer, drive, why: why.to_string() }
        })
    }

    /// Returns the preconditioned world, from the cache if possible; `None` if `stop` requested an
    /// end first.
    pub(crate) fn world(
        &self,
        watch: &dyn Watch,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Aged>, StudyError> {
        let Some(folder) = self.study.cache.as_deref().filter(|_| !self.warm.is_new()) else {
            return self.aged(None, watch, stop);
        };
        let about = self.about();
        let path = folder.join(snapshot::name(&self.stack.name, &self.layer.name, &about));
        if !path.exists() {
            let aged = self.aged(Some(Media::default()), watch, stop)?;
            let Some((mut world, warmed)) = aged else { return Ok(None) };
            world.stop().map_err(|violation| self.broken(violation))?;
            self.check(&world, &warmed.asked)?;
            snapshot::save(&world, &warmed, &about, &path)?;
        }
        let drives = self.layer.devices(self.stack);
        // Even a world that was just aged is loaded from its file, so that rows do not depend on
        // the state of the cache.
        let (drives, media, warmed) = snapshot::load(&drives, &about, self.warm, &path)?;
        let layer = self.layer(Mode::Open)?;
        let world = World::over(layer, drives, Some(media), HostCosts::default());
        Ok(Some((world.map_err(|violation| self.broken(violation))?, warmed)))
    }

    /// Preconditions a new world as the study specifies.
    fn aged(
        &self,
        media: Option<Media>,
        watch: &dyn Watch,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Aged>, StudyError> {
        let broken = |violation| self.broken(violation);
        let drives = self.layer.devices(self.stack);
        let drives = drives.iter().map(|it| it.device()).collect::<Result<Vec<_>, _>>();
        let drives = drives.map_err(|why| broken(Violation::Drive(why.to_string())))?;
        let layer = self.layer(Mode::Format)?;
        let reads = self.layer.reads_metadata();
        let media = media.or_else(|| reads.then(Media::default));
        let mut world = World::over(layer, drives, media, HostCosts::default()).map_err(broken)?;
        let ageing = Ageing {
            warm: self.warm,
            exported: self.exported,
            map_unit: self.stack.map_unit(),
            most_spans: self.study.most_spans,
            seed: self.study.seed,
            compress: self.load.compressibility(),
            workload: &|| Ok(Box::new(self.load.open()?) as Records),
        };
        let warmed = warm(&mut world, &ageing, &mut |share| {
            watch.warming(self.index, share);
            stop()
        });
        let warmed = warmed.map_err(|error| self.failed(error))?;
        world.drain().map_err(broken)?;
        Ok((!warmed.cancelled).then_some((world, warmed)))
    }

    /// Returns a text with everything that determines a snapshot of the stack.
    fn about(&self) -> String {
        let drives = self.layer.devices(self.stack);
        let (layer, seed) = (self.suited().about(self.stack), self.study.seed);
        let (workload, spans) = if self.warm.is_of_workload() {
            (self.load.digest(), self.study.most_spans)
        } else {
            (0, 0)
        };
        let (warm, exported) = (self.warm, self.exported);
        let compress = self.load.compressibility();
        format!(
            "{drives:?}\n{layer}\n{exported} sectors, {warm} {spans}, {seed}, {workload:x}, \
             {compress:?}"
        )
    }

    /// Checks the conservation laws of the run.
    pub(crate) fn check(
        &self,
        world: &World<AnyLayer, Device>,
        asked: &Totals,
    ) -> Result<(), StudyError> {
        conserve::check(world, asked).map_err(|violation| self.broken(violation))
    }
}

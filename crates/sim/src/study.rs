//! A comparison: one workload through several layers on the same drive.

use hostftl_core::{Layer, Payload, SECTOR};
use hostftl_drives::DriveSpec;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_trace::{Notes, Source, Summary};

use crate::conserve;
use crate::costs::HostCosts;
use crate::error::{StudyError, Violation};
use crate::front::Front;
use crate::player::{End, MOST_UNDER_WAY, Pace, PlayError, Player};
use crate::row::{Row, Run, ratio};
use crate::warm::{Warm, warm};
use crate::work::Work;
use crate::world::World;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Study {
    /// The requests.
    pub workload: Source,
    /// The drive, a new one for each row.
    pub drive: DriveSpec,
    /// A row for each.
    pub layers: Vec<LayerKind>,
    /// How the drive is aged first; this is not part of the row.
    pub warm: Warm,
    /// So many requests always under way, instead of the workload's own times.
    pub closed_loop: Option<u32>,
    /// Whether the workload's addresses are packed.
    pub compact: bool,
    /// Fixes everything that is random.
    pub seed: u64,
}

/// Who looks on.
pub trait Watch {
    /// Row `row`, from 0, has played `done` of `total` requests.
    fn progress(&mut self, row: usize, done: u64, total: u64);

    /// Row `row` is still ageing its drive.
    fn warming(&mut self, row: usize) {
        let _ = row;
    }

    /// What the reader of the workload noticed, before the first row.
    fn noticed(&mut self, notes: &Notes) {
        let _ = notes;
    }

    /// Whether to stop now.
    fn cancelled(&self) -> bool;
}

/// Looks on without a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Watch for Silent {
    fn progress(&mut self, _row: usize, _done: u64, _total: u64) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Runs a study, row after row. When it is cancelled, the rows so far are returned, and the one
/// that was under way is marked `partial`.
///
/// # Errors
/// A workload that can't be read or does not fit, a layer that can't work on the drive, or a broken
/// conservation law.
pub fn compare(study: &Study, watch: &mut dyn Watch) -> Result<Vec<Row>, StudyError> {
    if let Some(depth) = study.closed_loop
        && !(1..=MOST_UNDER_WAY).contains(&depth)
    {
        return Err(StudyError::QueueDepth(depth));
    }
    let mut exported = u64::MAX;
    for &kind in &study.layers {
        let device = study.drive.device_info();
        let plan = AnyLayer::plan(&config(study, kind), &[device])
            .map_err(|why| plan_error(study, kind, &why))?;
        exported = exported.min(plan.limits.exported);
    }
    let summary = study.workload.scan(study.seed, study.compact)?;
    watch.noticed(&summary.notes);
    fits(study, &summary, exported)?;
    let mut rows = Vec::new();
    for (index, &kind) in study.layers.iter().enumerate() {
        if watch.cancelled() {
            break;
        }
        rows.extend(run(study, kind, exported, &summary, index, watch)?);
    }
    let base = rows.iter().find(|row| row.layer == LayerKind::Passthrough.name() && !row.partial);
    if let Some(base) = base.map(|row| row.busy_ns.total()) {
        for row in rows.iter_mut().filter(|row| !row.partial) {
            row.busy_ratio = ratio(row.busy_ns.total(), base);
        }
    }
    Ok(rows)
}

fn config(study: &Study, kind: LayerKind) -> LayerConfig {
    LayerConfig { superpage: study.drive.superpage, ..LayerConfig::new(kind) }
}

fn plan_error(study: &Study, kind: LayerKind, why: &impl ToString) -> StudyError {
    let drive = study.drive.name.clone();
    StudyError::Plan { layer: kind.name(), drive, why: why.to_string() }
}

/// Refuses a workload that goes beyond what all rows export.
fn fits(study: &Study, summary: &Summary, exported: u64) -> Result<(), StudyError> {
    let workload = study.workload.to_string();
    let drive = study.drive.name.clone();
    let mib = |sectors: u64| (sectors * SECTOR as u64) >> 20;
    if summary.last_dev > 0 && !study.compact {
        return Err(StudyError::Devices { workload });
    }
    if summary.end <= exported {
        return Ok(());
    }
    let end = summary.end;
    Err(match study.compact {
        true => StudyError::TooLarge { workload, needed: mib(end), drive, mib: mib(exported) },
        false => StudyError::Beyond { workload, end, drive, exported, mib: mib(exported) },
    })
}

/// One row; nothing when it was cancelled before its workload began.
fn run(
    study: &Study,
    kind: LayerKind,
    exported: u64,
    summary: &Summary,
    index: usize,
    watch: &mut dyn Watch,
) -> Result<Option<Row>, StudyError> {
    let (layer, spec) = (kind.name(), &study.drive);
    let broken = |violation: Violation| PlayError::from(violation).named(layer, &spec.name);
    let failed = |error: PlayError| error.named(layer, &spec.name);
    let mut world = world(study, kind)?;
    let warmed = warm(&mut world, study.warm, exported, study.seed, &mut || {
        watch.warming(index);
        watch.cancelled()
    })
    .map_err(failed)?;
    if warmed.cancelled {
        return Ok(None);
    }
    world.drain().map_err(broken)?;
    let (before, start) = (Work::of(&world), world.now());
    let mut front = Front::new(world.layer().limits(), start);
    let mut stream = study.workload.open(study.seed, study.compact)?;
    let pace = study.closed_loop.map_or(Pace::Trace, Pace::Closed);
    let mut player = Player::new(&mut stream, pace, start);
    let end = player.play(&mut world, &mut front, |done| {
        watch.progress(index, done, summary.records);
        watch.cancelled()
    });
    let (end, saturated) = (end.map_err(failed)?, player.saturated);
    watch.progress(index, front.totals().issued, summary.records);
    world.drain().map_err(broken)?;
    let work = Work::of(&world).since(&before);
    if study.closed_loop.is_some() {
        front.little().check().map_err(broken)?;
    }
    let run = Run {
        spec,
        layer,
        front: &front,
        work: &work,
        warmed,
        start,
        exported,
        saturated,
        partial: end == End::Cancelled,
        widened: stream.widened(),
    };
    let row = Row::new(&run, &world).map_err(broken)?;
    world.stop().map_err(broken)?;
    let mut asked = warmed.asked;
    asked += front.totals();
    conserve::check(&world, spec, &asked).map_err(broken)?;
    Ok(Some(row))
}

/// A layer over a new drive.
fn world(study: &Study, kind: LayerKind) -> Result<World<AnyLayer>, StudyError> {
    let (config, devices) = (config(study, kind), [study.drive.device_info()]);
    let plan = AnyLayer::plan(&config, &devices).map_err(|why| plan_error(study, kind, &why))?;
    let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
    let layer = AnyLayer::new(&config, &devices, buffers, Mode::Format)
        .map_err(|why| plan_error(study, kind, &why))?;
    World::new(layer, std::slice::from_ref(&study.drive), HostCosts::default()).map_err(
        |violation| {
            let drive = study.drive.name.clone();
            StudyError::Violation { layer: kind.name(), drive, violation }
        },
    )
}

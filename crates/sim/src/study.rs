//! A comparison: workloads × drives × layers, a row for each.
//!
//! Invariants
//! - Rows are in the order of workloads, then drives, then layers, whatever the number of threads,
//!   and no row depends on another but for `busy_ratio`.
//! - The layers on one drive under one workload export the same: what the smallest exports.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use hostftl_core::SECTOR;
use hostftl_drives::DriveSpec;
use hostftl_layers::{AnyLayer, LayerKind, Plan};
use hostftl_trace::Notes;

use crate::cell::{self, Cell};
use crate::choice::LayerChoice;
use crate::error::StudyError;
use crate::load::{Load, Loaded};
use crate::player::MOST_UNDER_WAY;
use crate::row::{Row, ratio};
use crate::schedule;
use crate::warm::Warm;

/// The part of the memory limit that the workloads may take together: one in so many.
const LOADS_SHARE: u64 = 4;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Study {
    /// The requests.
    pub workloads: Vec<Load>,
    /// The drives, a new one for each row.
    pub drives: Vec<DriveSpec>,
    /// The layers.
    pub layers: Vec<LayerChoice>,
    /// How a drive is aged first; this is not part of the row.
    pub warm: Warm,
    /// Whether aged stacks are kept, or taken from where they were kept.
    pub snapshots: Snapshots,
    /// So many requests always under way, instead of the workload's own times.
    pub closed_loop: Option<u32>,
    /// Whether the workload's addresses are packed.
    pub compact: bool,
    /// Fixes everything that is random.
    pub seed: u64,
    /// Rows that are made at the same time, at most.
    pub threads: usize,
    /// Bytes of memory that all that is under way may take.
    pub memory: u64,
}

/// What happens with snapshots of aged stacks: a file for each drive and layer in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Snapshots {
    /// Nothing.
    #[default]
    None,
    /// They are saved, and then used as if they had been loaded.
    Save(PathBuf),
    /// They are loaded instead of ageing anything.
    Load(PathBuf),
}

/// Who looks on, from several threads.
pub trait Watch: Sync {
    /// Row `row`, from 0, has played `done` of `total` requests.
    fn progress(&self, row: usize, done: u64, total: u64);

    /// Row `row` is still ageing its drive.
    fn warming(&self, row: usize) {
        let _ = row;
    }

    /// What the reader of a workload noticed, before the first row.
    fn noticed(&self, notes: &Notes) {
        let _ = notes;
    }

    /// Whether to stop now.
    fn cancelled(&self) -> bool;
}

/// Looks on without a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Watch for Silent {
    fn progress(&self, _row: usize, _done: u64, _total: u64) {}

    fn cancelled(&self) -> bool {
        false
    }
}

impl Study {
    /// How many rows there will be.
    pub fn rows(&self) -> usize {
        self.workloads.len() * self.drives.len() * self.layers.len()
    }
}

/// Runs a study. When it is cancelled, the rows so far are returned, and those that were under way
/// are marked `partial`.
///
/// # Errors
/// A workload that can't be read or does not fit, a layer that can't work on a drive, too little
/// memory for one row, or a broken conservation law.
pub fn compare(study: &Study, watch: &dyn Watch) -> Result<Vec<Row>, StudyError> {
    if let Some(depth) = study.closed_loop
        && !(1..=MOST_UNDER_WAY).contains(&depth)
    {
        return Err(StudyError::QueueDepth(depth));
    }
    let plans = study.drives.iter().map(|drive| plans(study, drive));
    let plans = plans.collect::<Result<Vec<Vec<Plan>>, _>>()?;
    let loads = load(study, watch)?;
    if loads.iter().any(|load| load.cancelled) {
        return Ok(Vec::new());
    }
    let cells = cells(study, &plans, &loads)?;
    let left = study.memory - loads.iter().map(Loaded::bytes).sum::<u64>();
    let costs = cells.iter().map(|cell| cell.memory()).collect::<Vec<_>>();
    if let Some((cell, &needed)) = cells.iter().zip(&costs).find(|(_, cost)| **cost > left) {
        return Err(cell.too_large(needed, left));
    }
    let failed = AtomicUsize::new(usize::MAX);
    let results = schedule::run(&costs, left, study.threads, |index| {
        let stop = || watch.cancelled() || failed.load(Ordering::Relaxed) < index;
        let result = if stop() { Ok(None) } else { cell::run(&cells[index], watch, &stop) };
        if result.is_err() {
            failed.fetch_min(index, Ordering::Relaxed);
        }
        result
    });
    let rows = results.into_iter().collect::<Result<Vec<Option<Row>>, _>>()?;
    Ok(related(rows, study.layers.len()))
}

/// What each layer needs and gives on `drive`.
fn plans(study: &Study, drive: &DriveSpec) -> Result<Vec<Plan>, StudyError> {
    let plan = |layer: &LayerChoice| {
        AnyLayer::plan(&layer.on(drive), &layer.devices(drive)).map_err(|why| StudyError::Plan {
            layer: layer.name.clone(),
            drive: drive.name.clone(),
            why: why.to_string(),
        })
    };
    study.layers.iter().map(plan).collect()
}

/// Reads the workloads, each once.
fn load(study: &Study, watch: &dyn Watch) -> Result<Vec<Loaded>, StudyError> {
    let most = study.memory / LOADS_SHARE / study.workloads.len().max(1) as u64;
    let free = vec![0; study.workloads.len()];
    let loads = schedule::run(&free, 0, study.threads, |index| {
        let load = &study.workloads[index];
        Loaded::new(load, study.seed, study.compact, most, || watch.cancelled())
    });
    let loads = loads.into_iter().collect::<Result<Vec<_>, _>>()?;
    loads.iter().for_each(|load| watch.noticed(&load.notes));
    Ok(loads)
}

/// All rows to make, in their order.
fn cells<'a>(
    study: &'a Study,
    plans: &[Vec<Plan>],
    loads: &'a [Loaded],
) -> Result<Vec<Cell<'a>>, StudyError> {
    let mut cells = Vec::with_capacity(study.rows());
    for (name, load) in study.workloads.iter().map(|load| &load.name).zip(loads) {
        for (drive, plans) in study.drives.iter().zip(plans) {
            let exported = plans.iter().map(|plan| plan.limits.exported).min().unwrap_or(0);
            fits(study, name, load, drive, exported)?;
            for (layer, plan) in study.layers.iter().zip(plans) {
                let index = cells.len();
                cells.push(Cell { study, index, name, load, drive, layer, plan: *plan, exported });
            }
        }
    }
    Ok(cells)
}

/// Refuses a workload that goes beyond what all rows of a drive export.
fn fits(
    study: &Study,
    workload: &str,
    load: &Loaded,
    drive: &DriveSpec,
    exported: u64,
) -> Result<(), StudyError> {
    let (workload, drive) = (workload.to_owned(), drive.name.clone());
    let mib = |sectors: u64| (sectors * SECTOR as u64) >> 20;
    if load.last_dev > 0 && !study.compact {
        return Err(StudyError::Devices { workload });
    }
    if load.end <= exported {
        return Ok(());
    }
    let end = load.end;
    Err(match study.compact {
        true => StudyError::TooLarge { workload, needed: mib(end), drive, mib: mib(exported) },
        false => StudyError::Beyond { workload, end, drive, exported, mib: mib(exported) },
    })
}

/// The rows that there are, with busy times relative to passthrough's in each group of `layers`.
fn related(mut rows: Vec<Option<Row>>, layers: usize) -> Vec<Row> {
    for group in rows.chunks_mut(layers.max(1)) {
        let whole = |row: &&mut Row| !row.partial;
        let base = group.iter_mut().flatten().filter(whole);
        let base = base.map(|row| (row.layer == LayerKind::Passthrough.name(), &*row));
        let base = base.filter(|(is_base, _)| *is_base).map(|(_, row)| row.busy_ns.total()).next();
        for row in group.iter_mut().flatten().filter(whole) {
            row.busy_ratio = base.and_then(|base| ratio(row.busy_ns.total(), base));
        }
    }
    rows.into_iter().flatten().collect()
}

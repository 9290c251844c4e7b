//! A comparison: workloads × drives × drive states × layers, with one row for each combination.
//!
//! Invariants
//! - Rows are ordered by workload, then drive, then state, then layer, whatever the number of
//!   threads. No row depends on another, except for `busy_ratio`.
//! - All layers on one drive export the same number of sectors, which does not depend on the
//!   layers.
//! - A combination that can't run is a hole with its reason. The other combinations still run.

use crate::error::StudyError;
use crate::layer_spec::LayerSpec;
use crate::load::Loaded;
use crate::outcome::{Outcome, Why};
use crate::planned_run::PlannedRun;
use crate::player::{MOST_UNDER_WAY, Pace};
use crate::ratio::ratio;
use crate::row::Row;
use crate::run;
use crate::run_spec::{self, RunSpec};
use crate::schedule;
use crate::study::{LOADS_SHARE, Study, Watch, tell_of_devices};

/// Runs a study. If it is cancelled, combinations that have not finished become holes, and rows in
/// progress are marked `partial`.
///
/// # Errors
/// A workload that can't be read, or an invalid queue depth. Errors of a single combination are
/// recorded in its hole.
pub fn compare(study: &Study, watch: &dyn Watch) -> Result<Outcome, StudyError> {
    if let Pace::Closed(depth) = study.pace
        && !(1..=MOST_UNDER_WAY).contains(&depth)
    {
        return Err(StudyError::QueueDepth(depth));
    }
    let loads = load(study, watch)?;
    let specs = run_spec::all(study, &loads.iter().collect::<Vec<_>>());
    if loads.iter().any(|load| load.cancelled) {
        let holes = specs.iter().enumerate().map(|(at, it)| it.hole(0, at, Why::Interrupted));
        return Ok(Outcome { rows: Vec::new(), holes: holes.collect() });
    }
    let left = study.memory - loads.iter().map(Loaded::bytes).sum::<u64>();
    let mut results: Vec<_> =
        specs.iter().enumerate().map(|(at, it)| it.planned(at, left)).collect();
    // Baselines run first: all other rows are compared with them.
    let ready = results.iter().flatten();
    let jobs =
        ready.map(|planned| schedule::Job { cost: planned.memory(), first: planned.is_baseline() });
    let jobs = jobs.collect::<Vec<_>>();
    let runs: Vec<&PlannedRun> = results.iter().flatten().collect();
    let stop = || watch.cancelled();
    let made = schedule::run(&jobs, left, study.threads, |index| {
        if stop() { Ok(None) } else { run::run(runs[index], watch, &stop) }
    });
    let mut made = made.into_iter();
    let results = results.drain(..).map(|planned| match planned {
        Ok(_) => made.next().expect("a result per run").map_err(Why::Failed),
        Err(why) => Err(Why::Failed(why)),
    });
    let results = results.map(|it| it.and_then(|row| row.ok_or(Why::Interrupted))).collect();
    Ok(gathered(&specs, related(results, &study.layers)))
}

/// Collects rows and holes, each in order.
fn gathered(specs: &[RunSpec], results: Vec<Result<Row, Why>>) -> Outcome {
    let (mut rows, mut holes) = (Vec::with_capacity(results.len()), Vec::new());
    for (index, (spec, result)) in specs.iter().zip(results).enumerate() {
        match result {
            Ok(row) => rows.push(row),
            Err(why) => holes.push(spec.hole(rows.len(), index, why)),
        }
    }
    Outcome { rows, holes }
}

/// Reads each workload once.
fn load(study: &Study, watch: &dyn Watch) -> Result<Vec<Loaded>, StudyError> {
    let most = study.memory / LOADS_SHARE / study.workloads.len().max(1) as u64;
    let free = vec![schedule::Job::default(); study.workloads.len()];
    let loads = schedule::run(&free, 0, study.threads, |index| {
        let load = &study.workloads[index];
        Loaded::new(load, study.seed, study.compact, most, || watch.cancelled())
    });
    let loads = loads.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (workload, load) in study.workloads.iter().zip(&loads) {
        watch.noticed(&workload.name, &load.notes);
    }
    tell_of_devices(study, watch);
    Ok(loads)
}

/// Sets the busy times relative to the baseline in each group of `layers`. The baseline is
/// passthrough, or RAID 5 if passthrough can't run.
fn related(mut rows: Vec<Result<Row, Why>>, layers: &[LayerSpec]) -> Vec<Result<Row, Why>> {
    for group in rows.chunks_mut(layers.len().max(1)) {
        let bases = group.iter().zip(layers).filter_map(|(row, layer)| {
            let row = row.as_ref().ok().filter(|row| !row.partial)?;
            Some((layer.base()?, row.busy_ns.total(), row.layer.clone()))
        });
        let Some((_, busy, name)) = bases.min_by_key(|(rank, ..)| *rank) else { continue };
        for row in group.iter_mut().flatten().filter(|row| !row.partial) {
            row.busy_ratio = ratio(row.busy_ns.total(), busy);
            row.base = row.busy_ratio.map(|_| name.clone());
        }
    }
    rows
}

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
use crate::study::{LOADS_SHARE, Study, Watch};
use crate::unused::report_unused;

/// Runs a study. If it is cancelled, combinations that have not finished become holes, and rows in
/// progress are marked `partial`.
///
/// # Errors
/// A workload that can't be read, or an invalid queue depth. Errors of a single combination are
/// recorded in its hole.
pub fn compare(study: &Study, watch: &dyn Watch) -> Result<Outcome, StudyError> {
    let mut outcomes = compare_all(std::slice::from_ref(study), watch)?;
    Ok(outcomes.pop().expect("an outcome for each study"))
}

/// Runs several studies at once and returns an outcome for each. Their rows share the threads and
/// the memory of the first study, and are numbered consecutively for `watch`, which gets the notes
/// of the first study alone.
///
/// # Errors
/// As for [`compare`].
pub fn compare_all(studies: &[Study], watch: &dyn Watch) -> Result<Vec<Outcome>, StudyError> {
    for study in studies {
        if let Pace::Closed(depth) = study.pace
            && !(1..=MOST_UNDER_WAY).contains(&depth)
        {
            return Err(StudyError::QueueDepth(depth));
        }
    }
    let Some(first) = studies.first() else { return Ok(Vec::new()) };
    let share = studies.len() as u64;
    let mut loads = Vec::with_capacity(studies.len());
    for (at, study) in studies.iter().enumerate() {
        loads.push(load(study, first.memory / share, (at == 0).then_some(watch), watch)?);
    }
    let specs: Vec<Vec<RunSpec>> = studies
        .iter()
        .zip(&loads)
        .map(|(study, loads)| run_spec::all(study, &loads.iter().collect::<Vec<_>>()))
        .collect();
    if loads.iter().flatten().any(|load| load.cancelled) {
        let hole = |(at, it): (usize, &RunSpec)| it.hole(0, at, Why::Interrupted);
        let holes = specs.iter().map(|specs| specs.iter().enumerate().map(hole).collect());
        return Ok(holes.map(|holes| Outcome { rows: Vec::new(), holes }).collect());
    }
    let left = first.memory - loads.iter().flatten().map(Loaded::bytes).sum::<u64>();
    let all = specs.iter().flatten().enumerate();
    let results: Vec<_> = all.map(|(at, it)| it.planned(at, left)).collect();
    let mut results = made(results, (first.threads, left), watch).into_iter();
    let outcomes = studies.iter().zip(&specs).map(|(study, specs)| {
        let results = results.by_ref().take(specs.len()).collect();
        gathered(specs, related(results, &study.layers))
    });
    Ok(outcomes.collect())
}

/// Runs all planned combinations and returns a row or the reason for its absence for each.
fn made(
    planned: Vec<Result<PlannedRun, StudyError>>,
    (threads, memory): (usize, u64),
    watch: &dyn Watch,
) -> Vec<Result<Row, Why>> {
    // Baselines run first: all other rows are compared with them.
    let runs: Vec<&PlannedRun> = planned.iter().flatten().collect();
    let job = |run: &&PlannedRun| schedule::Job { cost: run.memory(), first: run.is_baseline() };
    let jobs: Vec<schedule::Job> = runs.iter().map(job).collect();
    let stop = || watch.cancelled();
    let made = schedule::run(&jobs, memory, threads, |index| {
        if stop() { Ok(None) } else { run::run(runs[index], watch, &stop) }
    });
    let mut made = made.into_iter();
    let results = planned.iter().map(Result::is_ok).collect::<Vec<_>>();
    let mut wrong = planned.into_iter().filter_map(Result::err);
    let one = |is_planned: bool| {
        if is_planned {
            made.next().expect("a result per run").map_err(Why::Failed)
        } else {
            Err(Why::Failed(wrong.next().expect("a reason per combination")))
        }
    };
    let results = results.into_iter().map(one);
    results.map(|it| it.and_then(|row| row.ok_or(Why::Interrupted))).collect()
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

/// Reads each workload of a study once, within `memory` bytes. `notes` gets the reader's notes.
fn load(
    study: &Study,
    memory: u64,
    notes: Option<&dyn Watch>,
    watch: &dyn Watch,
) -> Result<Vec<Loaded>, StudyError> {
    let most = memory / LOADS_SHARE / study.workloads.len().max(1) as u64;
    let free = vec![schedule::Job::default(); study.workloads.len()];
    let loads = schedule::run(&free, 0, study.threads, |index| {
        let load = &study.workloads[index];
        Loaded::new(load, study.seed, study.compact, most, || watch.cancelled())
    });
    let loads = loads.into_iter().collect::<Result<Vec<_>, _>>()?;
    if let Some(watch) = notes {
        for (workload, load) in study.workloads.iter().zip(&loads) {
            watch.noticed(&workload.name, &load.notes);
        }
        report_unused([study], &loads.iter().collect::<Vec<_>>(), watch);
    }
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

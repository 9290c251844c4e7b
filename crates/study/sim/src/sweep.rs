//! Cells: the combinations of a study with several seeds, exports and queue depths. Each cell runs
//! by itself and is delivered when it is done.
//!
//! Invariants
//! - A cell's identity contains everything that determines its row. Equal identities mean equal
//!   rows, whatever the machine, the order or the other runs.
//! - A trace that does not depend on the seed is read once for all seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hostftl_trace::Source;

use crate::error::StudyError;
use crate::export::Export;
use crate::load::Loaded;
use crate::outcome::{Hole, Why};
use crate::planned_run::PlannedRun;
use crate::player::{MOST_UNDER_WAY, Pace};
use crate::row::Row;
use crate::run;
use crate::run_spec::{self, RunSpec};
use crate::schedule;
use crate::study::{LOADS_SHARE, Study, Watch};
use crate::unused::report_unused;

/// The dimensions of a sweep besides those of a study.
#[derive(Clone, Debug)]
pub struct Variants {
    /// Exported capacities.
    pub exports: Vec<Export>,
    /// Timings of the requests.
    pub paces: Vec<Pace>,
    /// Seeds of all random choices.
    pub seeds: Vec<u64>,
}

/// The cells of a study, with their workloads in memory.
pub struct Sweep {
    studies: Vec<Study>,
    loads: Vec<Loaded>,
    /// For each study, the indices of its workloads in `loads`.
    of: Vec<Vec<usize>>,
    /// Whether reading the workloads was cancelled.
    cancelled: bool,
}

/// The coordinates of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellAbout {
    /// Workload.
    pub workload: String,
    /// Drive.
    pub drive: String,
    /// State of the drive before the workload.
    pub warm: String,
    /// Layer with its parameters.
    pub layer: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Group number. Cells of one group differ only in their layers.
    pub group: usize,
    /// Twin number. Cells with the same number differ only in their seeds.
    pub twins: usize,
    /// Rank as the baseline of the group (lower is preferred); `None` if the cell can't be the
    /// baseline.
    pub base: Option<u8>,
}

impl Sweep {
    /// Reads the workloads of `study` and creates its cells for each of `variants`.
    ///
    /// # Errors
    /// A workload that can't be read, or an invalid queue depth.
    pub fn read(study: &Study, variants: &Variants, watch: &dyn Watch) -> Result<Self, StudyError> {
        for pace in &variants.paces {
            if let Pace::Closed(depth) = *pace
                && !(1..=MOST_UNDER_WAY).contains(&depth)
            {
                return Err(StudyError::QueueDepth(depth));
            }
        }
        let mut studies = Vec::new();
        for &export in &variants.exports {
            for &pace in &variants.paces {
                let seeds = variants.seeds.iter();
                let varied = |&seed| Study { export, pace, seed, ..study.clone() };
                studies.extend(seeds.map(varied));
            }
        }
        let mut keys: Vec<(usize, u64)> = Vec::new();
        let mut of = Vec::with_capacity(studies.len());
        for study in &studies {
            let each = study.workloads.iter().enumerate().map(|(index, load)| {
                let key = (index, if load.source.is_drawn() { study.seed } else { 0 });
                keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                    keys.push(key);
                    keys.len() - 1
                })
            });
            of.push(each.collect::<Vec<_>>());
        }
        let is_file =
            |index: &usize| matches!(study.workloads[*index].source.plain(), Source::File(_));
        let files = keys.iter().filter(|(index, _)| is_file(index)).count().max(1);
        let most = study.memory / LOADS_SHARE / files as u64;
        let free = vec![schedule::Job::default(); keys.len()];
        let loads = schedule::run(&free, 0, study.threads, |index| {
            let (workload, seed) = keys[index];
            let load = &study.workloads[workload];
            Loaded::new(load, seed, study.compact, most, || watch.cancelled())
        });
        let loads = loads.into_iter().collect::<Result<Vec<_>, _>>()?;
        let cancelled = loads.iter().any(|load| load.cancelled);
        let mut reported = vec![false; study.workloads.len()];
        for ((workload, _), load) in keys.iter().zip(&loads) {
            if !std::mem::replace(&mut reported[*workload], true) {
                watch.noticed(&study.workloads[*workload].name, &load.notes);
            }
        }
        report_unused(&studies, &loads.iter().collect::<Vec<_>>(), watch);
        Ok(Sweep { studies, loads, of, cancelled })
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.studies.iter().map(Study::rows).sum()
    }

    /// Returns whether there is no cell.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether reading the workloads was cancelled. Cells have no identity in that case.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Returns all combinations. Those that differ only in their seeds are adjacent.
    fn specs(&self) -> Vec<RunSpec<'_>> {
        let of = |(study, loads): (_, &Vec<usize>)| {
            let loads: Vec<&Loaded> = loads.iter().map(|index| &self.loads[*index]).collect();
            run_spec::all(study, &loads)
        };
        let each: Vec<Vec<RunSpec>> = self.studies.iter().zip(&self.of).map(of).collect();
        let rows = each.first().map_or(0, Vec::len);
        (0..rows).flat_map(|index| each.iter().map(move |specs| specs[index])).collect()
    }

    /// Returns the identity of each cell. Equal identities and equal programs yield equal rows.
    pub fn identities(&self) -> Vec<String> {
        self.specs().iter().map(RunSpec::about).collect()
    }

    /// Returns the coordinates of each cell.
    pub fn about(&self) -> Vec<CellAbout> {
        let seeds = self.studies.len() / self.variants().max(1);
        let layers = self.studies.first().map_or(1, |study| study.layers.len()).max(1);
        let each = self.specs().into_iter().enumerate().map(|(index, spec)| {
            let (row, study) = (index / self.studies.len(), index % self.studies.len());
            CellAbout {
                workload: spec.workload.name.clone(),
                drive: spec.stack.name.clone(),
                warm: spec.warm.to_string(),
                layer: spec.layer.name.clone(),
                seed: spec.study.seed,
                group: row / layers * self.studies.len() + study,
                twins: index / seeds,
                base: spec.layer.base(),
            }
        });
        each.collect()
    }

    /// Returns the number of studies that differ in more than their seeds.
    fn variants(&self) -> usize {
        let first = self.studies.first().map(|study| study.seed);
        self.studies.iter().filter(|study| Some(study.seed) == first).count()
    }

    /// Runs the cells `wanted` and delivers each result when it is done. If `watch` cancels, runs
    /// that have not finished are not delivered.
    pub fn run(
        &self,
        wanted: &[usize],
        watch: &dyn Watch,
        done: &(dyn Fn(usize, Result<Row, Hole>) + Sync),
    ) {
        let Some(study) = self.studies.first() else { return };
        let left = study.memory.saturating_sub(self.loads.iter().map(Loaded::bytes).sum());
        let specs = self.specs();
        let failed = |index: usize, why| {
            done(index, Err(specs[index].hole(0, index, Why::Failed(why))));
        };
        let mut runs = Vec::new();
        for (row, &index) in wanted.iter().enumerate() {
            match specs[index].planned(row, left) {
                Ok(planned) => runs.push((index, planned)),
                Err(why) => failed(index, why),
            }
        }
        let job = |(_, planned): &(usize, PlannedRun)| schedule::Job {
            cost: planned.memory(),
            first: false,
        };
        let jobs: Vec<schedule::Job> = runs.iter().map(job).collect();
        let stop = || watch.cancelled();
        schedule::run(&jobs, left, study.threads, |number| {
            let (index, planned) = &runs[number];
            if stop() {
                return;
            }
            // A panic in one cell must not lose the results of the others.
            match catch_unwind(AssertUnwindSafe(|| run::run(planned, watch, &stop))) {
                Ok(Ok(Some(row))) if !row.partial => done(*index, Ok(row)),
                // A cancelled cell is not delivered, so that it is run again later.
                Ok(Ok(_)) => {}
                Ok(Err(why)) => failed(*index, why),
                Err(_) => {
                    failed(*index, StudyError::fault(&planned.layer.name, &planned.stack.name))
                }
            }
        });
    }
}

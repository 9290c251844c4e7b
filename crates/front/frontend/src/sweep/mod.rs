//! Sweeps: the cells of a plan are run by any number of processes and machines, stored as one file
//! each, and joined.
//!
//! Invariants
//! - The joined result depends only on the plan and the program. It does not depend on the machine
//!   that ran a cell, on interruptions, or on the number of threads.

mod cells;
mod join;
mod plan;

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use hostftl_report::Sheet;
use hostftl_sim::{CellAbout, Hole, Outcome, Row, Sweep, Watch};

pub use cells::Cells;
pub use join::Summary;
pub use plan::{Means, SweepPlan};

use crate::sheet;
use crate::wrong::Wrong;

/// The share of a plan's cells that a process runs: number `index`, from 1, of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    of: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Shard { index: 1, of: 1 }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, of)| {
            Some((index.trim().parse::<usize>().ok()?, of.trim().parse::<usize>().ok()?))
        });
        match parts {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Shard { index, of }),
            _ => Err(format!(
                "`{text}` is not a shard; write its number and the number of shards, \
                 as in 3/16"
            )),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl Shard {
    /// Returns whether there are other shards.
    pub fn is_part(self) -> bool {
        self.of > 1
    }

    /// Returns whether cell `index`, from 0, belongs to the shard. Neighbours belong to different
    /// shards.
    fn has(self, index: usize) -> bool {
        index % self.of == self.index - 1
    }
}

/// Receives the name of a cell and its bytes.
pub type Keep<'a> = &'a (dyn Fn(&str, Vec<u8>) -> Result<(), Wrong> + Sync);

/// Summary of a process's work on a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Cells of the plan.
    pub cells: usize,
    /// Cells to run.
    pub wanted: usize,
    /// Cells that existed before.
    pub kept: usize,
    /// Cells that were run.
    pub made: usize,
    /// Cells among them without a row, because the combination is impossible.
    pub failed: usize,
    /// Failures of this machine. They are not stored, so that another machine may retry.
    pub not_here: Vec<String>,
    /// First violated law.
    pub violation: Option<String>,
    /// First cell that could not be stored.
    pub unkept: Option<Wrong>,
}

/// A plan with its workloads in memory.
pub struct Sweeping {
    sweep: Sweep,
    names: Vec<String>,
    about: Vec<CellAbout>,
}

impl Sweeping {
    /// Reads the workloads of `plan`.
    ///
    /// # Errors
    /// If the plan is invalid, or a workload can't be read.
    pub fn open(plan: SweepPlan, means: &Means, watch: &dyn Watch) -> Result<Self, Wrong> {
        let (study, variants) = plan.study(means, &|| watch.cancelled())?;
        let sweep = Sweep::read(&study, &variants, watch)?;
        if sweep.is_cancelled() {
            return Err(Wrong::interrupted("ended before the workloads were read"));
        }
        let names = sweep.identities().iter().map(|about| cells::name(about)).collect();
        Ok(Sweeping { about: sweep.about(), sweep, names })
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether there is no cell.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the names of all cells, in the order of the plan.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the cells of `shard`.
    pub fn of(&self, shard: Shard) -> Vec<usize> {
        (0..self.len()).filter(|index| shard.has(*index)).collect()
    }

    /// Returns the cells of `shard` that are not in `cells`.
    pub fn missing(&self, shard: Shard, cells: &Cells) -> Vec<usize> {
        let mut all = self.of(shard);
        all.retain(|index| !cells.has(&self.names[*index]));
        all
    }

    /// Runs the cells `wanted` and passes the name and the bytes of each to `keep` when it is done.
    pub fn make(&self, wanted: &[usize], watch: &dyn Watch, keep: Keep) -> Done {
        let done = Mutex::new(Done { cells: self.len(), wanted: wanted.len(), ..Done::default() });
        self.sweep.run(wanted, watch, &|index, result| {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.note(self.keep(index, result, keep));
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a cell to `keep`. Returns its hole if it has no row.
    fn keep(
        &self,
        index: usize,
        result: Result<Row, Hole>,
        keep: Keep,
    ) -> Result<Option<Hole>, Wrong> {
        if let Err(hole) = &result
            && hole.is_of_machine()
        {
            return Ok(result.err());
        }
        let (rows, holes) = match result {
            Ok(row) => (vec![row], vec![]),
            Err(hole) => (vec![], vec![hole]),
        };
        let mut outcome = Outcome { rows, holes };
        keep(&self.names[index], sheet::parquet(&outcome)?)?;
        Ok(outcome.holes.pop())
    }

    /// Returns all cells as one sheet in the order of the plan, with busy times relative to the row
    /// without a layer if there is one, and the summary of each combination.
    ///
    /// # Errors
    /// If cells are missing or damaged.
    pub fn collect(&self, cells: &Cells) -> Result<(Sheet, Vec<Summary>), Wrong> {
        let missing = self.missing(Shard::default(), cells);
        if let Some(first) = missing.first() {
            let CellAbout { layer, drive, workload, warm, seed, .. } = &self.about[*first];
            return Err(Wrong::failed(format!(
                "{} of {} cells are missing, the first is {layer} on {drive} under {workload} \
                 ({warm}, seed {seed}); run sweep --resume",
                missing.len(),
                self.len(),
            )));
        }
        let sheets = self.names.iter().map(|name| cells.read(name));
        let sheet = join::join(sheets.collect::<Result<Vec<_>, _>>()?)?;
        join::related(sheet, &self.about)
    }
}

impl Done {
    fn note(&mut self, kept: Result<Option<Hole>, Wrong>) {
        match kept {
            Ok(None) => self.made += 1,
            Ok(Some(hole)) => {
                if hole.is_violation() && self.violation.is_none() {
                    self.violation = Some(hole.reason());
                }
                if hole.is_of_machine() {
                    self.not_here.push(hole.reason())
                } else {
                    (self.made, self.failed) = (self.made + 1, self.failed + 1)
                }
            }
            Err(wrong) => self.unkept = self.unkept.take().or(Some(wrong)),
        }
    }
}

#[cfg(test)]
mod tests;

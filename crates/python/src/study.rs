//! `compare`: the study that a dictionary asks for, and what it comes to.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hostftl_ask::{Question, STATES, Wrong, sheet};
use hostftl_sim::{Export, LayerChoice, Outcome, Study, Warm, Watch};
use hostftl_trace::Notes;
use pyo3::prelude::*;

use crate::sheets::{self, Column};
use crate::{errors, outside};

/// Steps of progress for each row.
const STEPS: u64 = 1000;

/// What Python asks, in the words of the command line.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    workloads: Vec<String>,
    drives: Vec<String>,
    layers: Option<Vec<String>>,
    warm: Vec<String>,
    export: Option<String>,
    cache: Option<PathBuf>,
    closed_loop: Option<u32>,
    compact: bool,
    skip_bad: bool,
    seed: u64,
    threads: Option<u16>,
    memory: Option<String>,
}

impl Asked {
    fn study(self) -> Result<Study, Wrong> {
        let layers = self.layers.map(|texts| {
            texts.iter().map(|text| hostftl_ask::layer(text)).collect::<Result<Vec<_>, _>>()
        });
        let layers: Option<Vec<LayerChoice>> = layers.transpose().map_err(Wrong::usage)?;
        let warm = self.warm.iter().map(|text| text.parse::<Warm>());
        let export = self.export.as_deref().map_or(Ok(Export::Usual), hostftl_ask::export);
        let memory = self.memory.as_deref().map(hostftl_ask::units::parse_size).transpose();
        if self.threads.is_some_and(|threads| !(1..=1024).contains(&threads)) {
            return Err(Wrong::usage("threads are from 1 to 1024"));
        }
        let question = Question {
            workloads: self.workloads,
            skip_bad: self.skip_bad,
            drives: self.drives,
            layers,
            warm: warm.collect::<Result<_, _>>().map_err(Wrong::usage)?,
            export: export.map_err(Wrong::usage)?,
            cache: self.cache,
            closed_loop: self.closed_loop,
            compact: self.compact,
            seed: self.seed,
            threads: self.threads,
            memory: memory.map_err(Wrong::usage)?,
        };
        question.study()
    }
}

/// Looks on from the study's threads, and is looked at from Python's.
struct Eye {
    stop: AtomicBool,
    /// How far each row is, of [`STEPS`].
    rows: Vec<AtomicU64>,
    warnings: Mutex<Vec<String>>,
}

impl Eye {
    fn new(rows: usize) -> Self {
        let rows = (0..rows).map(|_| AtomicU64::new(0)).collect();
        Eye { stop: AtomicBool::new(false), rows, warnings: Mutex::default() }
    }

    /// The share of the requests that was played, from 0 to 1.
    fn share(&self) -> f64 {
        let steps: u64 = self.rows.iter().map(|row| row.load(Ordering::Relaxed)).sum();
        steps as f64 / (self.rows.len() as u64 * STEPS).max(1) as f64
    }

    fn into_warnings(self) -> Vec<String> {
        self.warnings.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Eye {
    fn progress(&self, row: usize, done: u64, total: u64) {
        let steps = done.saturating_mul(STEPS) / total.max(1);
        self.rows[row].store(steps, Ordering::Relaxed);
    }

    fn noticed(&self, notes: &Notes) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        // That addresses are packed was asked for, and each row says it in its remarks.
        let mut notes = *notes;
        notes.compacted = false;
        warnings.extend(notes.warnings());
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What a comparison came to.
#[derive(IntoPyObject)]
pub struct Answer {
    /// Rows and holes as the command line's `--json` prints them.
    json: String,
    /// The columns of its `--csv` and `--parquet`.
    columns: Vec<Column>,
    /// What was noticed about the workloads.
    warnings: Vec<String>,
    /// The reason of a hole where a law was broken.
    violation: Option<String>,
}

/// Compares. `progress` is called about twenty times a second with the share that is done.
#[pyfunction]
#[pyo3(signature = (asked, progress=None))]
pub fn compare(py: Python<'_>, asked: Asked, progress: Option<Py<PyAny>>) -> PyResult<Answer> {
    let study = asked.study().map_err(|why| errors::wrong(py, why))?;
    let eye = Eye::new(study.rows());
    let look = |py: Python<'_>| match &progress {
        Some(progress) => progress.call1(py, (eye.share(),)).map(drop),
        None => Ok(()),
    };
    let outcome = outside::run(py, &eye.stop, look, || hostftl_sim::compare(&study, &eye))?;
    let outcome = outcome.map_err(|why| errors::wrong(py, why.into()))?;
    if outcome.rows.is_empty() {
        outcome.whole().map_err(|why| errors::wrong(py, why.into()))?;
        return Err(errors::usage(py, "there is nothing to compare".to_owned()));
    }
    answer(outcome, eye.into_warnings()).map_err(|why| errors::wrong(py, why))
}

fn answer(outcome: Outcome, warnings: Vec<String>) -> Result<Answer, Wrong> {
    let violation = outcome.holes.iter().find(|hole| hole.is_violation());
    Ok(Answer {
        json: serde_json::to_string(&outcome).map_err(Wrong::failed)?,
        violation: violation.map(|hole| hole.reason()),
        columns: sheets::columns(sheet::sheet(&outcome)),
        warnings,
    })
}

/// Whether there is such a drive or stack: gives its name, and raises where there is none.
#[pyfunction]
pub fn drive(py: Python<'_>, text: &str) -> PyResult<String> {
    hostftl_ask::stack(text).map(|it| it.name).map_err(|why| errors::wrong(py, why))
}

/// Whether there is such a layer: gives its name, and raises where there is none.
#[pyfunction]
pub fn layer(py: Python<'_>, text: &str) -> PyResult<String> {
    hostftl_ask::layer(text).map(|it| it.name).map_err(|why| errors::usage(py, why))
}

/// Whether the options of a workload make sense: raises where they do not.
#[pyfunction]
pub fn workload(py: Python<'_>, text: &str) -> PyResult<()> {
    hostftl_ask::source(text, false).map(drop).map_err(|why| errors::wrong(py, why))
}

/// The version of HostFTL, and the states that are compared unless the user says otherwise.
pub fn constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("STATES", STATES)
}

//! `compare`: the study of a dictionary of arguments, and its results.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use hostftl_frontend::judgement::judge;
use hostftl_frontend::seeds::{alike, merged};
use hostftl_frontend::sweep::Summary;
use hostftl_frontend::{Question, STATES, Wrong, hot, sheet, units};
use hostftl_sim::{Export, LayerSpec, Limits, Outcome, Study, StudyError, Warm};
use pyo3::prelude::*;

use crate::eye::Eye;
use crate::sheets::{self, Column};
use crate::{errors, outside};

/// Arguments from Python, as texts of the command line.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    workloads: Vec<String>,
    drives: Vec<String>,
    layers: Option<Vec<String>>,
    warm: Vec<String>,
    export: Option<String>,
    cache: Option<PathBuf>,
    closed_loop: Option<u32>,
    hot: Option<String>,
    ram: Option<String>,
    p99: Option<String>,
    min_speed: f64,
    max_latency: f64,
    compact: bool,
    skip_bad: bool,
    seed: u64,
    seeds: u16,
    threads: Option<u16>,
    memory: Option<String>,
}

/// Maximum number of seeds, as on the command line.
const MOST_SEEDS: u16 = 1000;

impl Asked {
    fn limits(&self) -> Result<Limits, Wrong> {
        let p99 = self.p99.as_deref().map(units::parse_nanos).transpose();
        Ok(Limits {
            memory_bytes: size(self.ram.clone())?,
            p99_ns: p99.map_err(Wrong::usage)?,
            years: None,
            speed: self.min_speed,
            latency: self.max_latency,
        })
    }

    fn study(self, cancelled: &dyn Fn() -> bool) -> Result<Study, Wrong> {
        if !(1..=MOST_SEEDS).contains(&self.seeds) {
            return Err(Wrong::usage(format!("seeds must be 1 to {MOST_SEEDS}")));
        }
        let warm = self.warm.iter().map(|text| text.parse::<Warm>());
        let question = Question {
            workloads: self.workloads,
            skip_bad: self.skip_bad,
            drives: self.drives,
            layers: layers(self.layers)?,
            warm: warm.collect::<Result<_, _>>().map_err(Wrong::usage)?,
            export: export(self.export)?,
            cache: self.cache,
            closed_loop: self.closed_loop,
            hot: self.hot.as_deref().map(hot).transpose().map_err(Wrong::usage)?,
            scale_to: None,
            compact: self.compact,
            seed: self.seed,
            threads: threads(self.threads)?,
            memory: size(self.memory)?,
        };
        question.study(cancelled)
    }
}

/// Parses layers.
pub(crate) fn layers(texts: Option<Vec<String>>) -> Result<Option<Vec<LayerSpec>>, Wrong> {
    let each = |texts: Vec<String>| -> Result<Vec<_>, String> {
        texts.iter().map(|text| hostftl_frontend::layer(text)).collect()
    };
    texts.map(each).transpose().map_err(Wrong::usage)
}

/// Parses an exported capacity.
pub(crate) fn export(text: Option<String>) -> Result<Export, Wrong> {
    text.map_or(Ok(Export::Usual), |text| hostftl_frontend::export(&text)).map_err(Wrong::usage)
}

/// Parses a size in bytes.
pub(crate) fn size(text: Option<String>) -> Result<Option<u64>, Wrong> {
    text.map(|text| units::parse_size(&text)).transpose().map_err(Wrong::usage)
}

/// Validates a number of threads.
pub(crate) fn threads(count: Option<u16>) -> Result<Option<u16>, Wrong> {
    match count {
        Some(0 | 1025..) => Err(Wrong::usage("threads must be 1 to 1024")),
        count => Ok(count),
    }
}

/// Results of a comparison.
#[derive(IntoPyObject)]
pub(crate) struct Answer {
    /// Rows and holes, as in the output of `--json`.
    json: String,
    /// Columns of `--csv` and `--parquet`.
    columns: Vec<Column>,
    /// Statistics over several seeds, as JSON.
    summary: Option<String>,
    /// Pairs of layers without a significant difference, as JSON.
    alike: Option<String>,
    /// Judgement of each workload, drive and state, as JSON.
    judgements: String,
    /// Warnings on the workloads.
    warnings: Vec<String>,
    /// Reason of a hole with a violated law.
    violation: Option<String>,
}

/// Runs a comparison. `progress` is called about twenty times per second with the completed share.
#[pyfunction]
#[pyo3(signature = (asked, progress=None))]
pub(crate) fn compare(
    py: Python<'_>,
    asked: Asked,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer> {
    let seeds = usize::from(asked.seeds);
    let limits = asked.limits().map_err(|why| errors::wrong(py, why))?;
    let study =
        asked.study(&|| py.check_signals().is_err()).map_err(|why| errors::wrong(py, why))?;
    let stop = AtomicBool::new(false);
    let eye = Eye::new(&stop, study.rows().saturating_mul(seeds));
    let look = |py: Python<'_>| match &progress {
        Some(progress) => progress.call1(py, (eye.share(),)).map(drop),
        None => Ok(()),
    };
    let outcome = outside::run(py, &stop, look, || with_seeds(&study, seeds, &eye))?;
    let outcome = outcome.map_err(|why| errors::wrong(py, why.into()))?;
    if outcome.rows.is_empty() {
        outcome.whole().map_err(|why| errors::wrong(py, why.into()))?;
        return Err(errors::usage(py, "there is nothing to compare".to_owned()));
    }
    answer(outcome, seeds, &limits, eye.into_warnings()).map_err(|why| errors::wrong(py, why))
}

/// Runs the study with `seeds` consecutive seeds, starting at its own.
fn with_seeds(study: &Study, seeds: usize, eye: &Eye<'_>) -> Result<Outcome, StudyError> {
    let one = |number: usize| {
        eye.turn(number * study.rows());
        let seed = study.seed.wrapping_add(number as u64);
        hostftl_sim::compare(&Study { seed, ..study.clone() }, eye)
    };
    (0..seeds).map(one).collect::<Result<_, _>>().map(merged)
}

fn answer(
    outcome: Outcome,
    seeds: usize,
    limits: &Limits,
    warnings: Vec<String>,
) -> Result<Answer, Wrong> {
    let violation = outcome.holes.iter().find(|hole| hole.is_violation());
    let several = seeds > 1;
    let summary = several.then(|| serde_json::to_string(&Summary::of_rows(&outcome.rows)));
    let alike = several.then(|| serde_json::to_string(&alike(&outcome.rows).unwrap_or_default()));
    Ok(Answer {
        json: serde_json::to_string(&outcome).map_err(Wrong::failed)?,
        summary: summary.transpose().map_err(Wrong::failed)?,
        alike: alike.transpose().map_err(Wrong::failed)?,
        judgements: serde_json::to_string(&judge(&outcome.rows, None, limits))
            .map_err(Wrong::failed)?,
        violation: violation.map(|hole| hole.reason()),
        columns: sheets::columns(sheet::sheet(&outcome)),
        warnings,
    })
}

/// Adds the version of HostFTL and the default states to the module.
pub(crate) fn constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("STATES", STATES)
}

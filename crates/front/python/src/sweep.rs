//! Sweeps: a plan whose workloads are read once per process, and its cells.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use hostftl_frontend::Wrong;
use hostftl_frontend::sweep::{Cells, Done, Means, Shard, SweepPlan, Sweeping};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::eye::Eye;
use crate::sheets::{self, Column};
use crate::{errors, outside, study};

/// A plan with its workloads in memory.
#[pyclass(frozen)]
pub struct Sweep {
    sweeping: Sweeping,
    warnings: Vec<String>,
}

/// A cell's name and its bytes.
type Cell<'py> = (String, Bound<'py, PyBytes>);

/// The cells, the failures of this machine, and the first violated law.
type Made<'py> = (Vec<Cell<'py>>, Vec<String>, Option<String>);

#[pymethods]
impl Sweep {
    /// Reads the workloads of `plan`, which is TOML.
    #[new]
    fn new(
        py: Python<'_>,
        plan: &str,
        threads: Option<u16>,
        memory: Option<String>,
        cache: Option<PathBuf>,
    ) -> PyResult<Self> {
        let wrong = |why| errors::wrong(py, why);
        let plan = SweepPlan::parse(plan, "the plan").map_err(wrong)?;
        let threads = study::threads(threads).map_err(wrong)?;
        let memory = study::size(memory).map_err(wrong)?;
        let (means, stop) = (Means { threads, memory, cache }, AtomicBool::new(false));
        let eye = Eye::new(&stop, 0);
        let opened = outside::run(py, &stop, |_| Ok(()), || Sweeping::open(plan, &means, &eye))?;
        let sweeping = opened.map_err(wrong)?;
        Ok(Sweep { sweeping, warnings: eye.into_warnings() })
    }

    /// Returns the names of all cells, in the order of the plan.
    fn names(&self) -> Vec<String> {
        self.sweeping.names().to_vec()
    }

    /// Returns the warnings on the workloads.
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Returns the cells that are not in the folder `out`, which is created if it is missing.
    fn missing(&self, py: Python<'_>, out: PathBuf) -> PyResult<Vec<usize>> {
        let cells = Cells::open(&out).map_err(|why| errors::wrong(py, why))?;
        Ok(self.sweeping.missing(Shard::default(), &cells))
    }

    /// Runs the cells `wanted`. Stores them in the folder `out`, or returns them. `progress` is
    /// called with the completed share.
    #[pyo3(signature = (wanted, out=None, progress=None))]
    fn make<'py>(
        &self,
        py: Python<'py>,
        wanted: Vec<usize>,
        out: Option<PathBuf>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Made<'py>> {
        if wanted.iter().any(|index| *index >= self.sweeping.len()) {
            return Err(errors::usage(py, "unknown cell".to_owned()));
        }
        let cells = out.as_deref().map(Cells::open).transpose();
        let cells = cells.map_err(|why| errors::wrong(py, why))?;
        let given = Mutex::new(Vec::new());
        let keep = |name: &str, bytes: Vec<u8>| match &cells {
            Some(cells) => cells.keep(name, &bytes),
            None => {
                let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
                given.push((name.to_owned(), bytes));
                Ok(())
            }
        };
        let stop = AtomicBool::new(false);
        let eye = Eye::new(&stop, wanted.len());
        let look = |py: Python<'_>| match &progress {
            Some(progress) => progress.call1(py, (eye.share(),)).map(drop),
            None => Ok(()),
        };
        let work = || self.sweeping.make(&wanted, &eye, &keep);
        let done: Done = outside::run(py, &stop, look, work)?;
        if let Some(why) = done.unkept {
            return Err(errors::wrong(py, why));
        }
        let given = given.into_inner().unwrap_or_else(PoisonError::into_inner);
        let given = given.into_iter().map(|(name, bytes)| (name, PyBytes::new(py, &bytes)));
        Ok((given.collect(), done.not_here, done.violation))
    }

    /// Returns all cells of the folder `out` as columns, and the statistics over seeds as JSON.
    fn collect(&self, py: Python<'_>, out: PathBuf) -> PyResult<(Vec<Column>, String)> {
        let collect = || -> Result<_, Wrong> {
            let (sheet, summary) = self.sweeping.collect(&Cells::open(&out)?)?;
            Ok((sheet, serde_json::to_string(&summary).map_err(Wrong::failed)?))
        };
        let (sheet, summary) = py.detach(collect).map_err(|why| errors::wrong(py, why))?;
        Ok((sheets::columns(sheet), summary))
    }
}

/// Stores the cell `name` in the folder `out` atomically.
#[pyfunction]
pub(crate) fn keep_cell(py: Python<'_>, out: PathBuf, name: &str, bytes: Vec<u8>) -> PyResult<()> {
    let keep = || Cells::open(&out).and_then(|cells| cells.keep(name, &bytes));
    py.detach(keep).map_err(|why| errors::wrong(py, why))
}

//! `advise`: the layer for a workload on a drive, or none.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use hostftl_frontend::advise::{Request, Round, all, fill};
use hostftl_frontend::{Wrong, hot, units};
use hostftl_sim::{Limits, Study};
use pyo3::prelude::*;

use crate::eye::Eye;
use crate::{errors, outside, study};

/// Arguments from Python, as texts of the command line.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    trace: String,
    drive: String,
    fill: String,
    hot: Option<String>,
    export: Option<String>,
    ram: Option<String>,
    life: Option<String>,
    p99: Option<String>,
    min_speed: f64,
    max_latency: f64,
    scale_to: Option<String>,
    load: String,
    layers: Option<Vec<String>>,
    seeds: u16,
    seed: u64,
    quick: bool,
    cache: Option<PathBuf>,
    threads: Option<u16>,
    memory: Option<String>,
}

impl Asked {
    fn request(self) -> Result<Request, Wrong> {
        fn read<T>(
            text: Option<String>,
            parse: impl Fn(&str) -> Result<T, String>,
        ) -> Result<Option<T>, Wrong> {
            text.map(|text| parse(&text)).transpose().map_err(Wrong::usage)
        }
        if !(1..=100).contains(&self.seeds) {
            return Err(Wrong::usage("seeds must be 1 to 100"));
        }
        let limits = Limits {
            memory_bytes: study::size(self.ram)?,
            p99_ns: read(self.p99, units::parse_nanos)?,
            years: read(self.life, units::parse_years)?,
            speed: self.min_speed,
            latency: self.max_latency,
        };
        Ok(Request {
            trace: self.trace,
            drive: self.drive,
            fill: fill(&self.fill).map_err(Wrong::usage)?,
            hot: read(self.hot, hot)?,
            export: study::export(self.export)?,
            limits,
            scale_to: read(self.scale_to, units::parse_capacity)?,
            load: self.load.parse().map_err(Wrong::usage)?,
            layers: study::layers(self.layers)?,
            seeds: self.seeds,
            seed: self.seed,
            quick: self.quick,
            cache: self.cache,
            threads: study::threads(self.threads)?,
            memory: study::size(self.memory)?,
        })
    }
}

/// Returns the output of `hostftl advise --json`, and the warnings on the workload.
#[pyfunction]
pub(crate) fn advise(py: Python<'_>, asked: Asked) -> PyResult<(String, Vec<String>)> {
    let request = asked.request().map_err(|why| errors::wrong(py, why))?;
    let stop = AtomicBool::new(false);
    let answer = outside::run(
        py,
        &stop,
        |_| Ok(()),
        || {
            let mut warnings = Vec::new();
            let mut run = |studies: &[Study], round: Round| {
                let eye = Eye::new(&stop, studies.iter().map(Study::rows).sum());
                let outcomes = hostftl_sim::compare_all(studies, &eye)?;
                if round == Round::Layers {
                    warnings = eye.into_warnings();
                }
                if stop.load(Ordering::Relaxed) {
                    Err(Wrong::interrupted("cancelled before there was a result"))
                } else {
                    Ok(outcomes)
                }
            };
            let answer = all(&request, &|| stop.load(Ordering::Relaxed), &mut run)?;
            warnings.extend(answer.wrong.as_ref().map(|it| format!("a row failed: {it}")));
            Ok((serde_json::to_string(&answer).map_err(Wrong::failed)?, warnings))
        },
    )?;
    answer.map_err(|why| errors::wrong(py, why))
}

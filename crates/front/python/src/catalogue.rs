//! What there is to choose from: layers, drives, and what a drive is made of.

use hostftl_drives::DeviceSpec;
use pyo3::prelude::*;

use crate::errors;

/// The layers with their parameters, as `hostftl layers --json` prints them.
#[pyfunction]
pub(crate) fn layers() -> String {
    let all = hostftl_frontend::catalogue::layers().into_iter();
    serde_json::Value::Array(all.collect()).to_string()
}

/// The names of the built-in drives.
#[pyfunction]
pub(crate) fn drives() -> Vec<&'static str> {
    DeviceSpec::names().collect()
}

/// What the drive or stack `text` is made of, as JSON.
#[pyfunction]
pub(crate) fn drive(py: Python<'_>, text: &str) -> PyResult<String> {
    let stack = hostftl_frontend::stack(text).map_err(|why| errors::wrong(py, why))?;
    Ok(hostftl_frontend::catalogue::stack(&stack).to_string())
}

/// What the layer `text` is called in rows.
#[pyfunction]
pub(crate) fn layer(py: Python<'_>, text: &str) -> PyResult<String> {
    hostftl_frontend::layer(text).map(|it| it.name).map_err(|why| errors::usage(py, why))
}

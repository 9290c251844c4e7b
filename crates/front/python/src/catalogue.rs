//! The available layers and drives, and the composition of a drive.

use hostftl_drives::DeviceSpec;
use pyo3::prelude::*;

use crate::errors;

/// Returns the layers with their parameters, like `hostftl layers --json`.
#[pyfunction]
pub(crate) fn layers() -> String {
    let all = hostftl_frontend::catalogue::layers().into_iter();
    serde_json::Value::Array(all.collect()).to_string()
}

/// Returns the names of the built-in drives.
#[pyfunction]
pub(crate) fn drives() -> Vec<&'static str> {
    DeviceSpec::names().collect()
}

/// Returns the composition of the drive or stack `text`, as JSON.
#[pyfunction]
pub(crate) fn drive(py: Python<'_>, text: &str) -> PyResult<String> {
    let stack = hostftl_frontend::stack(text).map_err(|why| errors::wrong(py, why))?;
    Ok(hostftl_frontend::catalogue::stack(&stack).to_string())
}

/// Returns the name of the layer `text` in rows.
#[pyfunction]
pub(crate) fn layer(py: Python<'_>, text: &str) -> PyResult<String> {
    hostftl_frontend::layer(text).map(|it| it.name).map_err(|why| errors::usage(py, why))
}

//! The compiled half of the Python package `hostftl`: studies without the interpreter's lock.
//! What users see is in `python/hostftl`; this module takes texts and numbers and gives JSON and
//! columns, the very ones of the command line.

mod errors;
mod outside;
mod sheets;
mod study;

/// What `python/hostftl` calls.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::sheets::{csv, parquet};
    #[pymodule_export]
    use super::study::{compare, drive, layer, workload};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::study::constants(module)
    }
}

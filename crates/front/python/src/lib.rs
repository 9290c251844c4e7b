//! The compiled part of the Python package `hostftl`, which runs studies without the interpreter's
//! lock. The public interface is in `python/hostftl`. This module takes texts and numbers, and
//! returns the JSON and the columns of the command line.

mod advise;
mod catalogue;
mod errors;
mod eye;
mod outside;
mod placement;
mod sheets;
mod study;
mod sweep;
mod theory;
mod traces;

/// Functions and classes for `python/hostftl`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::advise::advise;
    #[pymodule_export]
    use super::catalogue::{drive, drives, layer, layers};
    #[pymodule_export]
    use super::placement::place;
    #[pymodule_export]
    use super::sheets::{csv, parquet};
    #[pymodule_export]
    use super::study::compare;
    #[pymodule_export]
    use super::sweep::{Sweep, keep_cell};
    #[pymodule_export]
    use super::theory::forms;
    #[pymodule_export]
    use super::traces::{trace_columns, trace_info, trace_write};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        hostftl_lab_devices::register();
        super::study::constants(module)
    }
}

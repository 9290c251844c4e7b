//! Rows as columns: lists for Python, and the files of the command line.

use hostftl_report::{Sheet, Values};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// Values of a column, one per row.
#[derive(FromPyObject, IntoPyObject)]
pub(crate) enum Cells {
    /// Flags are tried before counts, because Python's booleans are integers too.
    Flags(Vec<bool>),
    Texts(Vec<String>),
    Wholes(Vec<Option<u64>>),
    Reals(Vec<Option<f64>>),
}

/// A column: its name, its type (`flag`, `text`, `whole` or `real`), and its values.
pub(crate) type Column = (String, String, Cells);

/// Returns the columns of `sheet`.
pub(crate) fn columns(sheet: Sheet) -> Vec<Column> {
    let each = |(name, values)| match values {
        Values::Flags(values) => (name, "flag".to_owned(), Cells::Flags(values)),
        Values::Texts(values) => (name, "text".to_owned(), Cells::Texts(values)),
        Values::Wholes(values) => (name, "whole".to_owned(), Cells::Wholes(values)),
        Values::Reals(values) => (name, "real".to_owned(), Cells::Reals(values)),
    };
    sheet.into_columns().into_iter().map(each).collect()
}

/// A column from Python. Its type is explicit, because the type of empty values is ambiguous.
type Given<'py> = (String, String, Bound<'py, PyAny>);

fn sheet(columns: Vec<Given<'_>>) -> PyResult<Sheet> {
    let mut sheet = Sheet::new();
    for (name, kind, cells) in columns {
        let values = match kind.as_str() {
            "flag" => Values::Flags(cells.extract()?),
            "text" => Values::Texts(cells.extract()?),
            "whole" => Values::Wholes(cells.extract()?),
            _ => Values::Reals(cells.extract()?),
        };
        sheet.column(name, values);
    }
    Ok(sheet)
}

/// Encodes columns as CSV.
#[pyfunction]
pub(crate) fn csv(columns: Vec<Given<'_>>) -> PyResult<String> {
    Ok(sheet(columns)?.csv())
}

/// Encodes columns as the bytes of a Parquet file.
#[pyfunction]
pub(crate) fn parquet<'py>(
    py: Python<'py>,
    columns: Vec<Given<'_>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = sheet(columns)?.parquet(&hostftl_frontend::program::name());
    let bytes =
        bytes.map_err(|error| errors::usage(py, format!("cannot encode Parquet: {error}")))?;
    Ok(PyBytes::new(py, &bytes))
}

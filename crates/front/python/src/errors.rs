//! Errors as exceptions. The classes are defined in `python/hostftl/errors.py`; the messages are
//! those of the command line.

use hostftl_frontend::{Wrong, WrongKind};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Creates the exception `name` of `hostftl.errors`.
fn exception(py: Python<'_>, name: &str, text: String) -> PyErr {
    let class = py.import("hostftl.errors").and_then(|module| module.getattr(name));
    match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, text),
        Err(error) => error,
    }
}

/// Returns the exception for an error.
pub(crate) fn wrong(py: Python<'_>, wrong: Wrong) -> PyErr {
    let name = match wrong.kind {
        WrongKind::Failed | WrongKind::Interrupted => "StudyError",
        WrongKind::Usage => "UsageError",
        WrongKind::Violation => "ViolationError",
    };
    exception(py, name, wrong.text)
}

/// Returns the exception for an invalid request.
pub(crate) fn usage(py: Python<'_>, text: String) -> PyErr {
    wrong(py, Wrong::usage(text))
}

/// Returns the exception for a panic.
pub(crate) fn fault(py: Python<'_>) -> PyErr {
    let text = "bug in HostFTL, described on standard error; please report this";
    exception(py, "FaultError", text.to_owned())
}

//! Closed forms of write amplification and of queues. Arguments outside their domain raise an
//! exception.

use hostftl_sim::theory::{self, Class};
use pyo3::prelude::*;

use crate::errors;

/// The module `hostftl._native.theory`.
#[pymodule(submodule)]
pub mod forms {
    use super::*;

    #[pyfunction]
    fn fifo(py: Python<'_>, alpha: f64) -> PyResult<f64> {
        checked(py, alpha, 1).map(|()| theory::fifo(alpha))
    }

    #[pyfunction]
    fn greedy(py: Python<'_>, alpha: f64, pages: u32) -> PyResult<f64> {
        checked(py, alpha, pages).map(|()| theory::greedy(alpha, pages))
    }

    #[pyfunction]
    fn random(py: Python<'_>, alpha: f64) -> PyResult<f64> {
        checked(py, alpha, 1).map(|()| theory::random(alpha))
    }

    #[pyfunction]
    fn d_choices(py: Python<'_>, alpha: f64, choices: u32, pages: u32) -> PyResult<f64> {
        checked(py, alpha, pages.min(choices)).map(|()| theory::d_choices(alpha, choices, pages))
    }

    #[pyfunction]
    fn mixed_fifo(py: Python<'_>, alpha: f64, classes: Vec<(f64, f64)>) -> PyResult<f64> {
        checked(py, alpha, 1)?;
        Ok(theory::mixed_fifo(alpha, &skew(py, classes)?))
    }

    #[pyfunction]
    fn mixed_greedy(
        py: Python<'_>,
        alpha: f64,
        pages: u32,
        classes: Vec<(f64, f64)>,
    ) -> PyResult<f64> {
        checked(py, alpha, pages)?;
        Ok(theory::mixed_greedy(alpha, pages, &skew(py, classes)?))
    }

    #[pyfunction]
    fn separated(
        py: Python<'_>,
        alpha: f64,
        classes: Vec<(f64, f64)>,
    ) -> PyResult<(f64, Vec<f64>)> {
        checked(py, alpha, 1)?;
        Ok(theory::separated(alpha, &skew(py, classes)?))
    }

    #[pyfunction]
    fn mean_value(py: Python<'_>, demands: Vec<f64>, requests: u32) -> PyResult<(f64, Vec<f64>)> {
        if demands.iter().all(|it| it.is_finite() && *it > 0.0) && !demands.is_empty() {
            Ok(theory::mean_value(&demands, requests))
        } else {
            Err(errors::usage(py, "every station needs a time above 0".to_owned()))
        }
    }
}

/// Validates the arguments of a closed form.
fn checked(py: Python<'_>, alpha: f64, count: u32) -> PyResult<()> {
    let text = match (alpha.is_finite() && alpha > 1.0, count) {
        (false, _) => format!("alpha (physical / mapped pages) must exceed 1, but is {alpha}"),
        (_, 0) => "pages and choices must be at least 1".to_owned(),
        _ => return Ok(()),
    };
    Err(errors::usage(py, text))
}

/// Returns classes of pages from their shares of the writes and of the pages.
fn skew(py: Python<'_>, classes: Vec<(f64, f64)>) -> PyResult<Vec<Class>> {
    let sums = classes.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let is_whole = |sum: f64| (sum - 1.0).abs() < 1e-6;
    let is_share = |share: f64| share > 0.0 && share <= 1.0;
    if is_whole(sums.0)
        && is_whole(sums.1)
        && classes.iter().all(|(rate, fraction)| is_share(*rate) && is_share(*fraction))
    {
        Ok(classes.iter().map(|&(rate, fraction)| Class { rate, fraction }).collect())
    } else {
        let text = "classes must be pairs of shares above 0, of the writes and of the pages, and \
                        each kind must sum to 1";
        Err(errors::usage(py, text.to_owned()))
    }
}

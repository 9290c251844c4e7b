//! Refusal of a log that no pool describes, with the differences and their possible causes.

use std::fmt;

use thiserror::Error;

use crate::fit::{Fit, residuals};
use crate::log::Log;

/// Residual of an eighth above which a refusal names it.
const NAMED: f64 = 0.05;
/// Write amplification of the first pass above which the drive was not empty.
const EMPTY: f64 = 1.02;
/// Ratio of the highest to the lowest eighth below which the curve is that of random overwrites.
const FLAT: f64 = 1.1;

/// Reason why a log has no fit.
#[derive(Clone, Debug, Error)]
pub enum FitError {
    /// The range of passes has no pass after the one that fills the drive.
    #[error("{0} passes cannot be fitted; use at least 2, and at most those of the log")]
    Passes(usize),
    /// No pool has the shape of the log.
    #[error("cannot fit the log: {0}")]
    Shape(Box<Refusal>),
}

/// Pools that were tried, and the properties of the log that can explain why none fits.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Best pool of each kind, the nearest one first.
    tried: Vec<Fit>,
    causes: Vec<&'static str>,
}

impl Refusal {
    pub(crate) fn new(log: &Log, mut tried: Vec<Fit>) -> Self {
        tried.sort_by(|a, b| a.rms.total_cmp(&b.rms));
        let mut causes = Vec::new();
        let first = log.eighths(0, 1);
        if first.iter().sum::<f64>() / first.len() as f64 > EMPTY {
            causes.push("the first pass has copies, so the drive was not empty");
        }
        let fitted = tried[0].fitted;
        let highest = fitted.iter().copied().fold(f64::MIN, f64::max);
        let lowest = fitted.iter().copied().fold(f64::MAX, f64::min);
        if highest / lowest < FLAT {
            causes.push("the curve is flat, as that of random overwrites instead of a permutation");
        } else if fitted[fitted.len() - 1] == highest {
            causes.push("the curve rises, so the workload is not a permutation");
        }
        if causes.is_empty() {
            causes.push("the drive collects garbage in another way");
        }
        Refusal { tried, causes }
    }

    /// Returns the nearest pool.
    pub fn nearest(&self) -> &Fit {
        &self.tried[0]
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = self.nearest();
        write!(f, "the nearest pool ({}) differs in", Kind(nearest))?;
        let named = residuals(&nearest.model, &nearest.fitted);
        let mut named: Vec<_> =
            named.into_iter().enumerate().filter(|it| it.1.abs() > NAMED).collect();
        if named.is_empty() {
            named.push(nearest.worst());
        }
        for (index, (eighth, residual)) in named.iter().enumerate() {
            let [model, real] = [nearest.model[*eighth], nearest.fitted[*eighth]];
            let comma = if index > 0 { "," } else { "" };
            let percent = 100.0 * residual;
            write!(
                f,
                "{comma} eighth {} by {percent:+.0} % ({model:.2}, log {real:.2})",
                eighth + 1
            )?;
        }
        write!(f, "; residuals (rms):")?;
        for (index, fit) in self.tried.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma} {} {:.1} %", Kind(fit), 100.0 * fit.rms)?;
        }
        write!(f, "; {}", self.causes.join("; "))
    }
}

/// Policy and α of a pool, as text.
struct Kind<'a>(&'a Fit);

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = &self.0.shape;
        let early = if shape.early.is_some() { " with early collection" } else { "" };
        write!(f, "{}{early}, α {:.3}", shape.gc, shape.alpha)
    }
}

//! Search for the pool whose curve has the least difference from a log.

use hostftl_drives::pool::GcPolicy;
use thiserror::Error;

use crate::log::{BINS, EIGHTHS, Log, eighths};
use crate::pool::{PoolShape, simulate};

/// Policies that a fit distinguishes.
pub const POLICIES: [GcPolicy; 3] = [GcPolicy::Greedy, GcPolicy::Fifo, GcPolicy::DChoices(2)];
/// Values of α at which the search of each policy starts. The spare of each is 6 % more than that
/// before, because the phase of a `fifo` curve changes quickly with the spare.
const ALPHAS: i32 = 50;
const FIRST_SPARE: f64 = 0.03;
const NEXT_SPARE: f64 = 1.06;
/// Numbers of units at which the search of each policy starts.
const UNITS: [u32; 2] = [70, 160];
/// Limits of the search.
const LEAST_UNITS: u32 = 24;
const MOST_UNITS: u32 = 1000;
const LEAST_ALPHA: f64 = 1.015;
/// Seeds averaged in the first and the last part of the search.
const COARSE: u64 = 1;
const FINE: u64 = 2;
/// Root mean square of the relative residuals above which a log is refused.
const REFUSED: f64 = 0.05;

/// Fitted pool and its differences from the log.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Fitted parameters.
    pub shape: PoolShape,
    /// Write amplification of the model by eighths of a pass.
    pub model: [f64; EIGHTHS],
    /// Write amplification of the fitted passes by eighths of a pass.
    pub fitted: [f64; EIGHTHS],
    /// Root mean square of the relative residuals.
    pub rms: f64,
}

/// Reason why a log has no fit.
#[derive(Clone, Debug, Error)]
pub enum FitError {
    /// The range of passes has no pass after the one that fills the drive.
    #[error("{0} passes cannot be fitted; use at least 2, and at most those of the log")]
    Passes(usize),
    /// The shape differs too much.
    #[error(
        "cannot fit the log: the nearest pool ({gc}, α {alpha:.3}, {units} units) differs by \
         {percent:+.0} % in eighth {eighth} of a pass; the drive was not empty, the \
         workload is no permutation, or the drive collects garbage in another way",
        gc = .0.shape.gc, alpha = .0.shape.alpha, units = .0.shape.units,
        percent = 100.0 * .0.worst().1, eighth = .0.worst().0 + 1
    )]
    Shape(Box<Fit>),
}

impl Fit {
    /// Returns the write amplification that the model predicts for passes `from..to`, by eighths of
    /// a pass. The first pass has number 0 and fills the drive. Under `fifo` the curve drifts from
    /// pass to pass.
    pub fn predict(&self, from: usize, to: usize) -> [f64; EIGHTHS] {
        predict(&self.shape, from, to, FINE).expect("the fitted pool is possible")
    }

    /// Returns the eighth with the largest residual, and the residual.
    pub fn worst(&self) -> (usize, f64) {
        let all = residuals(&self.model, &self.fitted).into_iter().enumerate();
        all.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).expect("there are eighths")
    }
}

/// Fits a pool to the first `passes` passes of a log.
///
/// # Errors
/// When the log has fewer passes, or no pool has its shape.
pub fn fit(log: &Log, passes: usize) -> Result<Fit, FitError> {
    if passes < 2 || passes > log.passes() {
        return Err(FitError::Passes(passes));
    }
    let fitted = log.eighths(1, passes);
    let best = POLICIES.map(|gc| search(gc, &fitted, passes));
    let best = best.into_iter().min_by(|a, b| a.rms.total_cmp(&b.rms)).expect("policies");
    if best.rms > REFUSED {
        return Err(FitError::Shape(Box::new(best)));
    }
    Ok(best)
}

/// Returns the best pool with one policy: the best point of a grid, then a pattern search that
/// halves its steps.
fn search(gc: GcPolicy, fitted: &[f64; EIGHTHS], passes: usize) -> Fit {
    let alphas = (0..ALPHAS).map(|step| 1.0 + FIRST_SPARE * NEXT_SPARE.powi(step));
    let starts = alphas.flat_map(|alpha| UNITS.map(|units| PoolShape { alpha, units, gc }));
    let least = |points: &mut dyn Iterator<Item = PoolShape>, seeds: u64| {
        let points = points.filter_map(|shape| evaluate(shape, fitted, passes, seeds));
        points.min_by(|a, b| a.rms.total_cmp(&b.rms))
    };
    let mut best = least(&mut starts.into_iter(), COARSE).expect("the grid has possible pools");
    let (mut spare, mut factor) = (NEXT_SPARE, 1.6_f64);
    for seeds in [COARSE, COARSE, COARSE, FINE, FINE, FINE] {
        best = evaluate(best.shape, fitted, passes, seeds).unwrap_or(best);
        for _ in 0..6 {
            let near = neighbours(best.shape, spare, factor);
            match least(&mut near.into_iter(), seeds).filter(|it| it.rms < best.rms) {
                Some(better) => best = better,
                None => break,
            }
        }
        (spare, factor) = (spare.sqrt(), factor.sqrt());
    }
    best
}

fn neighbours(
    PoolShape { alpha, units, gc }: PoolShape,
    spare: f64,
    factor: f64,
) -> [PoolShape; 8] {
    let steps = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)];
    steps.map(|(a, u)| {
        let alpha = (1.0 + (alpha - 1.0) * spare.powi(a)).max(LEAST_ALPHA);
        let units = (f64::from(units) * factor.powi(u)).round() as u32;
        PoolShape { alpha, units: units.clamp(LEAST_UNITS, MOST_UNITS), gc }
    })
}

/// Compares a pool with the passes `1..passes` of a log. Returns `None` if the pool is impossible.
fn evaluate(shape: PoolShape, fitted: &[f64; EIGHTHS], passes: usize, seeds: u64) -> Option<Fit> {
    let model = predict(&shape, 1, passes, seeds)?;
    let squares = residuals(&model, fitted).map(|it| it * it);
    let rms = (squares.iter().sum::<f64>() / EIGHTHS as f64).sqrt();
    Some(Fit { shape, model, fitted: *fitted, rms })
}

/// Returns the mean of several seeds, or `None` if the pool is impossible.
fn predict(shape: &PoolShape, from: usize, to: usize, seeds: u64) -> Option<[f64; EIGHTHS]> {
    let mut model = [0.0; EIGHTHS];
    for seed in 1..=seeds {
        let curve = simulate(shape, to, seed).ok()?;
        let one = eighths(&curve[from * BINS..]);
        model.iter_mut().zip(one).for_each(|(sum, it)| *sum += it / seeds as f64);
    }
    Some(model)
}

/// Returns the relative residuals of a model by eighths of a pass.
pub fn residuals(model: &[f64; EIGHTHS], real: &[f64; EIGHTHS]) -> [f64; EIGHTHS] {
    std::array::from_fn(|eighth| model[eighth] / real[eighth] - 1.0)
}

/// Returns the relative residual of a model's mean write amplification.
pub fn mean_residual(model: &[f64; EIGHTHS], real: &[f64; EIGHTHS]) -> f64 {
    model.iter().sum::<f64>() / real.iter().sum::<f64>() - 1.0
}

//! Search for the pool whose curve has the least difference from a log.

use hostftl_drives::pool::GcPolicy;

use crate::interval::Interval;
use crate::log::{BINS, EIGHTHS, Log, eighths};
use crate::pool::{Early, PoolShape, simulate};
use crate::refusal::{FitError, Refusal};
use crate::{interval, units};

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
pub(crate) const LEAST_UNITS: u32 = 24;
pub(crate) const MOST_UNITS: u32 = 1000;
const LEAST_ALPHA: f64 = 1.015;
/// Values at which the search for early collection starts: free space below which it starts, spare
/// beyond that, and copies per write as a share of those in the part of a pass with most copies.
const EARLY: [f64; 2] = [0.04, 0.08];
const EARLY_SPARES: [f64; 6] = [0.03, 0.045, 0.06, 0.08, 0.11, 0.15];
const EARLY_COPIES: [f64; 4] = [0.6, 0.75, 0.95, 1.2];
/// Passes that are simulated at most, unless the curve drifts from pass to pass as under `fifo`.
const SIMULATED: usize = 5;
/// Seeds averaged in the first and the last part of the search.
const COARSE: u64 = 1;
pub(crate) const FINE: u64 = 2;
/// Root mean square of the relative residuals above which a log is refused.
pub(crate) const REFUSED: f64 = 0.05;

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

/// Fitted pool with the intervals of its parameters.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Fitted pool.
    pub fit: Fit,
    /// Interval of α, at 95 %.
    pub alpha: Interval<f64>,
    /// Interval of the number of units, at 95 %, or `None` if the log does not determine it.
    pub units: Option<Interval<u32>>,
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

/// Fits a pool to the first `passes` passes of a log. Early collection is tried only if no pool
/// without it has the shape.
///
/// # Errors
/// When the log has fewer passes, or no pool has its shape.
pub fn fit(log: &Log, passes: usize) -> Result<Calibration, FitError> {
    if passes < 2 || passes > log.passes() {
        return Err(FitError::Passes(passes));
    }
    let part = Part { log, fitted: log.eighths(1, passes), passes };
    let mut tried = POLICIES.map(|gc| part.search_plain(gc)).to_vec();
    let mut early = Vec::new();
    if best(&tried).rms > REFUSED {
        early = part.search_early(best(&tried).shape.gc);
        tried.extend((!early.is_empty()).then(|| best(&early)));
    }
    let mut found = best(&tried);
    if found.rms > REFUSED {
        return Err(FitError::Shape(Box::new(Refusal::new(log, tried))));
    }
    let units = units::estimate(&found.shape, log, passes);
    if let Some(units) = &units {
        let shape = PoolShape { units: units.value, ..found.shape };
        let other = part.evaluate(shape, FINE).map(|start| part.refine(start, false));
        found = other.filter(|it| it.rms < found.rms).unwrap_or(found);
    }
    let alpha = interval::of_alpha(&found, &early, |shape| part.evaluate(shape, FINE));
    Ok(Calibration { fit: found, alpha, units })
}

fn best(tried: &[Fit]) -> Fit {
    tried.iter().min_by(|a, b| a.rms.total_cmp(&b.rms)).expect("policies were tried").clone()
}

/// Part of a log to which a pool is fitted.
struct Part<'a> {
    log: &'a Log,
    fitted: [f64; EIGHTHS],
    passes: usize,
}

impl Part<'_> {
    /// Returns the best pool with one policy: the best point of a grid, then a pattern search.
    fn search_plain(&self, gc: GcPolicy) -> Fit {
        let alphas = (0..ALPHAS).map(|step| 1.0 + FIRST_SPARE * NEXT_SPARE.powi(step));
        let shape = |alpha, units| PoolShape { alpha, units, gc, early: None };
        let starts = alphas.flat_map(|alpha| UNITS.map(|units| shape(alpha, units)));
        let start = self.least(starts, COARSE).expect("the grid has possible pools");
        self.refine(start, true)
    }

    /// Returns the best pools with early collection, one for each share at which the search starts.
    fn search_early(&self, gc: GcPolicy) -> Vec<Fit> {
        let curve = self.log.mean_pass(1, self.passes);
        let most = curve.iter().copied().fold(1.0, f64::max) - 1.0;
        let starts = EARLY.map(|share| {
            let rest =
                EARLY_SPARES.into_iter().flat_map(|spare| EARLY_COPIES.map(|it| (spare, it)));
            rest.map(move |(spare, copies)| {
                let early = Some(Early { share, copies: copies * most });
                PoolShape { alpha: 1.0 + spare + share, units: UNITS[1], gc, early }
            })
        });
        let best = starts.into_iter().filter_map(|starts| self.least(starts, COARSE));
        best.map(|start| self.refine(start, false)).collect()
    }

    fn least(&self, shapes: impl IntoIterator<Item = PoolShape>, seeds: u64) -> Option<Fit> {
        let fits = shapes.into_iter().filter_map(|shape| self.evaluate(shape, seeds));
        fits.min_by(|a, b| a.rms.total_cmp(&b.rms))
    }

    /// Improves a fit by a pattern search that reduces its steps. The number of units changes only
    /// with `units`.
    fn refine(&self, mut best: Fit, units: bool) -> Fit {
        let (mut spare, mut factor) = (NEXT_SPARE, 1.6_f64);
        for seeds in [COARSE, COARSE, COARSE, FINE, FINE, FINE] {
            best = self.evaluate(best.shape, seeds).unwrap_or(best);
            for _ in 0..6 {
                let near = neighbours(best.shape, spare, if units { factor } else { 1.0 });
                match self.least(near, seeds).filter(|it| it.rms < best.rms) {
                    Some(better) => best = better,
                    None => break,
                }
            }
            (spare, factor) = (spare.sqrt(), factor.sqrt());
        }
        best
    }

    /// Compares a pool with the fitted passes. Returns `None` if the pool is impossible.
    fn evaluate(&self, shape: PoolShape, seeds: u64) -> Option<Fit> {
        let is_steady = shape.gc != GcPolicy::Fifo;
        let passes = if is_steady { self.passes.min(SIMULATED) } else { self.passes };
        let model = predict(&shape, 1, passes, seeds)?;
        let squares = residuals(&model, &self.fitted).map(|it| it * it);
        let rms = (squares.iter().sum::<f64>() / EIGHTHS as f64).sqrt();
        Some(Fit { shape, model, fitted: self.fitted, rms })
    }
}

/// Returns the shapes at one step from another one: of spare and units, or of the spare and of
/// early collection.
fn neighbours(shape: PoolShape, spare: f64, factor: f64) -> Vec<PoolShape> {
    let steps = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)];
    let Some(early) = shape.early else {
        return Vec::from(steps.map(|(a, u)| {
            let alpha = (1.0 + (shape.alpha - 1.0) * spare.powi(a)).max(LEAST_ALPHA);
            let units = (f64::from(shape.units) * factor.powi(u)).round() as u32;
            PoolShape { alpha, units: units.clamp(LEAST_UNITS, MOST_UNITS), ..shape }
        }));
    };
    let rest = shape.alpha - 1.0 - early.share;
    let steps = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1), (0, 1, 1)];
    let near = steps.into_iter().chain([(0, -1, -1), (0, 1, -1), (0, -1, 1)]).map(|(s, r, c)| {
        let [share, rest] = [early.share * spare.powi(4 * s), rest * spare.powi(r)];
        let early = Some(Early { share, copies: early.copies * spare.powi(c) });
        PoolShape { alpha: 1.0 + rest + share, early, ..shape }
    });
    near.collect()
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

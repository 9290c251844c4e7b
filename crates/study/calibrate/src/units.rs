//! Number of units, from the differences between passes.
//!
//! The curve of a pass hardly depends on the number of units. But a unit that copies have filled
//! only partly at the end of a pass cannot be erased, so the free space at the start of a pass
//! varies by up to one unit, and with it the start of the copies. The standard deviation over the
//! passes of the writes up to the peak of the copies is compared with that of simulated pools. Its
//! distribution over several seeds and spares gives the interval (parametric bootstrap, Efron and
//! Tibshirani, *An Introduction to the Bootstrap*, 1993, section 6.5). The interval holds for a
//! drive that has one write point of copies, as the model.
//!
//! Under other policies than `greedy` the passes differ for other reasons, so a log does not
//! determine the number of units. The same holds for early collection.

use hostftl_drives::pool::GcPolicy;

use crate::fit::{LEAST_UNITS, MOST_UNITS};
use crate::interval::Interval;
use crate::log::{BINS, Log};
use crate::pool::{PAGES, PoolShape, simulate_with};

/// First number of units that is simulated.
const FIRST: u32 = 120;
/// Number of times by which it is corrected.
const ROUNDS: usize = 3;
/// Simulations of each number of units.
const SEEDS: u64 = 12;
/// Range of the spare over the simulations, as a share. The position in the unit where a pass ends
/// depends on the exact spare, which the fit does not know.
const SPARES: f64 = 0.1;
/// Pages of a unit, unless the pool is too large. A real unit has more; with fewer, the pages of
/// victims vary by chance.
const MOST_PAGES: u32 = 2048;
const POOL: u32 = 1 << 18;
/// Passes without which the deviation is not known.
const LEAST_PASSES: usize = 4;
/// Ends of an interval at 95 %, in standard deviations.
const DEVIATIONS: f64 = 1.96;

/// Returns the number of units with its interval, or `None` if the log does not determine it.
pub(crate) fn estimate(shape: &PoolShape, log: &Log, passes: usize) -> Option<Interval<u32>> {
    let is_known = shape.gc == GcPolicy::Greedy && shape.early.is_none();
    if !is_known || passes < LEAST_PASSES {
        return None;
    }
    let mean = log.mean_pass(1, passes);
    let peak = (0..BINS).max_by(|a, b| mean[*a].total_cmp(&mean[*b])).expect("a pass has parts");
    let real = deviation(log.curve(passes), peak).filter(|it| *it > 0.0)?;
    let (mut units, mut spread) = (FIRST, 0.0);
    for _ in 0..ROUNDS {
        let (mean, deviation) = simulated(&PoolShape { units, ..*shape }, passes, peak)?;
        units = limited(f64::from(units) * (mean - real.ln()).exp());
        spread = deviation;
    }
    let end = |sign: f64| limited(f64::from(units) * (sign * DEVIATIONS * spread).exp());
    Some(Interval { value: units, from: end(-1.0), to: end(1.0) })
}

fn limited(units: f64) -> u32 {
    units.round().clamp(f64::from(LEAST_UNITS), f64::from(MOST_UNITS)) as u32
}

/// Returns mean and standard deviation, over several seeds, of the logarithm of the deviation.
fn simulated(shape: &PoolShape, passes: usize, peak: usize) -> Option<(f64, f64)> {
    let pages = (POOL / shape.units).clamp(PAGES, MOST_PAGES);
    let mut all = Vec::new();
    for seed in 1..=SEEDS {
        let share = (seed - 1) as f64 / (SEEDS - 1) as f64 - 0.5;
        let alpha = 1.0 + (shape.alpha - 1.0) * (1.0 + SPARES * share);
        let curve = simulate_with(&PoolShape { alpha, ..*shape }, pages, passes, seed).ok()?;
        all.push(deviation(&curve, peak).filter(|it| *it > 0.0)?.ln());
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let square: f64 = all.iter().map(|it| (it - mean).powi(2)).sum();
    Some((mean, (square / (all.len() - 1) as f64).sqrt()))
}

/// Returns the standard deviation of the writes of a pass up to the part `peak`, over all passes
/// but the first.
fn deviation(curve: &[f64], peak: usize) -> Option<f64> {
    let passes = curve.chunks_exact(BINS).skip(1);
    let parts: Vec<f64> = passes.map(|pass| pass[..=peak].iter().sum()).collect();
    let count = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / count;
    let square: f64 = parts.iter().map(|it| (it - mean).powi(2)).sum();
    (count >= 2.0).then(|| (square / (count - 1.0)).sqrt())
}

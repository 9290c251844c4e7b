//! Number of units, from the differences between passes.
//!
//! The curve of a pass hardly depends on the number of units. But a unit that copies have filled
//! only partly at the end of a pass cannot be erased, so the free space at the start of a pass
//! varies by up to one unit, and with it the copies in the first half of the pass. Their standard
//! deviation over the passes is compared with that of simulated pools. Its distribution over
//! several seeds gives the interval (parametric bootstrap, Efron and Tibshirani, *An Introduction
//! to the Bootstrap*, 1993, section 6.5).
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
const SEEDS: u64 = 8;
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
    let real = deviation(log.curve(passes)).filter(|it| *it > 0.0)?;
    let (mut units, mut spread) = (FIRST, 0.0);
    for _ in 0..ROUNDS {
        let (mean, deviation) = simulated(&PoolShape { units, ..*shape }, passes)?;
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
fn simulated(shape: &PoolShape, passes: usize) -> Option<(f64, f64)> {
    let pages = (POOL / shape.units).clamp(PAGES, MOST_PAGES);
    let mut all = Vec::new();
    for seed in 1..=SEEDS {
        let curve = simulate_with(shape, pages, passes, seed).ok()?;
        all.push(deviation(&curve).filter(|it| *it > 0.0)?.ln());
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let square: f64 = all.iter().map(|it| (it - mean).powi(2)).sum();
    Some((mean, (square / (all.len() - 1) as f64).sqrt()))
}

/// Returns the standard deviation of the writes in the first half of a pass, over all passes but
/// the first.
fn deviation(curve: &[f64]) -> Option<f64> {
    let halves: Vec<f64> =
        curve.chunks_exact(BINS).skip(1).map(|pass| pass[..BINS / 2].iter().sum()).collect();
    let count = halves.len() as f64;
    let mean = halves.iter().sum::<f64>() / count;
    let square: f64 = halves.iter().map(|it| (it - mean).powi(2)).sum();
    (count >= 2.0).then(|| (square / (count - 1.0)).sqrt())
}

//! Parameters of simulated pools are recovered from their curves, and other shapes are refused.

use hostftl_calibrate::{BINS, FitError, Log, PoolShape, fit, mean_residual, residuals, simulate};
use hostftl_drives::pool::GcPolicy;

/// Largest relative residual of an eighth of the pass that was held back.
const EIGHTH: f64 = 0.05;

fn assert_recovered(hidden: PoolShape) {
    let log = Log::new(simulate(&hidden, 5, 77).expect("the pool is possible")).unwrap();
    let found = fit(&log, 4).expect("a simulated pool has a fit");
    assert_eq!(found.shape.gc, hidden.gc, "{found:?}");
    assert!((found.shape.alpha - hidden.alpha).abs() < 0.01, "{found:?}");
    let held_back = log.eighths(4, 5);
    let predicted = found.predict(4, 5);
    assert!(mean_residual(&predicted, &held_back).abs() < 0.02, "{found:?}");
    let residuals = residuals(&predicted, &held_back);
    assert!(residuals.iter().all(|it| it.abs() < EIGHTH), "{residuals:?}");
}

#[test]
fn greedy_is_recovered() {
    assert_recovered(PoolShape { alpha: 1.21, units: 160, gc: GcPolicy::Greedy });
}

#[test]
fn fifo_is_recovered() {
    assert_recovered(PoolShape { alpha: 1.27, units: 160, gc: GcPolicy::Fifo });
}

/// Write amplification that rises within a pass belongs to no pool under a permutation.
#[test]
fn another_shape_is_refused() {
    let curve = (0..4 * BINS).map(|bin| 1.0 + (bin % BINS) as f64 / 8.0).collect();
    let error = fit(&Log::new(curve).unwrap(), 4).unwrap_err();
    assert!(matches!(error, FitError::Shape(_)), "{error}");
    assert!(error.to_string().starts_with("cannot fit the log: the nearest pool"), "{error}");
}

//! Parameters of simulated pools are recovered from their curves, and other shapes are refused.

use hostftl_calibrate::{
    BINS, EIGHTHS, FitError, Log, PoolShape, fit, mean_residual, residuals, simulate,
};
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

/// Makes a log from the eighths of the passes after the one that fills the drive.
fn log_of(eighths: [f64; EIGHTHS]) -> Log {
    let passes = (0..4).flat_map(|_| (0..BINS).map(|bin| eighths[bin * EIGHTHS / BINS]));
    Log::new([1.0; BINS].into_iter().chain(passes).collect()).expect("the log is valid")
}

/// Mean eighths of the passes 2 to 5 of a commercial drive of 7.68 TB, and those of the passes 6 to
/// 12, which the fit does not use.
#[test]
fn held_back_passes_of_a_real_drive_are_predicted() {
    let log = log_of([1.00, 2.93, 3.22, 2.32, 2.27, 1.85, 1.51, 1.18]);
    let held_back = [1.00, 2.91, 3.23, 2.33, 2.27, 1.85, 1.51, 1.18];
    let found = fit(&log, 5).expect("the drive has a fit");
    assert_eq!(found.shape.gc, GcPolicy::Greedy, "{found:?}");
    assert!((found.shape.alpha - 1.183).abs() < 0.01, "{found:?}");
    let predicted = found.predict(5, 12);
    assert!(mean_residual(&predicted, &held_back).abs() < 0.02, "{predicted:?}");
    let residuals = residuals(&predicted, &held_back);
    assert!(residuals.iter().all(|it| it.abs() < EIGHTH), "{residuals:?}");
}

/// A commercial drive of 3.84 TB, passes 2 to 5. It collects more in the first eighth of a pass
/// than any pool of the models, so no parameters would describe it.
#[test]
fn a_real_drive_of_another_shape_is_refused() {
    let log = log_of([4.35, 5.55, 4.88, 4.16, 3.45, 2.76, 2.07, 1.38]);
    let FitError::Shape(nearest) = fit(&log, 5).unwrap_err() else { panic!("it has passes") };
    assert_eq!(nearest.worst().0, 0, "{nearest:?}");
}

/// Write amplification that rises within a pass belongs to no pool under a permutation.
#[test]
fn another_shape_is_refused() {
    let curve = (0..4 * BINS).map(|bin| 1.0 + (bin % BINS) as f64 / 8.0).collect();
    let error = fit(&Log::new(curve).unwrap(), 4).unwrap_err();
    assert!(matches!(error, FitError::Shape(_)), "{error}");
    assert!(error.to_string().starts_with("cannot fit the log: the nearest pool"), "{error}");
}

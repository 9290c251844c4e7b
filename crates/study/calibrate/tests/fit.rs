//! Parameters of simulated pools are recovered from their curves, and other shapes are refused.

use hostftl_calibrate::{
    BINS, EIGHTHS, Early, FitError, Log, PoolShape, fit, mean_residual, residuals, simulate,
};
use hostftl_drives::pool::GcPolicy;

/// Largest relative residual of an eighth of the pass that was held back.
const EIGHTH: f64 = 0.05;

fn assert_recovered(hidden: PoolShape) {
    let log = Log::new(simulate(&hidden, 5, 77).expect("the pool is possible")).unwrap();
    let found = fit(&log, 4).expect("a simulated pool has a fit");
    let (alpha, found) = (found.alpha, found.fit);
    assert_eq!(found.shape.gc, hidden.gc, "{found:?}");
    assert!((found.shape.alpha - hidden.alpha).abs() < 0.01, "{found:?}");
    assert!(alpha.from < alpha.value && alpha.value < alpha.to, "{alpha:?}");
    assert!(alpha.to - alpha.from < 0.05, "{alpha:?}");
    let held_back = log.eighths(4, 5);
    let predicted = found.predict(4, 5);
    assert!(mean_residual(&predicted, &held_back).abs() < 0.02, "{found:?}");
    let residuals = residuals(&predicted, &held_back);
    assert!(residuals.iter().all(|it| it.abs() < EIGHTH), "{residuals:?}");
}

#[test]
fn greedy_is_recovered() {
    assert_recovered(PoolShape { alpha: 1.21, units: 160, gc: GcPolicy::Greedy, early: None });
}

#[test]
fn fifo_is_recovered() {
    assert_recovered(PoolShape { alpha: 1.27, units: 160, gc: GcPolicy::Fifo, early: None });
}

/// Makes a log from the eighths of the passes after the one that fills the drive.
fn log_of(eighths: [f64; EIGHTHS]) -> Log {
    let passes = (0..4).flat_map(|_| (0..BINS).map(|bin| eighths[bin * EIGHTHS / BINS]));
    Log::new([1.0; BINS].into_iter().chain(passes).collect()).expect("the log is valid")
}

/// Fits the passes 2 to 5 of a real drive and compares the prediction with the passes 6 to 12,
/// which the fit does not use.
fn assert_predicted(fitted: [f64; EIGHTHS], held_back: [f64; EIGHTHS], bar: f64) -> PoolShape {
    let found = fit(&log_of(fitted), 5).expect("the drive has a fit").fit;
    assert_eq!(found.shape.gc, GcPolicy::Greedy, "{found:?}");
    let predicted = found.predict(5, 12);
    assert!(mean_residual(&predicted, &held_back).abs() < 0.02, "{predicted:?}");
    let residuals = residuals(&predicted, &held_back);
    assert!(residuals.iter().all(|it| it.abs() < bar), "{residuals:?}");
    found.shape
}

/// A commercial drive of 7.68 TB.
#[test]
fn held_back_passes_of_drive_a_are_predicted() {
    let fitted = [1.00, 2.93, 3.22, 2.32, 2.27, 1.85, 1.51, 1.18];
    let held_back = [1.00, 2.91, 3.23, 2.33, 2.27, 1.85, 1.51, 1.18];
    let shape = assert_predicted(fitted, held_back, EIGHTH);
    assert!((shape.alpha - 1.183).abs() < 0.01 && shape.early.is_none(), "{shape:?}");
}

/// A commercial drive of 3.84 TB. It has copies in the first eighth of a pass, which no pool has
/// that collects garbage only when necessary.
#[test]
fn held_back_passes_of_drive_b_are_predicted() {
    let fitted = [4.34, 5.55, 4.87, 4.16, 3.44, 2.76, 2.07, 1.37];
    let held_back = [4.29, 5.64, 4.87, 4.15, 3.45, 2.76, 2.07, 1.38];
    let shape = assert_predicted(fitted, held_back, 0.08);
    let Some(Early { copies, .. }) = shape.early else { panic!("{shape:?}") };
    assert!((4.0..6.0).contains(&copies), "{shape:?}");
}

/// Makes a log of four passes of a curve that no pool has, and returns the reason of the refusal.
fn refused(first: f64, curve: impl Fn(usize) -> f64) -> String {
    let passes = (0..3 * BINS).map(|bin| curve(bin % BINS));
    let log = Log::new([first; BINS].into_iter().chain(passes).collect()).expect("it is valid");
    let error = fit(&log, 4).expect_err("no pool has this curve");
    assert!(matches!(error, FitError::Shape(_)), "{error}");
    error.to_string()
}

#[test]
fn a_refusal_names_the_eighths_and_the_cause() {
    let rising = refused(1.0, |bin| 1.0 + bin as f64 / 8.0);
    assert!(rising.starts_with("cannot fit the log: the nearest pool ("), "{rising}");
    assert!(rising.contains("eighth 8 by -"), "{rising}");
    assert!(rising.contains("residuals (rms): "), "{rising}");
    assert!(rising.ends_with("the curve rises, so the workload is not a permutation"), "{rising}");
    let flat = refused(1.5, |_| 3.0);
    assert!(flat.contains("so the drive was not empty; the curve is flat"), "{flat}");
}

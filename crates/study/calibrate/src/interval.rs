//! Interval of α from the profile of the likelihood.
//!
//! The relative residuals of the eighths are treated as normal with an unknown variance. With the
//! variance and the other parameters at their best for each α, α is in the interval while
//! `n · ln(S(α) / S)` is at most the 95 % point of χ² with one degree of freedom, where `S` is the
//! sum of the squared residuals (Pawitan, *In All Likelihood*, 2001, section 3.4). Residuals of
//! neighbouring eighths are correlated, so `n` is the effective number of residuals,
//! `8 (1 − ρ) / (1 + ρ)` for the correlation ρ of neighbours (Bayley and Hammersley, *Journal of
//! the Royal Statistical Society* 8, 1946).
//!
//! The units of the simulated pools have fewer pages than those of a drive, and this shifts α by
//! more than the interval. So the interval is extended by the largest usual shift, which was
//! measured with the drawn drives of the recovery test.

use crate::fit::{Fit, residuals};
use crate::log::EIGHTHS;
use crate::pool::{Early, PoolShape};

/// 95 % point of χ² with one degree of freedom.
const CHI_SQUARE: f64 = 3.84;
/// Extension of the interval at both ends, for the reduced scale of the simulation.
const SCALE: f64 = 0.005;
/// First distance from the fitted α, and the number of times by which it is doubled at most.
const FIRST: f64 = 0.000_25;
const DOUBLINGS: u32 = 10;
/// Number of halvings after the end of the interval was passed.
const HALVINGS: u32 = 4;
/// Relative steps of each other parameter, of which the best is taken.
const STEPS: [f64; 5] = [1.0, 0.985, 1.015, 0.96, 1.04];
/// Least effective number of residuals.
const LEAST: f64 = 2.0;

/// Fitted value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval<T> {
    /// Fitted value.
    pub value: T,
    /// Lower end.
    pub from: T,
    /// Upper end.
    pub to: T,
}

/// Returns the interval of α. It covers every other fit that is as likely as its ends. `evaluate`
/// compares a pool with the log.
pub(crate) fn of_alpha(
    fit: &Fit,
    other: &[Fit],
    evaluate: impl Fn(PoolShape) -> Option<Fit>,
) -> Interval<f64> {
    let alpha = fit.shape.alpha;
    let limit = fit.rms * (CHI_SQUARE / effective(fit) / 2.0).exp();
    let is_inside = |alpha: f64| {
        let fits = others(fit.shape, alpha).into_iter().filter_map(&evaluate);
        fits.map(|it| it.rms).fold(f64::INFINITY, f64::min) <= limit
    };
    let end = |sign: f64| {
        let (mut inside, mut step) = (0.0, FIRST);
        let mut outside = None;
        for _ in 0..DOUBLINGS {
            if alpha + sign * step <= 1.0 || !is_inside(alpha + sign * step) {
                outside = Some(step);
                break;
            }
            (inside, step) = (step, 2.0 * step);
        }
        let Some(mut outside) = outside else { return alpha + sign * inside };
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(inside, outside);
            if is_inside(alpha + sign * middle) { inside = middle } else { outside = middle }
        }
        alpha + sign * outside
    };
    let likely = other.iter().filter(|it| it.rms <= limit).map(|it| it.shape.alpha);
    let (from, to) =
        likely.fold((end(-1.0), end(1.0)), |(from, to), alpha| (alpha.min(from), alpha.max(to)));
    Interval { value: alpha, from: (from - SCALE).max(1.0), to: to + SCALE }
}

/// Returns the effective number of residuals.
fn effective(fit: &Fit) -> f64 {
    let all = residuals(&fit.model, &fit.fitted);
    let mean = all.iter().sum::<f64>() / EIGHTHS as f64;
    let square: f64 = all.iter().map(|it| (it - mean).powi(2)).sum();
    let product: f64 = all.windows(2).map(|it| (it[0] - mean) * (it[1] - mean)).sum();
    let correlation = if square > 0.0 { (product / square).clamp(0.0, 0.9) } else { 0.0 };
    (EIGHTHS as f64 * (1.0 - correlation) / (1.0 + correlation)).max(LEAST)
}

/// Returns pools with another α and other parameters near those of the fit. The spare at which
/// early collection starts is determined by the log, so a larger α has more of it early.
fn others(shape: PoolShape, alpha: f64) -> Vec<PoolShape> {
    let Some(early) = shape.early else {
        let units = [1.0, 2.5, 0.4].map(|it| (f64::from(shape.units) * it).round() as u32);
        return Vec::from(units.map(|units| PoolShape { alpha, units, ..shape }));
    };
    let rest = shape.alpha - 1.0 - early.share;
    let steps = STEPS.map(|it| (it, 1.0)).into_iter().chain(STEPS.map(|it| (1.0, it)));
    let pools = steps.filter(|it| alpha - 1.0 > it.0 * rest).map(|(of_rest, of_copies)| {
        let share = alpha - 1.0 - of_rest * rest;
        let early = Early { share, copies: of_copies * early.copies };
        PoolShape { alpha, early: Some(early), ..shape }
    });
    pools.collect()
}

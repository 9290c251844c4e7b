//! Statistics over several seeds: mean, standard deviation and confidence interval.

use serde::Serialize;

/// Quantiles of Student's t for 97.5 %, by degrees of freedom from 1. Source: statistical tables
/// such as NIST/SEMATECH e-Handbook, 1.3.6.7.2.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same quantile of the normal distribution.
const NORMAL: f64 = 1.960;

/// Statistics of several values of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Number of values.
    pub seeds: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation; `None` for a single value.
    pub deviation: Option<f64>,
    /// Half width of the 95 % confidence interval of the mean, if the values are normally
    /// distributed: Student's t times the standard error.
    pub half_interval: Option<f64>,
}

impl Spread {
    /// Returns the statistics of `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let seeds = values.len();
        let mean = values.iter().sum::<f64>() / seeds as f64;
        // The mean of equal values must equal them exactly.
        let mean = if values.iter().all(|it| *it == values[0]) { *values.first()? } else { mean };
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = (seeds > 1).then(|| (squares / (seeds - 1) as f64).sqrt());
        let half = |deviation: f64| t(seeds - 1) * deviation / (seeds as f64).sqrt();
        Some(Spread { seeds, mean, deviation, half_interval: deviation.map(half) })
    }

    /// Returns the statistics of the paired differences of `one` and `other`.
    pub fn of_differences(one: &[f64], other: &[f64]) -> Option<Self> {
        let pairs = one.iter().zip(other);
        Spread::of(&pairs.map(|(one, other)| one - other).collect::<Vec<_>>())
    }

    /// Returns the bounds of the confidence interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half_interval.map(|half| (self.mean - half, self.mean + half))
    }

    /// Returns whether the confidence interval contains zero.
    pub fn may_be_zero(&self) -> bool {
        self.interval().is_some_and(|(from, to)| from <= 0.0 && to >= 0.0)
    }

    /// Formats the mean with the half width of the interval, if there is one.
    pub fn show(&self, show: impl Fn(f64) -> String) -> String {
        match self.half_interval {
            Some(half) => format!("{} ± {}", show(self.mean), show(half)),
            None => show(self.mean),
        }
    }
}

/// Returns the quantile for `freedom` degrees of freedom, at least 1.
fn t(freedom: usize) -> f64 {
    T.get(freedom.max(1) - 1).copied().unwrap_or(NORMAL + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_students() {
        let spread = Spread::of(&[2.0, 4.0, 6.0]).expect("three values");
        assert_eq!((spread.mean, spread.deviation), (4.0, Some(2.0)));
        let (from, to) = spread.interval().expect("an interval");
        assert!((to - from - 2.0 * 4.303 * 2.0 / 3f64.sqrt()).abs() < 1e-9);
        assert!(Spread::of(&[]).is_none() && Spread::of(&[3.0]).expect("one").interval().is_none());
        assert_eq!(Spread::of(&[0.1; 7]).expect("seven").deviation, Some(0.0));
        assert!(t(31) < t(30) && t(10_000) < 1.961);
        assert_eq!(spread.show(|value| format!("{value:.1}")), "4.0 ± 5.0");
    }

    #[test]
    fn differences_are_taken_per_seed() {
        let (one, other) = ([1.0, 5.0, 9.0], [1.1, 5.1, 9.1]);
        assert!(!Spread::of_differences(&one, &other).expect("three").may_be_zero());
        let other = [1.3, 4.7, 9.1];
        assert!(Spread::of_differences(&one, &other).expect("three").may_be_zero());
        assert!(Spread::of_differences(&one, &one).expect("three").may_be_zero());
    }
}

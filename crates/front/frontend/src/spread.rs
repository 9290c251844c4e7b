//! What several seeds come to: the mean, how far they lie apart, and how sure the mean is.

use serde::Serialize;

/// Quantiles of Student's t for 97.5 % and so many degrees of freedom, from 1: tables of statistics
/// have them, such as NIST/SEMATECH e-Handbook, 1.3.6.7.2.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same of the normal distribution.
const NORMAL: f64 = 1.960;

/// Several values of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many values.
    pub seeds: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; of one value nothing is known.
    pub deviation: Option<f64>,
    /// From the mean to each end of the interval that has the true mean in 95 of 100 cases, if the
    /// values are normally distributed: Student's t times the standard error.
    pub half_interval: Option<f64>,
}

impl Spread {
    /// Of `values`; nothing of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let seeds = values.len();
        let mean = values.iter().sum::<f64>() / seeds as f64;
        // The mean of equal values is that value, to the last digit.
        let mean = if values.iter().all(|it| *it == values[0]) { *values.first()? } else { mean };
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = (seeds > 1).then(|| (squares / (seeds - 1) as f64).sqrt());
        let half = |deviation: f64| t(seeds - 1) * deviation / (seeds as f64).sqrt();
        Some(Spread { seeds, mean, deviation, half_interval: deviation.map(half) })
    }

    /// Of the differences of `one` and `other`, seed by seed.
    pub fn of_differences(one: &[f64], other: &[f64]) -> Option<Self> {
        let pairs = one.iter().zip(other);
        Spread::of(&pairs.map(|(one, other)| one - other).collect::<Vec<_>>())
    }

    /// The ends of the interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half_interval.map(|half| (self.mean - half, self.mean + half))
    }

    /// Whether nothing says that the true mean is not zero.
    pub fn may_be_zero(&self) -> bool {
        self.interval().is_some_and(|(from, to)| from <= 0.0 && to >= 0.0)
    }

    /// The mean with half of the interval behind it, where there is one.
    pub fn show(&self, show: impl Fn(f64) -> String) -> String {
        match self.half_interval {
            Some(half) => format!("{} ± {}", show(self.mean), show(half)),
            None => show(self.mean),
        }
    }
}

/// The quantile for so many degrees of freedom, at least 1.
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
    fn differences_go_seed_by_seed() {
        let (one, other) = ([1.0, 5.0, 9.0], [1.1, 5.1, 9.1]);
        assert!(!Spread::of_differences(&one, &other).expect("three").may_be_zero());
        let other = [1.3, 4.7, 9.1];
        assert!(Spread::of_differences(&one, &other).expect("three").may_be_zero());
        assert!(Spread::of_differences(&one, &one).expect("three").may_be_zero());
    }
}

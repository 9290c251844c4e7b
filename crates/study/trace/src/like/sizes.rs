//! Distribution of write lengths with a given median, 90th percentile and mean.

use hostftl_core::SECTOR;

/// Lengths in increasing order, each with its share of the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes(pub [(u64, f64); 5]);

/// Shares of the five lengths. The median is in the second, the 90th percentile in the fourth.
const SHARES: [f64; 5] = [0.45, 0.10, 0.33, 0.04, 0.08];

impl Sizes {
    /// Fits the lengths in whole sectors. All arguments are in bytes.
    ///
    /// The 45 % below the median have the length of the median, unless the mean requires shorter
    /// ones. The third length is between the median and the 90th percentile, and the longest length
    /// is determined by the mean.
    pub(super) fn fit(median: f64, p90: f64, mean: f64) -> Self {
        let sector = SECTOR as f64;
        let middle = (median * p90).sqrt();
        let of = |low: f64, middle: f64, high: f64| [low, median, middle, p90, high];
        let average = |sizes: [f64; 5]| sizes.iter().zip(SHARES).map(|(size, p)| size * p).sum();
        let solve = |from: f64, to: f64, make: &dyn Fn(f64) -> [f64; 5]| -> [f64; 5] {
            let (at_from, at_to): (f64, f64) = (average(make(from)), average(make(to)));
            let part = if at_to > at_from { (mean - at_from) / (at_to - at_from) } else { 0.0 };
            make(from + part.clamp(0.0, 1.0) * (to - from))
        };
        let sizes = if mean < average(of(median, median, p90)) {
            solve(sector, median, &|low| of(low, median, p90))
        } else if mean < average(of(median, middle, p90)) {
            solve(median, middle, &|middle| of(median, middle, p90))
        } else {
            solve(p90, p90 + mean / SHARES[4], &|high| of(median, middle, high))
        };
        let mut fitted = [(0, 0.0); 5];
        for (index, (size, share)) in sizes.into_iter().zip(SHARES).enumerate() {
            fitted[index] = (((size / sector).round() as u64).max(1), share);
        }
        Sizes(fitted)
    }

    /// Returns the mean of `of` applied to the lengths in sectors.
    pub(super) fn mean(&self, of: impl Fn(u64) -> f64) -> f64 {
        self.0.iter().map(|(sectors, share)| of(*sectors) * share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_sizes_match_the_mean() {
        let cases = [
            (4096.0, 16384.0, 10240.0),
            (4096.0, 4096.0, 4096.0),
            (512.0, 8192.0, 3482.0),
            (331_776.0, 761_856.0, 414_515.0),
            (524_288.0, 524_288.0, 408_371.0),
            (4096.0, 1_044_480.0, 217_088.0),
        ];
        for (median, p90, mean) in cases {
            let fitted = Sizes::fit(median, p90, mean);
            let made = fitted.mean(|sectors| sectors as f64 * 512.0);
            assert!((made / mean - 1.0).abs() < 0.03, "{fitted:?}: {made} for {mean}");
            assert!(fitted.0.is_sorted_by_key(|(sectors, _)| *sectors), "{fitted:?}");
        }
    }
}

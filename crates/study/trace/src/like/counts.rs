//! Distribution of writes per page: a quantile function through four published points. Its shape
//! between the points gives the mean that the requests need.

/// Shares of the pages at the published points. Each point is a small plateau.
const PLATEAUS: [(f64, f64); 3] = [(0.48, 0.52), (0.89, 0.91), (0.945, 0.955)];
/// Steepest shape: nearly all pages have the minimum number of writes.
const STEEPEST: f64 = 1e4;
/// Points at which the mean is evaluated, denser towards the most-written pages.
const POINTS: u32 = 20_000;

/// Number of writes as a function of a page's rank, as a share of all pages from the least-written
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counts {
    /// p50, p90, p95 and the maximum.
    points: [f64; 4],
    /// Exponents of the shape below p95 and above it.
    body: f64,
    tail: f64,
}

impl Counts {
    /// Fits a distribution through `points`. Its mean over all pages except the most-written share
    /// `top` is `mean`, or as near as the points allow.
    pub(super) fn fit(points: [f64; 4], mean: f64, top: f64) -> Self {
        let points = points.map(|point| point.round().max(1.0));
        let mut counts = Counts { points, body: 1.0, tail: STEEPEST };
        if counts.mean(top) > mean {
            counts.body = solve(1.0, STEEPEST, |body| Counts { body, ..counts }.mean(top) - mean);
        } else {
            counts.tail = solve(1e-3, STEEPEST, |tail| Counts { tail, ..counts }.mean(top) - mean);
        }
        counts
    }

    /// Returns the writes of the page at `share`, which is below 1.
    pub(super) fn at(&self, share: f64) -> u64 {
        let [p50, p90, p95, most] = self.points;
        let bounds = [(0.0, 1.0), (PLATEAUS[0].1, p50), (PLATEAUS[1].1, p90), (PLATEAUS[2].1, p95)];
        let ends = [(PLATEAUS[0].0, p50), (PLATEAUS[1].0, p90), (PLATEAUS[2].0, p95), (1.0, most)];
        let part = bounds.iter().rposition(|(from, _)| share >= *from).unwrap_or(0);
        let ((from, low), (to, high)) = (bounds[part], ends[part]);
        let x = ((share - from) / (to - from)).clamp(0.0, 1.0);
        let value = match part {
            3 => low * (high / low).powf(x.powf(self.tail)),
            _ => low + (high - low) * x.powf(self.body),
        };
        value.round() as u64
    }

    /// Returns the mean over all pages except the most-written share `top`.
    fn mean(&self, top: f64) -> f64 {
        let step = top.ln() / f64::from(POINTS);
        let mut sum = 0.0;
        for point in 0..POINTS {
            let upper = (step * f64::from(point)).exp();
            let lower = (step * f64::from(point + 1)).exp();
            sum += self.at(1.0 - (upper + lower) / 2.0) as f64 * (upper - lower);
        }
        sum / (1.0 - top)
    }
}

/// Returns the zero of the decreasing function `excess` between `low` and `high`, which are
/// positive.
fn solve(low: f64, high: f64, excess: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low.ln(), high.ln());
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if excess(middle.exp()) > 0.0 { low = middle } else { high = middle }
    }
    high.exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_counts_match_points_and_mean() {
        for (points, mean) in
            [([32.0, 241.0, 422.0, 508_818.0], 154.0), ([1.0, 2.0, 4.0, 8377.0], 2.3)]
        {
            let counts = Counts::fit(points, mean, 1e-5);
            assert!((counts.mean(1e-5) / mean - 1.0).abs() < 0.02, "{counts:?}");
            assert_eq!([0.5, 0.9, 0.95].map(|q| counts.at(q) as f64), points[..3]);
            assert!(
                (0..999)
                    .all(|i| counts.at(f64::from(i) / 1e3) <= counts.at(f64::from(i + 1) / 1e3))
            );
        }
    }
}

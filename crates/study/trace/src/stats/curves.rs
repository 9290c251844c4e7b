//! Curves for charts of a trace.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Points of a curve; enough for print.
const POINTS: u64 = 240;
/// Maximum number of time intervals; a power of two.
const MOST_INTERVALS: usize = 256;
/// Initial length of an interval, in ns.
const SHORTEST: u64 = 1 << 10;

/// Curves of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// Writes per page, in increasing order: the share of the written pages with at most this
    /// number of writes, and the number.
    pub writes_per_page: Vec<(f64, u64)>,
    /// Times between requests in ns, and the share of times that are not longer.
    pub interarrival: Vec<(u64, f64)>,
    /// Bytes read and written in each time interval.
    pub traffic: Vec<(u64, u64)>,
    /// Length of such an interval in ns.
    pub interval_ns: u64,
}

/// Sectors read and written in intervals whose length grows with the trace.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    pub intervals: Vec<(u64, u64)>,
    pub length_ns: u64,
    first_ns: Option<u64>,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic { intervals: Vec::new(), length_ns: SHORTEST, first_ns: None }
    }
}

impl Traffic {
    /// Counts a transfer at `t_ns`. A transfer before the first request is counted at the time of
    /// that request.
    pub(super) fn count(&mut self, t_ns: u64, read: u64, written: u64) {
        let since = t_ns.saturating_sub(*self.first_ns.get_or_insert(t_ns));
        while since / self.length_ns >= MOST_INTERVALS as u64 {
            self.join();
        }
        let at = (since / self.length_ns) as usize;
        if at >= self.intervals.len() {
            self.intervals.resize(at + 1, (0, 0));
        }
        let (reads, writes) = &mut self.intervals[at];
        (*reads, *writes) = (reads.saturating_add(read), writes.saturating_add(written));
    }

    /// Doubles the length of the intervals.
    fn join(&mut self) {
        let sum = |pair: &[(u64, u64)]| {
            let add = |sum: (u64, u64), it: &(u64, u64)| {
                (sum.0.saturating_add(it.0), sum.1.saturating_add(it.1))
            };
            pair.iter().fold((0, 0), add)
        };
        self.intervals = self.intervals.chunks(2).map(sum).collect();
        self.length_ns *= 2;
    }
}

/// Returns the curve of writes per page, from the number of pages for each number of writes.
pub(super) fn per_page(pages: &BTreeMap<u64, u64>) -> Vec<(f64, u64)> {
    let total = pages.values().fold(0u64, |sum, it| sum.saturating_add(*it)) as f64;
    let (mut points, mut seen) = (Vec::new(), 0u64);
    let mut shown = -1.0;
    for (index, (writes, count)) in pages.iter().enumerate() {
        seen = seen.saturating_add(*count);
        let share = seen as f64 / total;
        let is_last = index + 1 == pages.len();
        if (share - shown) * POINTS as f64 >= 1.0 || is_last {
            points.push((share, *writes));
            shown = share;
        }
    }
    points
}

/// Returns the curve of the times between requests.
pub(super) fn interarrival(gaps: &Histogram<u64>) -> Vec<(u64, f64)> {
    let quantiles = (0..=POINTS).map(|point| point as f64 / POINTS as f64);
    let all = quantiles.map(|share| (gaps.value_at_quantile(share), share));
    if gaps.is_empty() { Vec::new() } else { all.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_grow_without_losing_counts() {
        let mut traffic = Traffic::default();
        (0..10_000u64).for_each(|i| traffic.count(5_000 + i * 1_000_000, 1, 2));
        traffic.count(0, 1, 2);
        let sum = |pick: fn(&(u64, u64)) -> u64| traffic.intervals.iter().map(pick).sum::<u64>();
        assert_eq!((sum(|it| it.0), sum(|it| it.1)), (10_001, 20_002));
        assert!((128..=256).contains(&traffic.intervals.len()), "{}", traffic.intervals.len());
        traffic.count(u64::MAX, 1, 1);
        assert!(traffic.intervals.len() <= 256);
    }

    #[test]
    fn a_curve_has_its_ends_and_few_points() {
        let pages: BTreeMap<u64, u64> = (1..=10_000).map(|writes| (writes, 3)).collect();
        let curve = per_page(&pages);
        assert_eq!((curve[0].1, curve[curve.len() - 1]), (1, (1.0, 10_000)));
        assert!(curve.len() <= 242 && curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        let middle = curve.iter().find(|point| point.0 >= 0.5).unwrap();
        assert!((4_950..5_100).contains(&middle.1), "{middle:?}");
        assert!(per_page(&BTreeMap::new()).is_empty());
    }
}

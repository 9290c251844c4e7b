//! Latencies of requests, from their submission to the layer until the answer.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::running::front::job::JobOp;

/// Maximum latency that is recorded, in ns: 90 seconds.
const LONGEST: u64 = 90_000_000_000;
/// Upper bounds of the buckets, in ns: from the fastest memory to a hung device.
const BOUNDS: [u64; 18] = [
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    20_000_000_000,
];

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
    Flush,
    Trim,
}

impl RequestKind {
    const ALL: [(RequestKind, &str); 4] = [
        (RequestKind::Read, "read"),
        (RequestKind::Write, "write"),
        (RequestKind::Flush, "flush"),
        (RequestKind::Trim, "trim"),
    ];

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the kind of a job.
    pub(crate) fn from_op(op: &JobOp) -> Self {
        match op {
            JobOp::Read(_) | JobOp::Status => RequestKind::Read,
            JobOp::Write { .. } => RequestKind::Write,
            JobOp::Flush => RequestKind::Flush,
            JobOp::Trim { .. } | JobOp::Zeroes { .. } => RequestKind::Trim,
        }
    }
}

/// Latencies since the volume was started, for each kind of request.
#[derive(Debug, Default)]
pub(crate) struct Latencies([Recorded; 4]);

/// Latencies of one kind of request.
#[derive(Debug)]
struct Recorded {
    /// With a precision of two digits.
    histogram: Histogram<u64>,
    sum_ns: u64,
}

impl Default for Recorded {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LONGEST, 2).expect("two digits are possible");
        Recorded { histogram, sum_ns: 0 }
    }
}

/// Requests with a latency of at most `up_to_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyBucket {
    /// Upper bound in ns.
    pub up_to_ns: u64,
    /// Number of requests up to the bound, those of the smaller buckets included.
    pub count: u64,
}

/// Latencies of one kind of request, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Latency {
    /// `read`, `write`, `flush` or `trim` (which includes zeroing).
    pub request: String,
    pub count: u64,
    pub sum_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    pub buckets: Vec<LatencyBucket>,
}

impl Latencies {
    /// Records a latency.
    pub(crate) fn note(&mut self, kind: RequestKind, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(LONGEST).clamp(1, LONGEST);
        let recorded = &mut self.0[kind as usize];
        recorded.histogram.saturating_record(nanos);
        recorded.sum_ns = recorded.sum_ns.saturating_add(nanos);
    }

    /// Returns the kinds with at least one request.
    pub(crate) fn list(&self) -> Vec<Latency> {
        let all = RequestKind::ALL.iter().map(|(kind, name)| (&self.0[*kind as usize], name));
        let some = all.filter(|(it, _)| !it.histogram.is_empty());
        some.map(|(it, name)| it.latency(name)).collect()
    }
}

impl Recorded {
    fn latency(&self, request: &str) -> Latency {
        let Recorded { histogram, sum_ns } = self;
        let bucket =
            |up_to_ns| LatencyBucket { up_to_ns, count: histogram.count_between(0, up_to_ns) };
        Latency {
            request: request.into(),
            count: histogram.len(),
            sum_ns: *sum_ns,
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
            buckets: BOUNDS.map(bucket).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_separated_by_kind_and_show_outliers() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.list(), []);
        for _ in 0..998 {
            latencies.note(RequestKind::Write, Duration::from_micros(10));
        }
        latencies.note(RequestKind::Write, Duration::from_millis(5));
        latencies.note(RequestKind::Write, Duration::from_secs(3600));
        latencies.note(RequestKind::Flush, Duration::from_millis(1));
        let [write, flush] = &latencies.list()[..] else { panic!("two kinds") };
        assert_eq!((&*write.request, write.count, &*flush.request), ("write", 1000, "flush"));
        let near = |is: u64, wanted: u64| is.abs_diff(wanted) <= wanted / 100;
        assert!(near(write.p50_ns, 10_000) && near(write.p999_ns, 5_000_000), "{write:?}");
        assert!(near(write.max_ns, LONGEST), "{write:?}");
        let up_to = |ns| write.buckets.iter().find(|it| it.up_to_ns == ns).map(|it| it.count);
        assert_eq!(up_to(20_000), Some(998), "{write:?}");
        assert_eq!((up_to(2_000_000), up_to(10_000_000)), (Some(998), Some(999)), "{write:?}");
        assert_eq!(write.sum_ns, 998 * 10_000 + 5_000_000 + LONGEST);
    }
}

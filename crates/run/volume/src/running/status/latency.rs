//! Latencies of requests, from their submission to the layer until the answer.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::running::front::job::JobOp;

/// Maximum latency that is recorded, in ns: 90 seconds.
const LONGEST: u64 = 90_000_000_000;

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

/// Latencies since the volume was started, with a precision of two digits.
#[derive(Debug)]
pub(crate) struct Latencies([Histogram<u64>; 4]);

impl Default for Latencies {
    fn default() -> Self {
        let new = || Histogram::new_with_max(LONGEST, 2).expect("two digits are possible");
        Latencies([new(), new(), new(), new()])
    }
}

/// Latencies of one kind of request, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct Latency {
    /// `read`, `write`, `flush` or `trim` (which includes zeroing).
    pub request: String,
    pub count: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

impl Latencies {
    /// Records a latency.
    pub(crate) fn note(&mut self, kind: RequestKind, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(LONGEST);
        self.0[kind as usize].saturating_record(nanos.max(1));
    }

    /// Returns the kinds with at least one request.
    pub(crate) fn list(&self) -> Vec<Latency> {
        let all = RequestKind::ALL.iter().map(|(kind, name)| (&self.0[*kind as usize], name));
        let some = all.filter(|(histogram, _)| !histogram.is_empty());
        let latency = |(histogram, name): (&Histogram<u64>, &&str)| Latency {
            request: (**name).into(),
            count: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        };
        some.map(latency).collect()
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
    }
}

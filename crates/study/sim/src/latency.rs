//! Latencies of requests and their breakdown.
//!
//! The legs of a request are those of the command whose completion let the layer complete it. The
//! time before that command was sent belongs to the layer. The legs of every request add up to its
//! latency.

use hdrhistogram::Histogram;
use hostftl_core::{Cause, Command, Nanos};
use hostftl_drives::Spent;
use hostftl_trace::Op;
use serde::Serialize;

use crate::coarse::{self, BUCKETS};

/// Breakdown of a latency, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Legs {
    /// In the layer and in front of it: waiting for credits, space or earlier commands.
    pub layer: Nanos,
    /// In a device, for a command that reads or writes the layer's map.
    pub map: Nanos,
    /// Waiting for a die behind other commands, or for space in the drive's write buffer.
    pub queue: Nanos,
    /// Waiting for a die behind the drive's own garbage collection.
    pub gc: Nanos,
    /// Reading the rest of an indirection unit first.
    pub rmw: Nanos,
    /// On the bus, or waiting for it.
    pub bus: Nanos,
    /// In the die.
    pub die: Nanos,
}

impl Legs {
    /// Returns names and values in the order of reports.
    pub fn parts(&self) -> [(&'static str, Nanos); 7] {
        [
            ("layer", self.layer),
            ("map", self.map),
            ("queue", self.queue),
            ("gc", self.gc),
            ("rmw", self.rmw),
            ("bus", self.bus),
            ("die", self.die),
        ]
    }

    fn each(&mut self) -> [&mut Nanos; 7] {
        let Legs { layer, map, queue, gc, rmw, bus, die } = self;
        [layer, map, queue, gc, rmw, bus, die]
    }

    /// Returns the sum of all legs.
    pub fn total(&self) -> Nanos {
        self.parts().iter().map(|(_, part)| part).sum()
    }

    /// Returns the breakdown of a command. The whole time of a command for the map counts as `map`.
    pub fn of_command(command: &Command, spent: Spent) -> Legs {
        let is_map = |cause: Cause| matches!(cause, Cause::Map | Cause::Checkpoint);
        let map = match command {
            Command::Read { cause, .. } => is_map(*cause),
            Command::Program { tally, .. } => Cause::ALL
                .into_iter()
                .all(|cause| tally.get(cause) == 0 || is_map(cause) || cause == Cause::Pad),
            _ => false,
        };
        if map {
            Legs { map: spent.total(), ..Legs::default() }
        } else {
            Legs {
                queue: spent.queue,
                gc: spent.gc,
                rmw: spent.rmw,
                bus: spent.bus,
                die: spent.die,
                ..Legs::default()
            }
        }
    }

    /// Returns the legs of a request with latency `took`, from those of its last command. The
    /// remainder belongs to the layer. If the command began before the request arrived, its
    /// earliest legs are cut, in the order in which a drive performs them.
    #[must_use]
    pub fn of_request(&self, took: Nanos) -> Legs {
        let mut early = self.total().saturating_sub(took);
        let mut late = |part: Nanos| {
            let cut = early.min(part);
            early -= cut;
            part - cut
        };
        let (queue, gc, map) = (late(self.queue), late(self.gc), late(self.map));
        let (rmw, bus, die) = (late(self.rmw), late(self.bus), late(self.die));
        let layer = took - (queue + gc + map + rmw + bus + die);
        Legs { layer, map, queue, gc, rmw, bus, die }
    }

    fn add(&mut self, other: &Legs) {
        for (sum, (_, part)) in self.each().into_iter().zip(other.parts()) {
            *sum += part;
        }
    }

    /// Divides each leg by `count`.
    fn mean(mut self, count: u64) -> Legs {
        self.each().into_iter().for_each(|part| *part /= count.max(1));
        self
    }
}

/// Latencies of requests of one kind.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    max: Nanos,
    /// Number of requests and sum of their legs, by bucket.
    legs: Vec<(u64, Legs)>,
}

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new(3).expect("three digits are possible");
        Times { histogram, max: 0, legs: vec![Default::default(); BUCKETS] }
    }
}

impl Times {
    /// Records a request with latency `took`.
    pub fn note(&mut self, took: Nanos, legs: &Legs) {
        self.histogram.record(took).expect("the histogram grows");
        self.max = self.max.max(took);
        let (count, sum) = &mut self.legs[coarse::bucket(took)];
        *count += 1;
        sum.add(legs);
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the mean legs of the requests in bucket `from` and above.
    fn mean_from(&self, from: usize) -> Legs {
        let (mut number, mut all) = (0, Legs::default());
        for (count, legs) in &self.legs[from..] {
            number += count;
            all.add(legs);
        }
        all.mean(number)
    }

    /// Returns the figures, or `None` if there was no request.
    pub fn latency(&self) -> Option<Latency> {
        // A bucket of the histogram has a width, and its upper bound could exceed the exact
        // maximum.
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max);
        let legs = self.mean_from(0);
        (self.count() > 0).then(|| Latency {
            mean: legs.total(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: self.max,
            legs,
            legs_p99: self.mean_from(coarse::bucket(at(0.99))),
        })
    }
}

/// Latencies in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Mean: the sum of the mean legs.
    pub mean: Nanos,
    /// Median.
    pub p50: Nanos,
    /// 90th percentile.
    pub p90: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// 99.9th percentile.
    pub p999: Nanos,
    /// 99.99th percentile.
    pub p9999: Nanos,
    /// Maximum.
    pub max: Nanos,
    /// Breakdown of the mean.
    pub legs: Legs,
    /// Breakdown of the mean of requests near p99 and above (from 6 % below it).
    pub legs_p99: Legs,
}

/// Latencies by kind of request.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Reads.
    pub read: Times,
    /// Writes.
    pub write: Times,
    /// Flushes.
    pub flush: Times,
}

impl Latencies {
    /// Records a completed request. Discards are not recorded.
    pub fn note(&mut self, op: Op, took: Nanos, legs: &Legs) {
        match op {
            Op::Read => self.read.note(took, legs),
            Op::Write => self.write.note(took, legs),
            Op::Flush => self.flush.note(took, legs),
            Op::Discard => {}
        }
    }

    /// Returns the figures.
    pub fn figures(&self) -> LatencyNs {
        let Latencies { read, write, flush } = self;
        LatencyNs { read: read.latency(), write: write.latency(), flush: flush.latency() }
    }
}

/// Latencies from issue to completion; `None` if there was no such request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyNs {
    /// Reads.
    pub read: Option<Latency>,
    /// Writes.
    pub write: Option<Latency>,
    /// Flushes.
    pub flush: Option<Latency>,
}

impl LatencyNs {
    /// Returns the larger of the 99th percentiles of reads and writes.
    pub fn p99(&self) -> Option<u64> {
        self.read.iter().chain(&self.write).map(|it| it.p99).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_add_up_to_the_latency() {
        let command = Legs { queue: 50, gc: 20, rmw: 5, bus: 10, die: 100, ..Legs::default() };
        let late = command.of_request(200);
        assert_eq!((late.layer, late.queue, late.total()), (15, 50, 200));
        let early = command.of_request(120);
        assert_eq!((early.layer, early.queue, early.gc, early.total()), (0, 0, 15 - 10, 120));
        assert_eq!(Legs::default().of_request(7), Legs { layer: 7, ..Legs::default() });
    }

    #[test]
    fn percentiles_do_not_pass_the_longest() {
        let mut times = Times::default();
        (0..1000).for_each(|_| times.note(1_000, &Legs { die: 1_000, ..Legs::default() }));
        (0..20).for_each(|_| times.note(1_000_003, &Legs { gc: 1_000_003, ..Legs::default() }));
        let latency = times.latency().expect("there were requests");
        assert_eq!((latency.p50, latency.p99, latency.max), (1_000, 1_000_003, 1_000_003));
        assert_eq!(latency.legs_p99, Legs { gc: 1_000_003, ..Legs::default() });
        assert_eq!((latency.legs.die, latency.legs.gc), (980, 19_607));
        assert_eq!(latency.mean, latency.legs.total());
    }
}

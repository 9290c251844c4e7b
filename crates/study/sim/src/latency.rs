//! How long requests took, and where that time went.
//!
//! The legs of a request are those of the command whose end let the layer answer it; what came
//! before that command was sent is the layer's. They add up to the latency of every request.

use hdrhistogram::Histogram;
use hostftl_core::{Cause, Command, Nanos};
use hostftl_drives::Spent;
use hostftl_trace::Op;
use serde::Serialize;

use crate::coarse::{self, BUCKETS};

/// Where time went, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Legs {
    /// In the layer and before it: waiting for credit, for room, for earlier commands.
    pub layer: Nanos,
    /// In a device, for a command that reads or writes the layer's map.
    pub map: Nanos,
    /// Waiting for a die behind other commands, or for room in the drive's write buffer.
    pub queue: Nanos,
    /// Waiting for a die behind the drive's own collection.
    pub gc: Nanos,
    /// Reading the rest of a map unit first.
    pub rmw: Nanos,
    /// On the bus and waiting for it.
    pub bus: Nanos,
    /// In the die.
    pub die: Nanos,
}

impl Legs {
    /// The names and values, in the order in which reports show them.
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

    /// All of them.
    pub fn total(&self) -> Nanos {
        self.parts().iter().map(|(_, part)| part).sum()
    }

    /// Where the time of a command went; what the map needs counts as the map's.
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

    /// The legs of a request that took `took`: what its last command does not explain is the
    /// layer's, and what that command did before the request came, in the order in which a drive
    /// does it, does not count.
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

    /// A `count`th of each.
    fn mean(mut self, count: u64) -> Legs {
        self.each().into_iter().for_each(|part| *part /= count.max(1));
        self
    }
}

/// Requests of one kind.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    max: Nanos,
    /// Number and legs of those in each bucket.
    legs: Vec<(u64, Legs)>,
}

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new(3).expect("three digits are possible");
        Times { histogram, max: 0, legs: vec![Default::default(); BUCKETS] }
    }
}

impl Times {
    /// A request that took `took`.
    pub fn note(&mut self, took: Nanos, legs: &Legs) {
        self.histogram.record(took).expect("the histogram grows");
        self.max = self.max.max(took);
        let (count, sum) = &mut self.legs[coarse::bucket(took)];
        *count += 1;
        sum.add(legs);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Mean legs of those in the buckets from `from` on.
    fn mean_from(&self, from: usize) -> Legs {
        let (mut number, mut all) = (0, Legs::default());
        for (count, legs) in &self.legs[from..] {
            number += count;
            all.add(legs);
        }
        all.mean(number)
    }

    /// The figures; nothing when there was no request.
    pub fn latency(&self) -> Option<Latency> {
        // A bucket of the histogram has a width; the longest was noted exactly.
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
    /// The mean: the sum of the mean legs.
    pub mean: Nanos,
    /// The median.
    pub p50: Nanos,
    /// 9 of 10 are no longer.
    pub p90: Nanos,
    /// 99 of 100 are no longer.
    pub p99: Nanos,
    /// 999 of 1000 are no longer.
    pub p999: Nanos,
    /// 9999 of 10000 are no longer.
    pub p9999: Nanos,
    /// The longest.
    pub max: Nanos,
    /// Where the mean went.
    pub legs: Legs,
    /// Where the mean of those about p99 and above went (from 6 % below it).
    pub legs_p99: Legs,
}

/// How long requests took, by kind.
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
    /// A request is over; what a discard takes is not kept.
    pub fn note(&mut self, op: Op, took: Nanos, legs: &Legs) {
        match op {
            Op::Read => self.read.note(took, legs),
            Op::Write => self.write.note(took, legs),
            Op::Flush => self.flush.note(took, legs),
            Op::Discard => {}
        }
    }

    /// The figures.
    pub fn figures(&self) -> LatencyNs {
        let Latencies { read, write, flush } = self;
        LatencyNs { read: read.latency(), write: write.latency(), flush: flush.latency() }
    }
}

/// Latencies from issue to answer; `None` when there was no such request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyNs {
    /// Of reads.
    pub read: Option<Latency>,
    /// Of writes.
    pub write: Option<Latency>,
    /// Of flushes.
    pub flush: Option<Latency>,
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

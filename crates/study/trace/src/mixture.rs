//! Mixtures of synthetic workloads: `sequential:span=1g,placement=1+uniform:span=64m,count=50k`.
//!
//! Each part has an address range of its own, in the order of the parts. Parts with a rate are
//! ordered by time. Parts without one are interleaved evenly over the whole length, so all of them
//! end together.

use std::cmp::Ordering;
use std::str::FromStr;

use crate::compress::Compressibility;
use crate::error::TraceError;
use crate::record::{Extras, Op, Record};
use crate::synth::Synth;
use crate::workload::{Workload, workload};

/// Sign between two parts.
pub(crate) const PLUS: char = '+';

/// A mixture of at least two synthetic workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixture {
    parts: Vec<Workload>,
}

impl FromStr for Mixture {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let wrong = |why: String| TraceError::Workload { text: text.to_owned(), why };
        // The first part of a source comes without `synth:`, so it is optional for the others.
        let part = |part: &str| workload(part.strip_prefix("synth:").unwrap_or(part));
        let parts = text.split(PLUS).map(part).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let differ =
            |is: fn(&Workload, &Workload) -> bool| parts.iter().any(|it| !is(it, &parts[0]));
        if differ(|one, other| (one.iops > 0) == (other.iops > 0)) {
            return Err(wrong("some parts have iops= and others not; state it for all".into()));
        }
        if differ(|one, other| one.compress == other.compress) {
            return Err(wrong("parts differ in compress=; state the same for all".into()));
        }
        Ok(Mixture { parts })
    }
}

impl Mixture {
    /// Returns the parts in the order of their address ranges.
    pub fn parts(&self) -> &[Workload] {
        &self.parts
    }

    /// Returns the compressibility of the written data.
    pub(crate) fn compressibility(&self) -> Option<Compressibility> {
        self.parts[0].compress
    }

    /// Sets the compressibility of the written data.
    pub fn set_compressibility(&mut self, compress: Compressibility) {
        self.parts.iter_mut().for_each(|part| part.compress = Some(compress));
    }

    /// Reduces the numbers of reads and writes in proportion, to a sum of about `most`.
    pub fn shorten(&mut self, most: u64) {
        let all: u64 = self.parts.iter().map(|part| part.count).sum();
        for part in self.parts.iter_mut().filter(|_| all > most) {
            let share = u128::from(part.count) * u128::from(most) / u128::from(all);
            part.count = (share as u64).max(1);
        }
    }
}

/// Records of a mixture.
#[derive(Debug)]
pub(crate) struct Mixed(Vec<Part>);

/// Records of one part.
#[derive(Debug)]
struct Part {
    synth: Synth,
    next: Option<Record>,
    /// First sector of its range.
    first: u64,
    /// Number of reads and writes so far, and of all.
    made: u64,
    count: u64,
}

impl Mixed {
    /// Makes the records of a mixture. The parts have different seeds that follow from `seed`.
    pub(crate) fn new(mixture: &Mixture, seed: u64) -> Self {
        let mut first = 0;
        let parts = mixture.parts.iter().zip(0..).map(|(work, index)| {
            let mut synth = Synth::new(*work, seed.wrapping_add(index << 32));
            let part = Part { next: synth.next(), synth, first, made: 0, count: work.count };
            first += work.span;
            part
        });
        Mixed(parts.collect())
    }

    /// Returns the fields that writes can have besides the usual ones.
    pub(crate) fn extras(&self) -> Extras {
        let placement = self.0.iter().any(|part| part.synth.extras().placement);
        Extras { placement, ..Extras::default() }
    }
}

impl Part {
    /// Orders the next record of this part before or after that of another one. Without times, a
    /// flush comes first, because it belongs to the write before it.
    fn order(&self, other: &Part) -> Ordering {
        let time = |part: &Part| part.next.map_or(u64::MAX, |record| record.t_ns);
        let place = |part: &Part| {
            let is_flush = part.next.is_some_and(|record| record.op == Op::Flush);
            if is_flush { 0 } else { 2 * u128::from(part.made) + 1 }
        };
        let progress = |one: &Part, other: &Part| place(one) * u128::from(other.count);
        time(self).cmp(&time(other)).then(progress(self, other).cmp(&progress(other, self)))
    }
}

impl Iterator for Mixed {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let part = self.0.iter_mut().filter(|part| part.next.is_some());
        let part = part.min_by(|one, other| one.order(other))?;
        let record = std::mem::replace(&mut part.next, part.synth.next())?;
        if record.op == Op::Flush {
            return Some(record);
        }
        part.made += 1;
        Some(Record { lba: part.first + record.lba, ..record })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Vec<Record> {
        Mixed::new(&text.parse().expect("a mixture"), 7).collect()
    }

    #[test]
    fn parts_are_interleaved_evenly_in_ranges_of_their_own() {
        let all =
            records("sequential:span=1m,count=300,placement=2+uniform:span=64k,count=100,flush=10");
        let of = |id: u8| all.iter().filter(move |it| it.op == Op::Write && it.placement == id);
        assert_eq!((of(2).count(), of(0).count(), all.len()), (300, 100, 410));
        assert!(of(2).all(|it| it.end() <= 2048) && of(0).all(|it| (2048..2176).contains(&it.lba)));
        for head in (0..all.len()).step_by(41) {
            let made = |id: u8| {
                all[..head].iter().filter(|it| it.op == Op::Write && it.placement == id).count()
            };
            assert!(made(2).abs_diff(3 * made(0)) <= 3, "{head}");
        }
        let flush = all.iter().position(|it| it.op == Op::Flush).expect("a part flushes");
        assert_eq!(all[flush - 1].placement, 0, "a flush follows the write of its part");
        let alone: Vec<_> =
            Synth::new("sequential:span=1m,count=300".parse().expect("a workload"), 7).collect();
        assert!(of(2).map(|it| it.lba).eq(alone.iter().map(|it| it.lba)));
    }

    #[test]
    fn each_part_may_name_its_kind() {
        let mixture = |text: &str| text.parse::<Mixture>().expect("a mixture");
        assert_eq!(mixture("uniform:span=1m+mix"), mixture("uniform:span=1m+synth:mix"));
    }

    #[test]
    fn parts_with_a_rate_are_ordered_by_time() {
        let all = records("uniform:count=1000,iops=100+mix:count=100,iops=1k");
        assert!(all.is_sorted_by_key(|it| it.t_ns));
        assert_eq!(all.last().map(|it| it.t_ns), Some(9_990_000_000));
    }

    #[test]
    fn impossible_mixtures_are_refused() {
        let wrong = |text: &str| text.parse::<Mixture>().expect_err("impossible").to_string();
        assert!(wrong("uniform:iops=1+uniform").contains("some parts have iops="));
        assert!(wrong("uniform+uniform:compress=2").contains("parts differ in compress="));
        assert!(wrong("uniform+nothing").contains("'nothing' is not a workload"));
        assert!(wrong("uniform:placement=256+mix").contains("a placement id, 0 to 255"));
    }
}

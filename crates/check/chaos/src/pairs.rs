//! Combinations on one stack: for each pair of faults and commands, the number of seeds in which
//! both happened to the same stack, in either order. Frequent single events do not imply frequent
//! combinations.

use crate::events::{Named, Tallies};

/// Fault or command, with its events.
type Kind = (&'static str, &'static [Named]);

/// Kinds that are paired.
const KINDS: [Kind; 16] = [
    ("power cut", &[Named::Cut]),
    ("process killed", &[Named::Killed]),
    ("device lost", &[Named::FailedDevice, Named::Degraded]),
    ("two lost", &[Named::TwoLost, Named::SecondLoss]),
    ("stale device", &[Named::Stale]),
    ("write lost or misdirected", &[Named::LostWrite, Named::MisdirectedWrite]),
    ("rot", &[Named::MetadataRot, Named::LogRot, Named::DataRot]),
    ("replaced", &[Named::Replaced, Named::ReplacedOnline]),
    ("returned", &[Named::CameBack, Named::CameBackOnline]),
    ("added", &[Named::Added]),
    ("removed", &[Named::Leaves, Named::LeavesOnline]),
    ("removal cancelled", &[Named::Stayed]),
    ("spare taken", &[Named::SpareTaken]),
    ("scrubbed", &[Named::Scrubbed]),
    ("no space", &[Named::OutOfRoom, Named::TooSmall, Named::NoSpace]),
    ("journal away", &[Named::JournalAway, Named::JournalNeeded]),
];

/// Kind of a lost journal.
const JOURNAL: &str = "journal away";
/// Kinds that never occur together with it: where a journal is lost, other devices have no faults.
const APART: [&str; 6] = [
    "two lost",
    "stale device",
    "write lost or misdirected",
    "replaced",
    "returned",
    "spare taken",
];

/// Number of pairs.
const PAIRS: usize = KINDS.len() * (KINDS.len() - 1) / 2;

/// Number of seeds in which each pair occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs([u64; PAIRS]);

impl Default for Pairs {
    fn default() -> Self {
        Pairs([0; PAIRS])
    }
}

/// Returns the pairs, in the order of their counts.
fn all() -> impl Iterator<Item = (&'static Kind, &'static Kind)> {
    (0..KINDS.len()).flat_map(|second| (0..second).map(move |at| (&KINDS[at], &KINDS[second])))
}

fn happened(kind: &Kind, tallies: &Tallies) -> bool {
    kind.1.iter().any(|event| tallies.get(*event) > 0)
}

impl Pairs {
    /// Counts the combinations of a seed.
    pub fn note(&mut self, tallies: &Tallies) {
        let met = all().map(|(one, other)| happened(one, tallies) && happened(other, tallies));
        self.0.iter_mut().zip(met).for_each(|(count, met)| *count += u64::from(met));
    }

    /// Returns the two names of each possible pair, and its count.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let rows = all().zip(&self.0).map(|((one, other), count)| (one.0, other.0, *count));
        rows.filter(|(one, other, _)| *other != JOURNAL || !APART.contains(one))
    }

    /// Returns the counts in order, for a file.
    pub fn numbers(&self) -> &[u64] {
        &self.0
    }

    /// Restores the counts from a file. Returns `None` when their number differs, because another
    /// version wrote the file.
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        numbers.try_into().ok().map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_counts_once_per_seed() {
        let (mut it, mut tallies) = (Pairs::default(), Tallies::default());
        for event in [Named::Cut, Named::Cut, Named::CameBackOnline] {
            tallies.note(event);
        }
        it.note(&tallies);
        let met: Vec<_> = it.rows().filter(|row| row.2 > 0).collect();
        assert_eq!(met, [("power cut", "returned", 1)]);
        assert_eq!(Pairs::from_numbers(it.numbers()), Some(it));
        assert_eq!(it.rows().count(), PAIRS - APART.len());
    }
}

//! The write grain of a workload: the unit of which its first writes are whole multiples.

use crate::{Op, Record};

/// Number of writes that are examined.
const FIRST: u64 = 10_000;
/// Candidate units in sectors, from 4 KiB down. The last resort is one sector.
const UNITS: [u32; 3] = [8, 4, 2];
/// Writes out of a thousand that must be whole multiples of a unit.
const NEARLY_ALL: u64 = 950;

/// Estimator of a workload's write grain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grain {
    writes: u64,
    /// Writes that are whole multiples of each unit.
    whole: [u64; UNITS.len()],
}

impl Grain {
    /// Adds a request.
    pub fn see(&mut self, record: &Record) {
        if record.op != Op::Write || self.is_known() {
            return;
        }
        self.writes += 1;
        for (whole, unit) in self.whole.iter_mut().zip(UNITS) {
            let is_whole = (record.lba | record.sectors).is_multiple_of(unit.into());
            *whole += u64::from(is_whole);
        }
    }

    /// Returns whether enough writes were examined.
    pub fn is_known(&self) -> bool {
        self.writes == FIRST
    }

    /// Returns the largest unit up to 4 KiB, in sectors, of which nearly all writes were whole
    /// multiples. Returns 4 KiB if there were no writes.
    pub fn sectors(&self) -> u32 {
        let nearly = |whole: u64| whole * 1000 >= self.writes * NEARLY_ALL;
        let found = self.whole.iter().zip(UNITS).find(|(whole, _)| nearly(**whole));
        found.map_or(1, |(_, unit)| unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grain(writes: impl IntoIterator<Item = (u64, u64)>) -> u32 {
        let mut grain = Grain::default();
        for (lba, sectors) in writes {
            grain.see(&Record::new(0, Op::Write, 0, lba, sectors));
        }
        grain.sectors()
    }

    #[test]
    fn the_grain_divides_nearly_all_first_writes() {
        assert_eq!(grain([]), 8);
        assert_eq!(grain([(0, 8), (64, 32)]), 8);
        assert_eq!(grain([(63, 32), (95, 32)]), 1, "a partition behind 63 sectors");
        assert_eq!(grain([(4, 8), (8, 16)]), 4);
        let mut mixed = vec![(0, 8); 96];
        mixed.extend([(1, 1); 4]);
        assert_eq!(grain(mixed.clone()), 8);
        mixed.extend([(1, 1); 2]);
        assert_eq!(grain(mixed), 1, "6 of 102 are more than one in twenty");
        let late = (0..FIRST).map(|_| (0, 8)).chain((0..FIRST).map(|_| (1, 1)));
        assert_eq!(grain(late), 8, "what comes later does not count");
    }

    #[test]
    fn reads_do_not_count() {
        let mut grain = Grain::default();
        grain.see(&Record::new(0, Op::Read, 0, 1, 1));
        grain.see(&Record::new(0, Op::Discard, 0, 1, 1));
        assert_eq!(grain.sectors(), 8);
    }
}

//! The sample of a volume's addresses: grains of 1 MiB, which a hash selects and divides into
//! classes.
//!
//! Each class is an independent sample. Its grains are packed densely in the order of their
//! addresses, so that a class is a small volume with the locality of the large one.

use hostftl_core::SECTOR;

/// Sectors of a grain.
pub(super) const GRAIN: u64 = (1 << 20) / SECTOR as u64;

/// Hashes that select grains: class `c` has the hashes from `c * width` to `(c + 1) * width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    width: u64,
    classes: u64,
}

impl Selection {
    /// Selects about `grains` of the `all` grains of a volume for each of `classes` classes.
    pub(super) fn new(all: u64, grains: u64, classes: u64) -> Self {
        let width = u128::from(u64::MAX) * u128::from(grains) / u128::from(all.max(1));
        let width = (width as u64).min(u64::MAX / classes);
        Selection { width, classes }
    }

    /// Returns the first hash that is not selected.
    pub(super) fn limit(&self) -> u64 {
        // The division by the number of classes loses up to a grain in 2^64.
        if self.width == u64::MAX / self.classes { u64::MAX } else { self.width * self.classes }
    }

    /// Returns the class of a grain, if it has one.
    pub(super) fn class(&self, grain: u64) -> Option<usize> {
        let hash = hash(grain);
        (hash < self.limit()).then(|| (hash / self.width).min(self.classes - 1) as usize)
    }

    /// Returns the grains of each class of a volume with `all` grains, in order.
    pub(super) fn grains(&self, all: u64) -> Vec<Vec<u64>> {
        let mut classes = vec![Vec::new(); self.classes as usize];
        for grain in 0..all {
            if let Some(class) = self.class(grain) {
                classes[class].push(grain);
            }
        }
        classes
    }
}

/// Returns the hash of a grain's number: the finalizer of SplitMix64, in which every bit of the
/// number affects every bit of the hash.
#[inline]
pub(super) fn hash(grain: u64) -> u64 {
    let mut hash = grain.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// Returns the grains of a range, each with its first sector within the range and the sectors.
pub(super) fn pieces(lba: u64, sectors: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = lba + sectors;
    let last = if sectors == 0 { lba / GRAIN } else { end.div_ceil(GRAIN) };
    (lba / GRAIN..last).map(move |grain| {
        let from = lba.max(grain * GRAIN);
        (grain, from, end.min((grain + 1) * GRAIN) - from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_disjoint_and_have_the_requested_size() {
        let selection = Selection::new(100_000, 1000, 4);
        let classes = selection.grains(100_000);
        for class in &classes {
            // Five standard deviations.
            assert!(class.len().abs_diff(1000) < 160, "{}", class.len());
            assert!(class.is_sorted());
        }
        let all: usize = classes.iter().map(Vec::len).sum();
        let selected = (0..100_000).filter(|&grain| hash(grain) < selection.limit()).count();
        assert_eq!(all, selected);
        let whole = Selection::new(500, 500, 1);
        assert_eq!(whole.grains(500)[0].len(), 500, "all of a small volume");
        let halves = Selection::new(500, 250, 2).grains(500);
        assert_eq!(halves.concat().len(), 500);
    }

    /// Regular strides, as of stripes and of tables, must not meet the sample more or less often.
    #[test]
    fn strides_meet_the_sample_at_its_rate() {
        let selection = Selection::new(1 << 20, 1 << 16, 1);
        for stride in [1, 2, 3, 7, 8, 64, 100, 1024] {
            let met = (0..20_000).filter(|at| selection.class(at * stride).is_some()).count();
            // The rate is 1/16; five standard deviations.
            assert!(met.abs_diff(1250) < 5 * 35, "stride {stride}: {met}");
        }
    }

    #[test]
    fn ranges_are_split_at_grains() {
        let of = |lba, sectors| pieces(lba, sectors).collect::<Vec<_>>();
        assert_eq!(of(GRAIN - 8, 16), [(0, GRAIN - 8, 8), (1, GRAIN, 8)]);
        assert_eq!(of(GRAIN, GRAIN), [(1, GRAIN, GRAIN)]);
        assert_eq!(of(5, 0), []);
    }
}

//! Wear of the flash during a run: erases, life and energy.

use hostftl_core::{CAUSES, Cause, SECTOR};
use hostftl_drives::DeviceSpec;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::theory;
use crate::work::Work;

/// Maximum number of bars in the histogram of erases.
const BARS: u32 = 16;
/// Minimum mean number of erases per segment for estimates of uneven wear. In shorter runs,
/// differences between segments are not representative.
const EVEN_ERASES: f64 = 20.0;

/// A number for each cause; serialized as an object with the names of the causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByCause(pub(crate) [u64; CAUSES]);

impl ByCause {
    /// Returns names and values in the order of [`Cause::ALL`].
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Cause::ALL.iter().map(|&cause| (cause.name(), self.0[cause as usize]))
    }
}

impl Serialize for ByCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(CAUSES))?;
        for (name, value) in self.parts() {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

/// Number of segments with `from` to `to` erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Minimum number of erases.
    pub from: u32,
    /// Maximum number of erases.
    pub to: u32,
    /// Number of segments.
    pub segments: u64,
}

/// Erases per segment during the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Erases {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u32,
    /// 90th percentile.
    pub p90: u32,
    /// 99th percentile.
    pub p99: u32,
    /// Maximum.
    pub max: u32,
    /// Histogram of the erases.
    pub histogram: Vec<Bar>,
}

impl Erases {
    /// Summarizes the erases of all segments.
    pub fn of(mut erased: Vec<u32>) -> Self {
        erased.sort_unstable();
        let total: u64 = erased.iter().map(|&count| u64::from(count)).sum();
        let at = |share: f64| {
            let index = (erased.len() as f64 * share).ceil() as usize;
            erased.get(index.max(1) - 1).copied().unwrap_or(0)
        };
        Erases {
            mean: total as f64 / erased.len().max(1) as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: erased.last().copied().unwrap_or(0),
            histogram: histogram(&erased),
        }
    }
}

/// Returns bars of equal width over all counts.
fn histogram(sorted: &[u32]) -> Vec<Bar> {
    let (Some(&least), Some(&most)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let width = (most - least) / BARS + 1;
    let bars = (least..=most).step_by(width as usize);
    bars.map(|from| {
        let to = from.saturating_add(width - 1).min(most);
        let segments = sorted.partition_point(|&count| count <= to)
            - sorted.partition_point(|&count| count < from);
        Bar { from, to, segments: segments as u64 }
    })
    .collect()
}

/// Amount of data that the host can write until the flash is worn out, in 10^12 bytes. `None` if
/// nothing was written or erased.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Life {
    /// Rated erases of a block.
    pub cycles: u32,
    /// Capacity × cycles / write amplification, which assumes even wear.
    pub host_tb: Option<f64>,
    /// Estimate from the mean of the counted erases.
    pub host_tb_by_erases: Option<f64>,
    /// Estimate until the segment with the most erases is worn out, if wear continues in this way.
    /// `None` also if segments were erased fewer than 20 times on average, which is too short to
    /// measure it.
    pub host_tb_by_most_erased: Option<f64>,
}

impl Life {
    /// Estimates the life of a device of `spec`. The host wrote `written` sectors to its stack.
    pub fn of(spec: &DeviceSpec, written: u64, work: &Work, erases: &Erases) -> Self {
        let tb = |bytes: f64| bytes / 1e12;
        let capacity = (spec.sectors() * SECTOR as u64) as f64;
        let cycles = f64::from(spec.cycles());
        let host = (written * SECTOR as u64) as f64;
        let waf = work.programmed() as f64 / written as f64;
        let by = |erases: f64| {
            (host > 0.0 && erases > 0.0 && cycles > 0.0).then(|| tb(host * cycles / erases))
        };
        Life {
            cycles: spec.cycles(),
            host_tb: (written > 0 && waf > 0.0 && cycles > 0.0)
                .then(|| tb(theory::life_bytes(capacity, cycles, waf))),
            host_tb_by_erases: by(erases.mean),
            host_tb_by_most_erased: by(f64::from(erases.max))
                .filter(|_| erases.mean >= EVEN_ERASES),
        }
    }

    /// Returns the life of a stack of two devices: for each estimate that of the device that wears
    /// out first.
    #[must_use]
    pub fn shorter(self, other: Life) -> Life {
        let least = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let is_first = self.host_tb.unwrap_or(f64::MAX) <= other.host_tb.unwrap_or(f64::MAX);
        Life {
            cycles: if is_first { self.cycles } else { other.cycles },
            host_tb: least(self.host_tb, other.host_tb),
            host_tb_by_erases: least(self.host_tb_by_erases, other.host_tb_by_erases),
            host_tb_by_most_erased: least(
                self.host_tb_by_most_erased,
                other.host_tb_by_most_erased,
            ),
        }
    }
}

/// Energy of the flash during the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Energy {
    /// Total in mJ.
    pub mj: f64,
    /// In mJ per 10^9 bytes that the host wrote or read.
    pub mj_per_host_gb: Option<f64>,
    /// In nJ, by cause.
    pub nj_by_cause: ByCause,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erases_are_shown_as_shares_and_bars() {
        let erases = Erases::of((0..100).map(|index| index * 2).rev().collect());
        assert_eq!((erases.mean, erases.p50, erases.p90), (99.0, 98, 178));
        assert_eq!((erases.p99, erases.max), (196, 198));
        assert_eq!(erases.histogram[0], Bar { from: 0, to: 12, segments: 7 });
        assert_eq!(erases.histogram.iter().map(|bar| bar.segments).sum::<u64>(), 100);
        assert!(erases.histogram.len() <= 16);
        assert_eq!(Erases::of(vec![3; 5]).histogram, [Bar { from: 3, to: 3, segments: 5 }]);
        assert_eq!(Erases::of(Vec::new()).histogram, []);
    }

    #[test]
    fn causes_have_their_names_in_json() {
        let mut by = ByCause::default();
        by.0[Cause::DriveGc as usize] = 7;
        let json = serde_json::to_value(by).expect("it is plain");
        assert_eq!((&json["drive-gc"], &json["host"]), (&7.into(), &0.into()));
    }
}

//! Compressibility of a workload's data when its trace does not have it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::record::{Op, Record};

/// Share of the written bytes that compression saves.
///
/// Percentages are those of fio's `buffer_compress_percentage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressibility {
    /// A percentage: `low` for all writes, or drawn for each write uniformly from `low` to `high`.
    /// Both are at most 100.
    Saved {
        /// Lowest percentage.
        low: u8,
        /// Highest percentage, not below `low`.
        high: u8,
    },
    /// Ratio of the data's length to the compressed length in thousandths, from 1000. For each
    /// write one of the two nearest whole percentages is drawn, so that the mean is right.
    Ratio(u32),
}

/// Highest ratio. Higher numbers are probably percentages without their sign.
const MOST_RATIO: f64 = 20.0;

impl Compressibility {
    /// Returns the percentage saved by the `version`th write of a workload, which begins at sector
    /// `lba`.
    ///
    /// It depends on these numbers and `seed` only, so the same write has the same data under every
    /// layer.
    pub fn draw(self, seed: u64, lba: u64, version: u64) -> u8 {
        let number = mix(seed ^ mix(lba ^ mix(version)));
        let below = |choices: u64| (u128::from(number) * u128::from(choices)) >> 64;
        match self {
            Compressibility::Saved { low, high } => low + below(u64::from(high - low) + 1) as u8,
            Compressibility::Ratio(thousandths) => {
                // Millionths of the length; 10,000 of them are one per cent.
                let millionths = 1_000_000 - 1_000_000_000 / u64::from(thousandths);
                let more = below(10_000) < u128::from(millionths % 10_000);
                (millionths / 10_000) as u8 + u8::from(more)
            }
        }
    }
}

/// Returns the output of SplitMix64 for a state: each bit of the result depends on every bit of the
/// number.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl FromStr for Compressibility {
    type Err = String;

    /// Parses a ratio as in `2.9`, a percentage as in `67%`, or a range of percentages as in
    /// `20-80%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "compress={text}: expected a ratio from 1 to {MOST_RATIO}, as in compress=2.9, or \
                 the percentage that compression saves, as in compress=67% or compress=20-80%"
            )
        };
        let percent = |text: &str| text.parse::<u8>().ok().filter(|percent| *percent <= 100);
        let (digits, is_percent) = text.strip_suffix('%').map_or((text, false), |it| (it, true));
        if is_percent || digits.contains('-') {
            let (low, high) = digits.split_once('-').unwrap_or((digits, digits));
            return match (percent(low), percent(high)) {
                (Some(low), Some(high)) if low <= high => Ok(Compressibility::Saved { low, high }),
                _ => Err(wrong()),
            };
        }
        let ratio = digits.parse::<f64>().ok().filter(|it| (1.0..=MOST_RATIO).contains(it));
        ratio.map(|it| Compressibility::Ratio((it * 1000.0).round() as u32)).ok_or_else(wrong)
    }
}

impl fmt::Display for Compressibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compressibility::Saved { low, high } if low == high => write!(f, "{low}%"),
            Compressibility::Saved { low, high } => write!(f, "{low}-{high}%"),
            Compressibility::Ratio(thousandths) => write!(f, "{}", f64::from(*thousandths) / 1e3),
        }
    }
}

impl Serialize for Compressibility {
    /// Serializes its text form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Draws the compressibility of each write.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    choice: Compressibility,
    seed: u64,
    writes: u64,
}

impl Draws {
    /// Makes the draws of `choice` for `seed`.
    pub(crate) fn new(choice: Compressibility, seed: u64) -> Self {
        Draws { choice, seed, writes: 0 }
    }

    /// Sets the compressibility of `record` if it is a write.
    #[inline]
    pub(crate) fn apply(&mut self, record: &mut Record) {
        if record.op == Op::Write {
            self.writes += 1;
            record.saved = Some(self.choice.draw(self.seed, record.lba, self.writes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_percentages_are_read() {
        let all = |text: &str| text.parse::<Compressibility>();
        assert_eq!(all("67%"), Ok(Compressibility::Saved { low: 67, high: 67 }));
        assert_eq!(all("0-100%"), Ok(Compressibility::Saved { low: 0, high: 100 }));
        assert_eq!(
            (all("2.9"), all("1")),
            (Ok(Compressibility::Ratio(2900)), Ok(Compressibility::Ratio(1000)))
        );
        for text in ["20-80%", "67%", "2.9", "1", "20"] {
            assert_eq!(all(text).unwrap().to_string(), text);
        }
        let wrong = ["", "101%", "80-20", "-5", "5-", "a", "1-2-3", "300%", "67", "0.9", "NaN"];
        for wrong in wrong {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn generated_ratios_have_the_requested_mean() {
        for (ratio, saved) in [(1000, 0.0), (2900, 100.0 - 100.0 / 2.9), (20_000, 95.0)] {
            let draw = |version| Compressibility::Ratio(ratio).draw(1, version * 8, version);
            let mean = (0..20_000).map(|it| f64::from(draw(it))).sum::<f64>() / 20_000.0;
            assert!((mean - saved).abs() < 0.02, "{ratio}: {mean}, not {saved}");
        }
    }

    #[test]
    fn draws_fill_the_range_evenly_and_depend_on_the_seed() {
        let choice = Compressibility::Saved { low: 20, high: 29 };
        let mut counts = [0u32; 10];
        for version in 0..100_000 {
            counts[usize::from(choice.draw(1, version * 8 % 512, version)) - 20] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        let run = |seed| (0..64).map(|lba| choice.draw(seed, lba, 1)).collect::<Vec<_>>();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}

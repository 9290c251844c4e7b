//! How well a workload's data compresses, where its trace does not say.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::record::{Op, Record};

/// Per cent of their bytes that compressing writes saves: the same for all of them, or drawn for
/// each write, every value between two being as likely.
///
/// The per cent is that of fio's `buffer_compress_percentage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressibility {
    /// The least, up to 100.
    pub low: u8,
    /// The most, up to 100 and not below `low`.
    pub high: u8,
}

impl Compressibility {
    /// What the `version`th write of a workload saves when it begins at sector `lba`.
    ///
    /// It depends on nothing else but `seed`, so that the same write has the same data under every
    /// layer.
    pub fn draw(self, seed: u64, lba: u64, version: u64) -> u8 {
        let choices = u64::from(self.high - self.low) + 1;
        let number = mix(seed ^ mix(lba ^ mix(version)));
        self.low + ((u128::from(number) * u128::from(choices)) >> 64) as u8
    }
}

/// SplitMix64's last step: each bit of the result depends on every bit of the number.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl FromStr for Compressibility {
    type Err = String;

    /// A percentage as in `67`, or two as in `20-80`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let percent = |text: &str| text.parse::<u8>().ok().filter(|percent| *percent <= 100);
        match (percent(low), percent(high)) {
            (Some(low), Some(high)) if low <= high => Ok(Compressibility { low, high }),
            _ => Err(format!(
                "compress={text}: expected per cent that compression saves, as in compress=67, or \
                 a range as in compress=20-80"
            )),
        }
    }
}

impl fmt::Display for Compressibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.low == self.high {
            true => write!(f, "{}", self.low),
            false => write!(f, "{}-{}", self.low, self.high),
        }
    }
}

impl Serialize for Compressibility {
    /// As its text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Says of each write what compressing it saves.
#[derive(Clone, Debug)]
pub struct Draws {
    choice: Compressibility,
    seed: u64,
    writes: u64,
}

impl Draws {
    /// The draws of `choice` for `seed`.
    pub fn new(choice: Compressibility, seed: u64) -> Self {
        Draws { choice, seed, writes: 0 }
    }

    /// Says it of `record`, if it writes.
    #[inline]
    pub fn apply(&mut self, record: &mut Record) {
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
    fn percentages_are_read() {
        assert_eq!("67".parse(), Ok(Compressibility { low: 67, high: 67 }));
        assert_eq!("0-100".parse(), Ok(Compressibility { low: 0, high: 100 }));
        assert_eq!("20-80".parse::<Compressibility>().unwrap().to_string(), "20-80");
        for wrong in ["", "101", "80-20", "-5", "5-", "a", "1-2-3", "300"] {
            assert!(wrong.parse::<Compressibility>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn draws_fill_the_range_evenly_and_depend_on_the_seed() {
        let choice = Compressibility { low: 20, high: 29 };
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
